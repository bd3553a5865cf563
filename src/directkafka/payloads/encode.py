"""The encoding of payloads, in the task that writes them: columns of values and keys to bytes.

What is looked up in a registry is looked up by the driver, once (:func:`column_encoders`); tasks get the schema and the
number that stands before each record, and ask nobody.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from directkafka.errors import OptionError
from directkafka.errors.registry import UnencodableRowError
from directkafka.options.schemas.avro import parse_schema
from directkafka.options.schemas.avro_texts import schema_text
from directkafka.options.written_payloads import WrittenFormat, WrittenPayload, WrittenPayloads
from directkafka.payloads.json.texts import can_be_json, json_records

_TYPES: Final = {"avro": "AVRO", "json": "JSON"}
_MAGIC: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnEncoder:
    """What a column becomes; picklable.

    Attributes:
        column: its name.
        format: what its bytes are.
        schema: the text of an Avro schema.
        prefix: stands before each record.
    """

    column: str
    format: WrittenFormat
    schema: str = ""
    prefix: bytes = b""

    def problem(self, kind: pa.DataType) -> str | None:
        """Why values of a type cannot be written; None: they can."""
        if self.format == "json":
            fits = pa.types.is_struct(kind) and can_be_json(kind)
            return None if fits else f"{kind} is no struct, or has parts that JSON has no form for"
        try:
            self._avro(kind)
        except ValueError as error:
            return str(error)
        return None

    def _avro(self, kind: pa.DataType) -> object:
        # Not above: who writes no Avro loads no kernel.
        from directkafka.payloads.avro.encoder import AvroEncoder

        return AvroEncoder(parse_schema(self.schema), kind, prefix=self.prefix)


def encoded(batches: Iterable[pa.RecordBatch], encoders: Sequence[ColumnEncoder]) -> Iterator[pa.RecordBatch]:
    """The rows with bytes in the columns that are encoded.

    Args:
        batches: of one schema.
        encoders: at most one for each column.

    Raises:
        UnencodableRowError: a value has no encoding.
    """
    made: dict[str, _Encode] = {}
    for batch in batches:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for encoder in encoders:
            if encoder.column in columns:
                found = made.setdefault(encoder.column, _Encode(encoder))
                columns[encoder.column] = found(columns[encoder.column])
        yield pa.record_batch(columns)


def encoding_problems(schema: pa.Schema, encoders: Sequence[ColumnEncoder]) -> list[str]:
    """What keeps columns from being encoded, one sentence each.

    Args:
        schema: the columns.
        encoders: at most one for each.
    """
    problems = []
    for encoder in encoders:
        if encoder.column not in schema.names:
            problems.append(f"there is no column {encoder.column!r}, which {encoder.column}.format is about")
        elif (problem := encoder.problem(schema.field(encoder.column).type)) is not None:
            problems.append(f"column {encoder.column!r} cannot be {encoder.format}: {problem}")
    return problems


def encoded_schema(schema: pa.Schema, encoders: Sequence[ColumnEncoder]) -> pa.Schema:
    """The columns once they are encoded."""
    names = {encoder.column for encoder in encoders}
    return pa.schema([field.with_type(pa.binary()) if field.name in names else field for field in schema])


class _Encode:
    """Encodes one column, batch by batch, in one thread."""

    def __init__(self, encoder: ColumnEncoder) -> None:
        self._encoder = encoder
        self._avro: object | None = None

    def __call__(self, rows: pa.Array) -> pa.Array:
        encoder = self._encoder
        try:
            if encoder.format == "json":
                texts = json_records(rows).cast(pa.binary())
                return pc.binary_join_element_wise(encoder.prefix, texts, b"") if encoder.prefix else texts
            if self._avro is None:
                self._avro = encoder._avro(rows.type)
            return self._avro.encode(rows)  # type: ignore[attr-defined]
        except (ValueError, pa.ArrowInvalid) as error:
            raise UnencodableRowError(column=encoder.column, format=encoder.format, reason=str(error)) from error


def column_encoders(payloads: WrittenPayloads, topic: str | None) -> tuple[ColumnEncoder, ...]:
    """What columns become, with the registry's numbers of their schemas.

    Args:
        payloads: what the options say.
        topic: where all rows go; None: rows name their topics.

    Raises:
        OptionError: no subject is named, and not all rows go to one topic; or the registry's schema is of another
            format.
        RegistryError: the registry does not answer, refuses, or does not have the schema.
    """
    return tuple(_encoder(payload, topic) for payload in payloads)


def _encoder(payload: WrittenPayload, topic: str | None) -> ColumnEncoder:
    if payload.registry is None:
        return ColumnEncoder(column=payload.column, format=payload.format, schema=payload.schema)
    # Not above: who writes without a registry loads no client.
    from directkafka.payloads.registry.avro import avro_of
    from directkafka.payloads.registry.client import client_of

    subject = payload.subject
    if subject is None:
        if topic is None:
            reason = (
                f"must be given, since rows name their topics: the subject of one is its name and -{payload.column}"
            )
            raise OptionError(option=f"{payload.column}.registry.subject", reason=reason)
        subject = f"{topic}-{payload.column}"
    client, schema, type_ = client_of(payload.registry), payload.schema, _TYPES[payload.format]
    if schema:
        number = client.id_of(subject, schema, type_, registers=payload.registers)
    else:
        found = client.version(subject, payload.version)
        number = found.id
        try:
            if found.type != type_:
                raise ValueError(f"it is of type {found.type}, not {type_}")
            schema = schema_text(avro_of(found)) if payload.format == "avro" else ""
        except ValueError as error:
            place = f"version {payload.version} of the subject {subject}"
            raise OptionError(option=f"{payload.column}.registry.subject", reason=f"{place}: {error}") from None
    prefix = struct.pack(">bI", _MAGIC, number)
    return ColumnEncoder(column=payload.column, format=payload.format, schema=schema, prefix=prefix)
