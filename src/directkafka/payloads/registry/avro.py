"""The decoder of Avro records that name their schemas: each is read with the schema that it was written with."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from directkafka.errors.registry import SchemaNotFoundError
from directkafka.options.schemas.avro import AvroSchema, AvroType, parse_schema
from directkafka.payloads.avro.decoder import AvroDecoder
from directkafka.payloads.avro.kernels.read_records import IS_NULL, IS_UNKNOWN
from directkafka.payloads.registry.client import RegisteredSchema, RegistryClient
from directkafka.payloads.registry.frames import NO_SCHEMA, Frames, read_frames, read_headers
from directkafka.payloads.texts import Texts, plain

#: Schemas of one batch that the registry does not have, before the others are no longer asked for: bytes that are no
#: frames may look like as many numbers as there are records.
_MISSED_MAX: Final = 20


def parse_registered(texts: tuple[str, ...]) -> AvroSchema:
    """A schema and those that it refers to, each behind those that it refers to itself; its own is the last.

    Raises:
        ValueError: one of them is no schema.
    """
    names: dict[str, AvroType] = {}
    for text in texts[:-1]:
        names |= parse_schema(text, names).names
    return parse_schema(texts[-1], names)


class RegisteredAvroDecoder:
    """Decodes records into columns of one schema, in one thread.

    Args:
        reader: the schema of the columns.
        client: knows the schemas that records were written with.
        header: name of the header that may name a record's schema.
        is_strict: whether a schema that the registry does not have is an error. Else such records cannot be read now;
            if they are read again, they may be.

    Attributes:
        headers: of the records that are decoded next; None: nobody looks for schemas there.
        problems: what is wrong with a record of the last column, by its number.
        schema_ids: of the last column, the number of each record's schema; null where there is none.
    """

    def __init__(self, reader: AvroSchema, client: RegistryClient, header: str, *, is_strict: bool = False) -> None:
        self._decoder = AvroDecoder(reader)
        self._client = client
        self._header = header
        self._is_strict = is_strict
        #: The first instruction of each schema's program, or why there is none.
        self._programs: dict[int, int | str] = {}
        self.type = self._decoder.type
        self.headers: pa.Array | None = None
        self.problems: dict[int, str] = {}
        self.schema_ids: pa.Array = pa.nulls(0, pa.int32())

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
        found = Texts.of(texts)
        nulls = texts.is_null().to_numpy(zero_copy_only=False) if texts.null_count else np.zeros(len(texts), bool)
        headers = self.headers
        frames = read_frames(found, nulls) if headers is None else read_headers(found, nulls, headers, self._header)
        programs = self._programs_of(frames, nulls)
        array = self._decoder.read(found, frames.starts, programs)
        self.problems = dict(sorted({**frames.problems, **self._decoder.problems}.items()))
        missing = frames.schemas == NO_SCHEMA
        self.schema_ids = pa.array(frames.schemas.astype(np.uint32).astype(np.int32), mask=missing)
        return array

    def _programs_of(self, frames: Frames, nulls: Any) -> Any:
        programs, missed = np.where(nulls, IS_NULL, IS_UNKNOWN).astype(np.int64), list[int]()
        for number in np.unique(frames.schemas).tolist():
            if number == NO_SCHEMA:
                continue
            program = self._program(number, missed)
            rows = np.flatnonzero(frames.schemas == number)
            if isinstance(program, int):
                programs[rows] = program
            else:
                frames.problems.update(dict.fromkeys(rows.tolist(), program))
        return programs

    def _program(self, number: int, missed: list[int]) -> int | str:
        if number not in self._programs:
            if len(missed) == _MISSED_MAX:
                return f"schema {number} was not asked for: {_MISSED_MAX} others of this batch are unknown"
            try:
                registered = self._client.schema(number)
            except SchemaNotFoundError as error:
                if self._is_strict:
                    raise
                missed.append(number)
                return str(error)
            try:
                self._programs[number] = self._decoder.programs.add(avro_of(registered))
            except (ValueError, RecursionError) as error:
                self._programs[number] = f"it was written with schema {number}: {error}"
        return self._programs[number]


def avro_of(registered: RegisteredSchema) -> AvroSchema:
    """A registered schema that is Avro's.

    Raises:
        ValueError: it is not, or is no schema.
    """
    if registered.type != "AVRO":
        raise ValueError(f"it is of type {registered.type}, not AVRO")
    return parse_registered(registered.texts)
