"""The decoding of payloads, in the task that reads them: bytes of values and keys to what their format says.

Row i stays row i. A record that cannot be read as a whole is an error with its topic, partition and offset, or keeps
what can be read of it, with a reason in a column of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol, TypeVar, cast, get_args

import numpy as np
import pyarrow as pa

from directkafka.errors import OptionError
from directkafka.errors.registry import SchemaNotFoundError
from directkafka.errors.streams import MalformedPayloadError
from directkafka.errors.transport import Notes
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.offsets import OffsetRange
from directkafka.options.payloads import AS_IT_CAME, UNREAD, Format, Payload, Payloads, decodes
from directkafka.options.schemas.avro import parse_schema
from directkafka.options.schemas.declared import read_schema
from directkafka.options.schemas.protobuf.schema import schema_of_text
from directkafka.options.time_zones import time_zone as zone_of
from directkafka.payloads.arrow_types import arrow_type
from directkafka.payloads.text import TextDecoder
from directkafka.python_worker import freeze_imports

#: What is decoded: one column, or the batch that has it.
Texts = TypeVar("Texts", pa.Array, pa.ChunkedArray, pa.RecordBatch)

_UTC: Final = "UTC"


class Decoder(Protocol):
    """Decodes columns of one format.

    Attributes:
        problems: what is wrong with a text of the column that was decoded last, by its row; empty where nobody asked
            for it.
    """

    problems: dict[int, str]

    def decode(self, texts: pa.Array) -> pa.Array:
        """A row for each text; null for a null."""


class RegisteredDecoder(Decoder, Protocol):
    """Decodes columns of a format whose records name their schemas.

    Attributes:
        headers: of the records that are decoded next; None: their schemas are named in front of them.
        schema_ids: of the last column, the number of each record's schema.
        missed_row: the first record that names the schema that is not there, where that was an error.
    """

    headers: pa.Array | None
    schema_ids: pa.Array
    missed_row: int | None


class ChangeDecoder(Decoder, Protocol):
    """Decodes columns of a database's changes.

    Attributes:
        keys: of the records that are decoded next; None: nobody knows them.
        added: the columns beside the last one, by name.
    """

    keys: pa.Array | None
    added: Mapping[str, pa.Array]


def decoder_of(payload: Payload, *, explains: bool = True) -> Decoder:
    """What decodes a payload.

    Args:
        payload: what the texts are.
        explains: whether somebody reads what is wrong with each text.
    """
    if payload.format == "string":
        return TextDecoder()
    assert payload.schema is not None, "it was given or looked up"
    # Not above: a process loads the kernels of the formats that it reads.
    if payload.is_of_changes:
        from directkafka.payloads.debezium.decoder import decoder_of_changes

        return decoder_of_changes(payload)
    if payload.registry is not None:
        from directkafka.payloads.registry.client import client_of
        from directkafka.payloads.registry.decoder import RegisteredDecoder as DecoderOfRegistry
        from directkafka.payloads.registry.formats import columns_of
        from directkafka.payloads.registry.frames import SCHEMA_HEADERS

        header = SCHEMA_HEADERS[payload.column]
        columns, client = columns_of(payload, explains=explains), client_of(payload.registry)
        # A record that was rejected stays rejected, so each reading must reject it.
        return DecoderOfRegistry(columns, client, header, is_strict=payload.on_error != "null")
    if payload.format == "avro":
        from directkafka.payloads.avro.decoder import AvroDecoder

        return AvroDecoder(parse_schema(payload.reader_schema))
    if payload.format == "protobuf":
        from directkafka.payloads.protobuf.decoder import ProtobufDecoder

        return ProtobufDecoder(schema_of_text(payload.reader_schema))
    from directkafka.payloads.json.decoder import JsonDecoder

    return JsonDecoder(arrow_type(payload.schema), payload.time_zone or _UTC, explains=explains)


def decode_batches(batches: Iterator[pa.RecordBatch], task: RangeTask) -> Iterator[pa.RecordBatch]:
    """The records of a range with their payloads decoded, in the task's columns.

    Args:
        batches: records in the task's ``record_columns``.
        task: the range.

    Raises:
        MalformedPayloadError: a record that cannot be read, where that is an error.
        SchemaNotFoundError: the registry does not have a record's schema, where that is an error.
    """
    decoder = BatchDecoder(tuple(payload for payload in task.payloads if decodes(payload, task.columns)), task.columns)
    for batch in batches:
        yield decoder.decode(batch, partial(_position, task.range, batch))


def _position(offset_range: OffsetRange, batch: pa.RecordBatch, row: int) -> tuple[str, int, int]:
    return offset_range.topic, offset_range.partition, batch.column("offset")[row].as_py()


#: Gives topic, partition and offset of a row.
PositionOf = Callable[[int], tuple[str, int, int]]


class BatchDecoder:
    """Decodes the payloads of batches of records.

    Args:
        payloads: what values and keys are; their columns must be in the batches.
        columns: that the decoded batches have.
    """

    def __init__(self, payloads: Payloads, columns: Sequence[str]) -> None:
        self._decoders = [
            (payload, decoder_of(payload, explains=payload.on_error != "null" or payload.error_column in columns))
            for payload in payloads
        ]
        self._columns = list(columns)
        freeze_imports("payloads")

    def decode(self, batch: pa.RecordBatch, position_of: PositionOf) -> pa.RecordBatch:
        """The batch with its payloads decoded.

        Args:
            batch: records.
            position_of: says which record a row is, for messages.

        Raises:
            MalformedPayloadError: a record that cannot be read, where that is an error.
            SchemaNotFoundError: the registry does not have a record's schema, where that is an error.
        """
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        unread: dict[int, list[str]] = {}
        for payload, decoder in self._decoders:
            columns[AS_IT_CAME[payload.column]] = columns[payload.column]
            try:
                columns |= _decoded(payload, decoder, batch)
            except SchemaNotFoundError as error:
                raise _of_record(error, position_of, cast(RegisteredDecoder, decoder).missed_row) from None
            if decoder.problems and payload.on_error == "fail":
                raise _error(payload, position_of, decoder.problems)
            if payload.error_column is not None:
                columns[payload.error_column] = _reasons(decoder.problems, batch.num_rows)
            if payload.on_error == "dead-letter":
                for row, problem in decoder.problems.items():
                    unread.setdefault(row, []).append(f"the {payload.column} is no {payload.format}: {problem}")
        columns[UNREAD] = _reasons({row: "; ".join(problems) for row, problems in unread.items()}, batch.num_rows)
        return pa.RecordBatch.from_arrays([columns[name] for name in self._columns], names=self._columns)


def _decoded(payload: Payload, decoder: Decoder, batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The column of a payload, with those beside it."""
    names = batch.schema.names
    if payload.schema_id_column is not None:
        registered = cast(RegisteredDecoder, decoder)
        registered.headers = batch.column("headers") if "headers" in names else None
    if payload.is_of_changes:
        changes = cast(ChangeDecoder, decoder)
        changes.keys = batch.column("key") if "key" in names else None
    columns = {payload.column: decoder.decode(batch.column(payload.column))}
    if payload.schema_id_column is not None:
        columns[payload.schema_id_column] = registered.schema_ids
    if payload.is_of_changes:
        columns.update(changes.added)
    return columns


@dataclass(frozen=True, slots=True)
class DecodeRecords:
    """A function for ``mapInArrow``: records with topic, partition and offset become those that a source gives.

    Attributes:
        payloads: what values and keys are.
        columns: of the result.
        notes: sign errors on their way to the driver.
    """

    payloads: Payloads
    columns: tuple[str, ...]
    notes: Notes = field(default_factory=Notes.of_this_process)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode batches of records.

        Raises:
            MalformedPayloadError: a record that cannot be read, where that is an error.
            SchemaNotFoundError: the registry does not have a record's schema, where that is an error.
        """
        with self.notes.signing():
            decoder = BatchDecoder(self.payloads, self.columns)
            for batch in batches:
                yield decoder.decode(batch, partial(_own_position, batch))


def _own_position(batch: pa.RecordBatch, row: int) -> tuple[str, int, int]:
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return topic, partition, offset


def decode(
    data: Texts,
    *,
    format: str,
    schema: str | None = None,
    message: str = "",
    column: str = "value",
    time_zone: str = _UTC,
) -> Texts:
    """Decode payloads in Arrow columns, as the option ``value.format`` does.

    Args:
        data: a column of bytes or texts, or a batch with such a column.
        format: ``json``, ``avro``, ``protobuf``, ``string``, ``debezium-json`` or ``debezium-avro``.
        schema: the fields of JSON, in Spark's DDL; of Avro the schema, as JSON; for Protocol Buffers a ``.proto`` file.
            Of the last two also the name of a file. Of a database's changes the columns of its rows, or the schema of
            an event in Avro.
        message: of a ``.proto`` file the one that records are; its first one if empty.
        column: of a batch, the one that is decoded.
        time_zone: of timestamps that name none.

    Returns:
        The same with the column decoded, row by row: a struct of the fields, or a string for ``string``.
        What cannot be read is null, as with ``from_json`` in PERMISSIVE mode. Of a database's changes a batch also gets
        the columns ``op``, ``deleted``, ``source_ts`` and ``position``; in JSON, keys of deleted rows come from its
        column ``key``.

    Raises:
        OptionError: the format, the schema or the time zone is none.
    """
    payload = _payload(format, schema, message, time_zone)
    decoder = decoder_of(payload, explains=False)
    if isinstance(data, pa.RecordBatch):
        columns = dict(zip(data.schema.names, data.columns, strict=True))
        columns |= _decoded(replace(payload, column=column), decoder, data)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    if isinstance(data, pa.ChunkedArray):
        chunks = [decoder.decode(chunk) for chunk in data.chunks]
        return pa.chunked_array(chunks, type=None if chunks else decoder.decode(pa.array([], pa.binary())).type)
    return decoder.decode(data)


def _payload(form: str, schema: str | None, message: str, time_zone: str) -> Payload:
    if form not in get_args(Format):
        raise OptionError(option="format", reason=f"expected {', '.join(get_args(Format))}, found {form!r}")
    if (schema is None) is (form != "string"):
        reason = "JSON has one in Spark's DDL, Avro one as JSON, Protocol Buffers a .proto file, and strings have none"
        raise OptionError(option="schema", reason=reason)
    if message and form != "protobuf":
        raise OptionError(option="message", reason=f"means nothing to {form}")
    try:
        zone_of(time_zone)
        declared, text = (None, "") if schema is None else read_schema(form, schema, message)
    except ValueError as error:
        raise OptionError(option="schema", reason=str(error)) from None
    except KeyError:
        raise OptionError(option="time_zone", reason=f"there is no time zone {time_zone!r}") from None
    return Payload(
        column="value",
        format=form,  # type: ignore[arg-type]
        schema=declared,
        reader_schema=text,
        time_zone=time_zone,
    )


def _reasons(problems: dict[int, str], rows: int) -> pa.Array:
    if not problems:
        return pa.nulls(rows, pa.string())
    numbers = np.full(rows, -1)
    numbers[list(problems)] = np.arange(len(problems))
    return pa.array(list(problems.values()), pa.string()).take(pa.array(numbers, mask=numbers < 0))


def _of_record(error: SchemaNotFoundError, position_of: PositionOf, row: int | None) -> SchemaNotFoundError:
    """The error with the first record that names the schema."""
    if row is None:
        return error
    topic, partition, offset = position_of(row)
    record = f"the record in topic {topic}, partition {partition} at offset {offset}"
    return SchemaNotFoundError(
        registry=error.registry, wanted=f"{error.wanted}, which {record} names", cause=error.cause
    )


def _error(payload: Payload, position_of: PositionOf, problems: dict[int, str]) -> MalformedPayloadError:
    row = min(problems)
    topic, partition, offset = position_of(row)
    return MalformedPayloadError(
        topic=topic,
        partition=partition,
        offset=offset,
        column=payload.column,
        format=payload.format,
        reason=problems[row],
    )
