"""Programs of the kernel: what it does, one instruction after the other, with the bytes of a record.

A program comes from the schema that a record was written with and the schema that it is read with, resolved by Avro's
rules (specification 1.12, "Schema Resolution"): once, however many records. An instruction is a line of
:data:`FIELDS` numbers: what is done, the node of the column that it is done to, and two more.
"""

from __future__ import annotations

from typing import Final

import numpy as np

#: Numbers of an instruction.
FIELDS: Final = 5
OPERATION: Final = 0
NODE: Final = 1
FIRST: Final = 2
SECOND: Final = 3
#: Whether rows of the column may be written a second time, so that their bits of validity must be set: those below
#: lists and maps, whose rows are taken back when a record turns out to be malformed.
AGAIN: Final = 4

# Operations. The record is at its end.
END: Final = 0
#: Go on at instruction FIRST.
JUMP: Final = 1
#: A number below FIRST is read: go on at the instruction that is so many behind this one and the next.
BRANCH: Final = 2
#: The column's row is null, with all that is below it.
NULL: Final = 3
#: The column's row is not null: a struct below a list.
VALID: Final = 4
BOOLEAN: Final = 5
INT: Final = 6
LONG: Final = 7
#: A timestamp: a number, times FIRST, divided by SECOND.
MOMENT: Final = 8
FLOAT: Final = 9
DOUBLE: Final = 10
INT_TO_FLOAT: Final = 11
INT_TO_DOUBLE: Final = 12
FLOAT_TO_DOUBLE: Final = 13
#: A text or bytes behind their length, or FIRST bytes.
TEXT: Final = 14
BYTES: Final = 15
FIXED: Final = 16
#: One of FIRST texts, by its number: the instructions behind this one have the place of each among the constants in
#: FIRST and its length in SECOND; a length below 0 is a symbol that the reader does not have.
ENUM: Final = 17
#: A decimal of bytes behind their length, or of FIRST bytes; of SECOND digits at most.
DECIMAL: Final = 18
FIXED_DECIMAL: Final = 19
#: Three unsigned numbers of four bytes, into the three columns below.
DURATION: Final = 20
#: A UUID's 16 bytes, as its text.
UUID: Final = 21
SKIP_NUMBER: Final = 22
#: FIRST bytes, or bytes behind their length.
SKIP: Final = 23
SKIP_BYTES: Final = 24
#: A list or a map begins or has its next block; without one, go on at FIRST. An element has SECOND bytes at least.
LIST: Final = 25
#: An element is read: the next one begins at FIRST, unless the block is at its end.
NEXT_ELEMENT: Final = 26
#: FIRST bytes are read from place SECOND of the constants, until :data:`CONSTANT_END`.
CONSTANT: Final = 27
CONSTANT_END: Final = 28
#: Go on at FIRST, and behind this instruction after :data:`RETURN`.
CALL: Final = 29
RETURN: Final = 30
#: The record cannot be read: reason FIRST.
FAIL: Final = 31
#: No instruction: what :data:`ENUM` says.
SYMBOL: Final = 32

#: In place of a node: what is read goes nowhere.
NOWHERE: Final = -1
INSTRUCTIONS_MAX: Final = 500_000


class Program:
    """A program, as it is made and as it is run.

    Attributes:
        reasons: of :data:`FAIL`, by their numbers.
    """

    def __init__(self) -> None:
        self._lines: list[list[int]] = []
        self._constants = bytearray()
        self._paths: list[str] = []
        self.reasons: list[str] = []

    def __len__(self) -> int:
        return len(self._lines)

    def add(
        self,
        operation: int,
        node: int = NOWHERE,
        first: int = 0,
        second: int = 0,
        *,
        again: bool = False,
        path: str = "",
    ) -> int:
        """Add an instruction; its number.

        Raises:
            ValueError: there are too many.
        """
        if len(self._lines) == INSTRUCTIONS_MAX:
            raise ValueError(f"it takes more than {INSTRUCTIONS_MAX} steps to read a record")
        self._lines.append([operation, node, first, second, int(again)])
        self._paths.append(path)
        return len(self._lines) - 1

    def go_on(self, number: int, at: int | None = None) -> None:
        """Let an instruction that is there go on at another one; behind the last one when none is given."""
        self._lines[number][FIRST] = len(self._lines) if at is None else at

    def fail(self, reason: str, path: str) -> None:
        """Add the failure of records that come here."""
        self.add(FAIL, first=len(self.reasons), path=path)
        self.reasons.append(reason)

    def constant(self, raw: bytes) -> int:
        """The place of bytes among the constants."""
        self._constants += raw
        return len(self._constants) - len(raw)

    def path(self, number: int) -> str:
        """The field that an instruction is about."""
        return self._paths[number]

    def placed(self, first: int, first_constant: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], bytes]:
        """The instructions, one after the other, and the constants, as they are behind those of other programs.

        Args:
            first: how many instructions are before.
            first_constant: how many bytes of constants are before.
        """
        lines = np.array(self._lines, np.int64).reshape(-1, FIELDS)
        operations = lines[:, OPERATION]
        lines[np.isin(operations, (JUMP, LIST, NEXT_ELEMENT, CALL)), FIRST] += first
        lines[operations == NEXT_ELEMENT, SECOND] += first
        lines[operations == SYMBOL, FIRST] += first_constant
        lines[operations == CONSTANT, SECOND] += first_constant
        return lines.reshape(-1), bytes(self._constants)

    def begins_with(self, operation: int) -> bool:
        """Whether the first instruction is of this kind."""
        return bool(self._lines) and self._lines[0][OPERATION] == operation
