"""Records that the transform rejects: out of the outputs, into a sink of their own, with their bytes and the reason.

A transform rejects a record in one of two ways. A row of an output whose column ``dead_letter_reason`` is not null
stands for a rejected record, as in ``CASE WHEN try_cast(...) IS NULL THEN 'no number' END AS dead_letter_reason``;
other rows lose the column. Or a function returns the rejected records as an output of their own, ``dead_letters``.
Either way the rows name the record by topic, partition and offset, and its bytes come from the source: what the
transform made of them is what went wrong.

The sink is one of the pipeline's. So rejected records are exactly once, and in one transaction with the others when
they go into the same store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from directkafka.errors import TransformError
from directkafka.sinks.letters import REPLAYS
from directkafka.stores.base import Sink

__all__ = ["DEAD_LETTERS", "NO_PLACE", "REASON", "divert"]

#: The output of rejected records, and the name of the section in the pipeline file.
DEAD_LETTERS: Final = "dead_letters"

#: The column that says why a row's record is rejected; null for all others.
REASON: Final = "dead_letter_reason"

#: What is said of records that are rejected in a pipeline without a place for them.
NO_PLACE: Final = (
    "it rejects records, and the pipeline has no place for them: add the section [dead_letters], or the argument "
    "dead_letters"
)

#: What names a record.
_RECORD: Final = ("topic", "partition", "offset")

#: Of the source, in the order of the table; those that it has. The last one is a replay's.
_KEPT: Final = (*_RECORD, "timestamp", "key", "value", "headers", REPLAYS)

#: In headers of a Kafka record, before the names of :data:`_RECORD` and ``reason``.
_HEADER: Final = "directkafka."

_HEADERS: Final = "array<struct<key:string,value:binary>>"


def divert(
    outputs: Mapping[str, DataFrame],
    source: DataFrame,
    sink: Sink | None,
    keep: Callable[[DataFrame], DataFrame],
) -> dict[str, DataFrame]:
    """The outputs without what is rejected, and that as an output ``dead_letters`` if there is a sink for it.

    Args:
        outputs: the transform's, by name.
        source: what the transform was given.
        sink: where rejected records go; None for a pipeline without ``[dead_letters]``.
        keep: persists a frame, so that it is computed once. An output is cut in two by its reasons; were it computed
            for each half, a reason that depends on the clock could put a record into neither.

    Raises:
        TransformError: rows are rejected and nobody takes them, or do not say which record they stand for.
    """
    kept = {name: frame for name, frame in outputs.items() if name != DEAD_LETTERS}
    rejecting = {name: frame for name, frame in kept.items() if REASON in frame.columns}
    if DEAD_LETTERS in outputs:
        rejecting[DEAD_LETTERS] = outputs[DEAD_LETTERS]
    if sink is None:
        if rejecting:
            raise TransformError(
                source=f"output {next(iter(rejecting))!r}",
                cause=NO_PLACE,
            )
        return kept
    rejecting = {name: keep(frame) for name, frame in rejecting.items()}
    rejected = [_named_records(name, frame) for name, frame in rejecting.items()]
    for name in rejecting.keys() & kept.keys():
        kept[name] = rejecting[name].where(f.col(REASON).isNull()).drop(REASON)
    kept[DEAD_LETTERS] = _letters(source, rejected, sink)
    return kept


def _named_records(output: str, frame: DataFrame) -> DataFrame:
    """Topic, partition, offset and reason of the rejected records of one output."""
    reason = REASON if REASON in frame.columns else "reason"
    if missing := [name for name in (*_RECORD, reason) if name not in frame.columns]:
        raise TransformError(
            source=f"output {output!r}",
            cause=f"it rejects records without the columns {', '.join(missing)}, which say which record and why",
        )
    return frame.where(f.col(reason).isNotNull()).select(*_RECORD, f.col(reason).cast("string").alias("reason"))


def _letters(source: DataFrame, rejected: list[DataFrame], sink: Sink) -> DataFrame:
    """The rejected records as they came, with the reason. Few are expected, so they are sent to the others' tasks."""
    if missing := [name for name in (*_RECORD, "value") if name not in source.columns]:
        raise TransformError(
            source="[dead_letters]",
            cause="a rejected record is kept as it came, and the source's option columns leaves out "
            + ", ".join(missing),
        )
    columns = [name for name in _KEPT if name in source.columns]
    reasons = (
        reduce(DataFrame.unionByName, rejected)
        if rejected
        else source.where(f.lit(False)).select(*_RECORD, f.lit("").alias("reason"))
    )
    # One letter for each record, however many rows or outputs rejected it.
    told = f.array_join(f.sort_array(f.collect_set("reason")), "; ").alias("reason")
    reasons = reasons.groupBy(*_RECORD).agg(told)
    found = source.select(*columns).join(f.broadcast(reasons), on=list(_RECORD))
    # A row that names no record of the batch would be lost here, row and record alike.
    strangers = reasons.join(source.select(*_RECORD), on=list(_RECORD), how="left_anti")
    letters = found.unionByName(
        strangers.withColumn("reason", f.raise_error(_unknown()).cast("string")), allowMissingColumns=True
    )
    return (
        letters.select(*_record(columns))
        if getattr(sink, "takes_records", False)
        else letters.select(*columns, "reason")
    )


def _unknown() -> Column:
    """What to say of a rejected row whose topic, partition and offset are those of no record."""
    told = [f.concat(f.lit(f"{name} "), f.coalesce(f.col(name).cast("string"), f.lit("null"))) for name in _RECORD]
    place = f.concat_ws(", ", *told)
    return f.concat(f.lit("[dead_letters] a rejected row names no record of the batch: "), place)


def _record(columns: Sequence[str]) -> list[Column]:
    """The columns of a Kafka record: bytes as they came, and in headers where they came from and why."""
    told = [
        f.struct(f.lit(_HEADER + name).alias("key"), f.col(name).cast("string").cast("binary").alias("value"))
        for name in (*_RECORD, "reason")
    ]
    headers = f.array(*told)
    if "headers" in columns:
        headers = f.concat(
            f.coalesce(f.col("headers"), f.array().cast("array<struct<key:string,value:binary>>")), headers
        )
    plain = [f.col(name) for name in ("key", "value") if name in columns]
    return [*plain, headers.alias("headers")]
