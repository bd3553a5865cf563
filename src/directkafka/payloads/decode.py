"""The decoding of payloads, in the task that reads them: bytes of values and keys to what their format says.

Row i stays row i. A record that cannot be read as a whole is an error with its topic, partition and offset, or keeps
what can be read of it, with a reason in a column of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from directkafka.errors import OptionError
from directkafka.errors.streams import MalformedPayloadError
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.options.ddl import parse_ddl
from directkafka.options.payloads import Payload
from directkafka.options.time_zones import time_zone as zone_of
from directkafka.payloads.arrow_types import arrow_type
from directkafka.payloads.json.decoder import JsonDecoder
from directkafka.payloads.text import TextDecoder

#: What is decoded: one column, or the batch that has it.
Texts = TypeVar("Texts", pa.Array, pa.ChunkedArray, pa.RecordBatch)

_UTC: Final = "UTC"


class Decoder(Protocol):
    """Decodes columns of one format.

    Attributes:
        problems: what is wrong with a text of the last column, by its number.
    """

    problems: dict[int, str]

    def decode(self, texts: pa.Array) -> pa.Array:
        """A row for each text; null for a null."""


def decoder_of(payload: Payload) -> Decoder:
    """What decodes a payload."""
    if payload.schema is None:
        return TextDecoder()
    return JsonDecoder(arrow_type(payload.schema), payload.time_zone or _UTC)


def decode_batches(batches: Iterator[pa.RecordBatch], task: RangeTask) -> Iterator[pa.RecordBatch]:
    """The records of a range with their payloads decoded, in the task's columns.

    Args:
        batches: records in the task's ``record_columns``.
        task: the range.

    Raises:
        MalformedPayloadError: a record that cannot be read, where that is an error.
    """
    decoders = [(payload, decoder_of(payload)) for payload in task.payloads if _is_wanted(payload, task)]
    for batch in batches:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for payload, decoder in decoders:
            columns[payload.column] = decoder.decode(columns[payload.column])
            if decoder.problems and payload.on_error == "fail":
                raise _error(payload, task, batch, decoder.problems)
            if payload.error_column is not None:
                columns[payload.error_column] = _reasons(decoder.problems, batch.num_rows)
        yield pa.RecordBatch.from_arrays([columns[name] for name in task.columns], names=list(task.columns))


def decode(
    data: Texts, *, format: str, schema: str | None = None, column: str = "value", time_zone: str = _UTC
) -> Texts:
    """Decode payloads in Arrow columns, as the option ``value.format`` does.

    Args:
        data: a column of bytes or texts, or a batch with such a column.
        format: ``json`` or ``string``.
        schema: the fields of JSON, in Spark's DDL.
        column: of a batch, the one that is decoded.
        time_zone: of timestamps that name none.

    Returns:
        The same with the column decoded, row by row: a struct of the fields for JSON, a string for ``string``. What
        cannot be read is null, as with ``from_json`` in PERMISSIVE mode.

    Raises:
        OptionError: the format, the schema or the time zone is none.
    """
    if isinstance(data, pa.RecordBatch):
        decoded = decode(data.column(column), format=format, schema=schema, time_zone=time_zone)
        return data.set_column(data.schema.get_field_index(column), column, decoded)
    decoder = decoder_of(_payload(format, schema, time_zone))
    if isinstance(data, pa.ChunkedArray):
        chunks = [decoder.decode(chunk) for chunk in data.chunks]
        return pa.chunked_array(chunks, type=None if chunks else decoder.decode(pa.array([], pa.binary())).type)
    return decoder.decode(data)


def _payload(form: str, schema: str | None, time_zone: str) -> Payload:
    if form not in ("json", "string"):
        raise OptionError(option="format", reason=f"expected json or string, found {form!r}")
    if (schema is None) is (form == "json"):
        raise OptionError(option="schema", reason="JSON has one, in Spark's DDL, and strings have none")
    try:
        zone_of(time_zone)
        declared = None if schema is None else parse_ddl(schema)
    except ValueError as error:
        raise OptionError(option="schema", reason=str(error)) from None
    except KeyError:
        raise OptionError(option="time_zone", reason=f"there is no time zone {time_zone!r}") from None
    return Payload(column="value", format=form, schema=declared, time_zone=time_zone)  # type: ignore[arg-type]


def _is_wanted(payload: Payload, task: RangeTask) -> bool:
    return payload.column in task.columns or payload.error_column in task.columns


def _reasons(problems: dict[int, str], rows: int) -> pa.Array:
    if not problems:
        return pa.nulls(rows, pa.string())
    return pa.array([problems.get(row) for row in range(rows)], pa.string())


def _error(payload: Payload, task: RangeTask, batch: pa.RecordBatch, problems: dict[int, str]) -> MalformedPayloadError:
    row = min(problems)
    offset: Any = batch.column("offset")[row].as_py()
    return MalformedPayloadError(
        topic=task.range.topic,
        partition=task.range.partition,
        offset=offset,
        column=payload.column,
        format=payload.format,
        reason=problems[row],
    )
