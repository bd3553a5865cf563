"""The decoder of texts: bytes of UTF-8 to strings."""

from __future__ import annotations

import pyarrow as pa


class TextDecoder:
    """Decodes columns of UTF-8; what is none becomes null.

    Attributes:
        problems: what is wrong with a text of the last column, by its number.
    """

    def __init__(self) -> None:
        self.problems: dict[int, str] = {}

    def decode(self, texts: pa.Array) -> pa.Array:
        """A string for each text; null for a null.

        Args:
            texts: bytes or strings.
        """
        self.problems = {}
        if not pa.types.is_binary(texts.type):
            texts = texts.cast(pa.binary())
        strings = texts.view(pa.string())
        try:
            strings.validate(full=True)
        except pa.ArrowInvalid:
            return pa.array([self._read(number, text) for number, text in enumerate(texts.to_pylist())], pa.string())
        return strings

    def _read(self, number: int, text: bytes | None) -> str | None:
        try:
            return None if text is None else text.decode()
        except UnicodeDecodeError as error:
            self.problems[number] = f"byte 0x{text[error.start]:02x} at position {error.start} is no UTF-8"  # type: ignore[index]
            return None
