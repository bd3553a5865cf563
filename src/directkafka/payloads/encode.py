"""The encoding of payloads, in the task that writes them: columns of values and keys to bytes.

The driver asks the registry (:func:`column_encodings`) when a pipeline is checked and when it begins. Tasks get the
schema and the number that stands before each record, and ask nobody.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from directkafka.errors import OptionError
from directkafka.errors.registry import UnencodableRowError
from directkafka.options.schemas.avro import parse_schema
from directkafka.options.schemas.avro_texts import schema_text
from directkafka.options.schemas.protobuf.files import parse_protobuf
from directkafka.options.schemas.protobuf.schema import ProtobufSchema, schema_of_text
from directkafka.options.written_payloads import WrittenFormat, WrittenPayload, WrittenPayloads
from directkafka.payloads.json.texts import can_be_json, json_records
from directkafka.payloads.kernels.written import TooManyBytesError
from directkafka.payloads.registry.message_indexes import message_indexes

if TYPE_CHECKING:
    from directkafka.payloads.avro.encoder import AvroEncoder
    from directkafka.payloads.protobuf.encoder import ProtobufEncoder
    from directkafka.payloads.registry.client import RegisteredSchema

_TYPES: Final = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}
_MAGIC: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnEncoding:
    """What a column becomes; picklable.

    Attributes:
        column: its name.
        format: what its bytes are.
        schema: the text of an Avro schema; of a message's, that of :meth:`ProtobufSchema.text`.
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
            self.encoder(kind)
        except ValueError as error:
            return str(error)
        return None

    def encoder(self, kind: pa.DataType) -> AvroEncoder | ProtobufEncoder:
        """What encodes a type by a schema.

        Raises:
            ValueError: the schema has no room for it.
        """
        # Not above: a process loads no kernels but those of the formats that it writes or checks.
        if self.format == "avro":
            from directkafka.payloads.avro.encoder import AvroEncoder

            return AvroEncoder(parse_schema(self.schema), kind, prefix=self.prefix)
        from directkafka.payloads.protobuf.encoder import ProtobufEncoder

        return ProtobufEncoder(schema_of_text(self.schema), kind, prefix=self.prefix)


def encoded(batches: Iterable[pa.RecordBatch], encodings: Sequence[ColumnEncoding]) -> Iterator[pa.RecordBatch]:
    """The rows with bytes in the columns that are encoded.

    Args:
        batches: of one schema.
        encodings: at most one for each column.

    Raises:
        UnencodableRowError: a value has no encoding.
        TooManyBytesError: the record of one row has more than 2 GiB.
    """
    made = {encoding.column: _ColumnEncoder(encoding) for encoding in encodings}
    for batch in batches:
        yield from _encoded(batch, made) if made else (batch,)


def _encoded(batch: pa.RecordBatch, made: Mapping[str, _ColumnEncoder]) -> Iterator[pa.RecordBatch]:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    try:
        columns |= {name: encode(columns[name]) for name, encode in made.items() if name in columns}
    except TooManyBytesError:
        if batch.num_rows == 1:
            raise
        half = batch.num_rows // 2
        yield from _encoded(batch.slice(0, half), made)
        yield from _encoded(batch.slice(half), made)
    else:
        yield pa.record_batch(columns)


def encoding_problems(schema: pa.Schema, encodings: Sequence[ColumnEncoding]) -> list[str]:
    """What keeps columns from being encoded, one sentence each.

    Args:
        schema: the columns.
        encodings: at most one for each.
    """
    problems = []
    for encoding in encodings:
        if encoding.column not in schema.names:
            problems.append(f"there is no column {encoding.column!r}, which {encoding.column}.format is about")
        elif (problem := encoding.problem(schema.field(encoding.column).type)) is not None:
            problems.append(f"column {encoding.column!r} cannot be {encoding.format}: {problem}")
    return problems


def encoded_schema(schema: pa.Schema, encodings: Sequence[ColumnEncoding]) -> pa.Schema:
    """The columns once they are encoded."""
    names = {encoding.column for encoding in encodings}
    return pa.schema([field.with_type(pa.binary()) if field.name in names else field for field in schema])


class _ColumnEncoder:
    """Encodes one column, batch by batch, in one thread."""

    def __init__(self, encoding: ColumnEncoding) -> None:
        self._encoding = encoding
        self._by_schema: AvroEncoder | ProtobufEncoder | None = None

    def __call__(self, rows: pa.Array) -> pa.Array:
        encoding = self._encoding
        try:
            if encoding.format == "json":
                texts = json_records(rows.cast(_in_utc(rows.type))).cast(pa.binary())
                return pc.binary_join_element_wise(encoding.prefix, texts, b"") if encoding.prefix else texts
            if self._by_schema is None:
                self._by_schema = encoding.encoder(rows.type)
            return self._by_schema.encode(rows)
        except pa.ArrowCapacityError as error:
            raise TooManyBytesError(str(error)) from error
        except TooManyBytesError:
            raise
        except (ValueError, pa.ArrowInvalid) as error:
            raise UnencodableRowError(column=encoding.column, format=encoding.format, reason=str(error)) from error


def _in_utc(kind: pa.DataType) -> pa.DataType:
    """The type with times in UTC: a text must not say where the session is."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_utc(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _in_utc(kind.item_type))
    return pa.list_(_in_utc(kind.value_type)) if pa.types.is_list(kind) else kind


def column_encodings(
    payloads: WrittenPayloads, topic: str | None, *, may_register: bool = True
) -> tuple[ColumnEncoding, ...]:
    """What columns become, with the registry's numbers of their schemas.

    Args:
        payloads: what the options say.
        topic: where all rows go; None: rows name their topics.
        may_register: whether a schema is registered where the options ask for that; else it has no number yet, and the
            encodings only say what they can encode.

    Raises:
        OptionError: no subject is named, and not all rows go to one topic; or the registry's schema is of another
            format.
        RegistryError: the registry does not answer, refuses, or does not have the schema.
    """
    return tuple(_encoding(payload, topic, may_register=may_register) for payload in payloads)


def _encoding(payload: WrittenPayload, topic: str | None, *, may_register: bool) -> ColumnEncoding:
    if payload.registry is None or (payload.registers and not may_register):
        schema, _ = _given(payload, has_number=payload.registry is not None)
        return ColumnEncoding(column=payload.column, format=payload.format, schema=schema)
    # Not above: who writes without a registry loads no client.
    from directkafka.payloads.registry.client import client_of

    subject = payload.subject
    if subject is None:
        if topic is None:
            reason = f"must be given, since rows name their topics: of one it is the topic's name and -{payload.column}"
            raise OptionError(option=f"{payload.column}.registry.subject", reason=reason)
        subject = f"{topic}-{payload.column}"
    client, type_ = client_of(payload.registry), _TYPES[payload.format]
    if payload.schema:
        schema, message = _given(payload, has_number=True)
        number = client.id_of(subject, payload.schema, type_, registers=payload.registers)
    else:
        registered = client.version(subject, payload.version)
        number = registered.id
        try:
            if registered.type != type_:
                raise ValueError(f"it is of type {registered.type}, not {type_}")
            schema, message = _registered(payload, registered)
        except ValueError as error:
            schema_description = f"version {payload.version} of the subject {subject}"
            raise OptionError(
                option=f"{payload.column}.registry.subject", reason=f"{schema_description}: {error}"
            ) from None
    prefix = struct.pack(">bI", _MAGIC, number) + message
    return ColumnEncoding(column=payload.column, format=payload.format, schema=schema, prefix=prefix)


def _given(payload: WrittenPayload, *, has_number: bool) -> tuple[str, bytes]:
    """A given schema as encodings take it, and the bytes that name its message, behind the schema's number.

    Raises:
        OptionError: a schema with a number, and its message is one that records cannot name.
    """
    if payload.format != "protobuf":
        return payload.schema if payload.format == "avro" else "", b""
    schema = parse_protobuf([payload.schema], payload.message)
    try:
        return _message(schema) if has_number else (schema.text(), b"")
    except ValueError as error:
        raise OptionError(option=f"{payload.column}.message", reason=str(error)) from None


def _registered(payload: WrittenPayload, registered: RegisteredSchema) -> tuple[str, bytes]:
    """The same of a schema in the registry, with those that it refers to."""
    if payload.format == "avro":
        from directkafka.payloads.registry.avro import avro_of

        return schema_text(avro_of(registered)), b""
    if payload.format == "json":
        return "", b""
    from directkafka.payloads.registry.protobuf import protobuf_of

    schema = protobuf_of(registered)
    return _message(schema.of_message(payload.message) if payload.message else schema)


def _message(schema: ProtobufSchema) -> tuple[str, bytes]:
    return schema.text(), message_indexes(schema.indexes())
