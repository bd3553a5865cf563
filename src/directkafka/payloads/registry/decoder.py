"""The decoder of records that name their schemas: each is read with the schema that it was written with."""

from __future__ import annotations

from typing import Any, Final, Protocol
from uuid import UUID

import numpy as np
import pyarrow as pa

from directkafka.errors.registry import SchemaNotFoundError
from directkafka.payloads.kernels.nodes import IS_NULL, IS_UNKNOWN
from directkafka.payloads.registry.client import RegisteredSchema, RegistryClient
from directkafka.payloads.registry.frames import FIRST_GUID, NO_SCHEMA, Frames, read_frames, read_headers
from directkafka.payloads.texts import Texts, plain

#: Schemas of one batch that the registry does not have, before the others are no longer asked for: bytes that are no
#: frames may look like as many numbers as there are records.
_MISSED_MAX: Final = 20
_NUMBER_MAX: Final = (1 << 32) - 1
#: Schemas and messages that one range has: bytes that are no frames may name any number of messages.
_PROGRAMS_MAX: Final = 1_000


class RecordColumns(Protocol):
    """The columns of one format's schema.

    Attributes:
        type: of the column.
        names_messages: whether a record names a message behind its schema.
        problems: what is wrong with a record of the last column, by its number.
    """

    type: pa.DataType
    names_messages: bool
    problems: dict[int, str]

    def program(self, registered: RegisteredSchema, indexes: tuple[int, ...]) -> int:
        """What reads records of a schema; ValueError if it cannot be read."""

    def read(self, texts: Texts, starts: Any, programs: Any) -> pa.Array:
        """Decode records that have something in front, each by a program."""


class RegisteredDecoder:
    """Decodes records into columns of one schema, in one thread.

    Args:
        columns: that they become.
        client: knows the schemas that records were written with.
        header: name of the header that may name a record's schema.
        is_strict: whether a schema that the registry does not have is an error. Else such records cannot be read now;
            if they are read again, they may be.

    Attributes:
        headers: of the records that are decoded next; None: nobody looks for schemas there.
        problems: what is wrong with a record of the last column, by its number.
        schema_ids: of the last column, the number of each record's schema; null where there is none.
        missed_row: the first record that names the schema that is not there, where that was an error.
    """

    def __init__(self, columns: RecordColumns, client: RegistryClient, header: str, *, is_strict: bool = False) -> None:
        self._columns = columns
        self._client = client
        self._header = header
        self._is_strict = is_strict
        #: The program of each schema and message, or why there is none.
        self._programs: dict[tuple[int, tuple[int, ...]], int | str] = {}
        self.type = columns.type
        self.headers: pa.Array | None = None
        self.problems: dict[int, str] = {}
        self.schema_ids: pa.Array = pa.nulls(0, pa.int32())
        self.missed_row: int | None = None

    def decode(self, texts: pa.Array) -> pa.Array:
        """Decode a column.

        Args:
            texts: binary.

        Returns:
            A row for each record; null for a null.

        Raises:
            RegistryUnavailableError: a schema that is not known yet cannot be asked for.
            RegistryAccessError: the registry refuses.
            SchemaNotFoundError: it does not have a schema, where that is an error.
        """
        texts = plain(texts)
        records = Texts.of(texts)
        nulls = texts.is_null().to_numpy(zero_copy_only=False) if texts.null_count else np.zeros(len(texts), bool)
        frames = self._frames_of(records, nulls)
        programs = self._programs_of(frames, nulls)
        array = self._columns.read(records, frames.starts, programs)
        self.problems = dict(sorted({**self._columns.problems, **frames.problems}.items()))
        missing = frames.schemas == NO_SCHEMA
        self.schema_ids = pa.array(frames.schemas.astype(np.uint32).astype(np.int32), mask=missing)
        return array

    def _frames_of(self, texts: Texts, nulls: Any) -> Frames:
        names_messages = self._columns.names_messages
        if self.headers is None:
            return read_frames(texts, nulls, names_messages=names_messages)
        return read_headers(texts, nulls, self.headers, self._header, names_messages=names_messages)

    def _programs_of(self, frames: Frames, nulls: Any) -> Any:
        programs, missed = np.where(nulls, IS_NULL, IS_UNKNOWN).astype(np.int64), list[int]()
        self._replace_guids(frames)
        rows = np.flatnonzero(frames.schemas != NO_SCHEMA)
        # Numbers of schemas have 31 bits.
        named = (frames.messages[rows] << 32) | frames.schemas[rows]
        keys, firsts, key_indexes = np.unique(named, return_index=True, return_inverse=True)
        programs_or_reasons = [
            self._program(key & _NUMBER_MAX, frames.paths[key >> 32], missed, row)
            for key, row in zip(keys.tolist(), rows[firsts].tolist(), strict=True)
        ]
        known = np.array(
            [program if isinstance(program, int) else IS_UNKNOWN for program in programs_or_reasons], np.int64
        )
        if len(rows):
            programs[rows] = known[key_indexes.reshape(-1)]
        for row, key_index in (
            zip(rows.tolist(), key_indexes.reshape(-1).tolist(), strict=True) if IS_UNKNOWN in known else ()
        ):
            if known[key_index] == IS_UNKNOWN:
                frames.problems[row] = str(programs_or_reasons[key_index])
        return programs

    def _replace_guids(self, frames: Frames) -> None:
        """Put the numbers of schemas in place of their GUIDs, or say of their records why there is none."""
        rows, missed = np.flatnonzero(frames.schemas <= FIRST_GUID), list[UUID]()
        # Not all GUIDs: some may stand beside records that are null, or in headers that name nothing.
        codes, firsts, code_indexes = np.unique(
            FIRST_GUID - frames.schemas[rows], return_index=True, return_inverse=True
        )
        numbers_or_reasons = [
            self._id_of_guid(frames.guids[code], missed, row)
            for code, row in zip(codes.tolist(), rows[firsts].tolist(), strict=True)
        ]
        numbers = np.array(
            [NO_SCHEMA if isinstance(number, str) else number for number in numbers_or_reasons], np.int64
        )
        frames.schemas[rows] = numbers[code_indexes]
        for row, code_index in zip(rows.tolist(), code_indexes.tolist(), strict=True) if NO_SCHEMA in numbers else ():
            if numbers[code_index] == NO_SCHEMA:
                frames.problems[row] = str(numbers_or_reasons[code_index])

    def _id_of_guid(self, guid: UUID, missed: list[UUID], row: int) -> int | str:
        if len(missed) == _MISSED_MAX and not self._client.knows(guid):
            return f"the schema with the GUID {guid} was not asked for: {_MISSED_MAX} others of this batch are unknown"
        try:
            return self._client.id_of_guid(guid)
        except SchemaNotFoundError as error:
            if self._is_strict:
                self.missed_row = row
                raise
            missed.append(guid)
            return str(error)

    def _program(self, number: int, indexes: tuple[int, ...], missed: list[int], row: int) -> int | str:
        key = number, indexes
        if key not in self._programs:
            if len(missed) == _MISSED_MAX and not self._client.knows(number):
                return f"schema {number} was not asked for: {_MISSED_MAX} others of this batch are unknown"
            if len(self._programs) == _PROGRAMS_MAX:
                return f"schema {number} was not read: {_PROGRAMS_MAX} schemas and messages of the registry are known"
            try:
                registered = self._client.schema(number)
            except SchemaNotFoundError as error:
                if self._is_strict:
                    self.missed_row = row
                    raise
                missed.append(number)
                return str(error)
            try:
                self._programs[key] = self._columns.program(registered, indexes)
            except (ValueError, RecursionError, OverflowError) as error:
                self._programs[key] = f"it was written with schema {number}: {error}"
        return self._programs[key]
