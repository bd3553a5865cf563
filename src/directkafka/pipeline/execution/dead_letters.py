"""Records that the transform rejects: out of the outputs, into a sink of their own, with their bytes and the reason.

A transform rejects a record in one of two ways. A row of an output whose column ``dead_letter_reason`` is not null
stands for a rejected record, as in ``CASE WHEN try_cast(...) IS NULL THEN 'no number' END AS dead_letter_reason``;
other rows lose the column. Or a function returns the rejected records as an output of their own, ``dead_letters``.
Either way the rows name the record by topic, partition and offset, and its bytes come from the source: what the
transform made of them is what went wrong.

The sink is one of the pipeline's. So rejected records are exactly once, and in one transaction with the others when
they go into the same store.

An output that rejects is kept before it is cut in two (:mod:`directkafka.pipeline.execution.kept`), and its rejected
rows are
counted: most batches have none, and their records are then not looked up. Few are sent to the tasks that have the
records. Many would not fit the driver, through which Spark sends them, so rows and records are shuffled instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from directkafka.options.payloads import AS_IT_CAME, UNREAD
from directkafka.pipeline.execution.kept import Keeper
from directkafka.pipeline.execution.rejection import (
    BETWEEN_REASONS,
    DEAD_LETTERS,
    HEADER,
    REASON,
    RECORD,
    TOLD,
    kept_columns,
    no_dead_letter_sink,
    unnamed_records,
)
from directkafka.sinks.api import Sink

_HEADERS: Final = "array<struct<key:string,value:binary>>"

#: Up to so many bytes of rejected rows are sent to every task. Spark builds a hash table of them on the driver first,
#: which takes several times as much.
_SENT_BYTES_MAX: Final = 4 * 1024 * 1024

#: What a rejected row takes beside its reason: the record's place, and what the hash table adds.
_ROW_BYTES: Final = 64

#: Before the names of :data:`~directkafka.pipeline.execution.rejection.RECORD`, as a rejected row has them.
_OF_ROW: Final = "directkafka_rejected_"

#: A column of the batch's records: NULL behind the join where a rejected row has none.
_MATCHED: Final = "directkafka_matched"


@dataclass(frozen=True, slots=True)
class Rejected:
    """How much a batch rejects: rows, and bytes of their reasons."""

    rows: int
    reason_bytes: int

    @property
    def is_few(self) -> bool:
        """Whether they may be sent to every task."""
        return self.rows * _ROW_BYTES + self.reason_bytes <= _SENT_BYTES_MAX


class Work(Protocol):
    """What is done with frames while a batch is computed."""

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same rows, computed once."""

    def measure(self, rejected: DataFrame) -> Rejected:
        """How much is rejected, of frames that are kept."""


class LookOnly:
    """For a look at the plans: nothing runs."""

    def keep(self, frame: DataFrame) -> DataFrame:
        """The frame as it is."""
        return frame

    def measure(self, rejected: DataFrame) -> Rejected:
        """Some."""
        return Rejected(rows=1, reason_bytes=0)


class AtWork:
    """For a batch.

    Args:
        keeper: keeps what is used twice.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def keep(self, frame: DataFrame) -> DataFrame:
        """See :meth:`directkafka.pipeline.execution.kept.Keeper.keep`."""
        return self._keeper.keep(frame)

    def measure(self, rejected: DataFrame) -> Rejected:
        """In a small job."""
        row = rejected.agg(f.count(f.lit(1)), f.coalesce(f.sum(f.octet_length(TOLD)), f.lit(0))).head()
        assert row is not None, "a sum over nothing is a row too"
        return Rejected(rows=int(row[0]), reason_bytes=int(row[1]))


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a source, as a pipeline with dead letters sees them.

    Attributes:
        shown: those that can be read, for the transform.
        as_they_came: all of them, with their bytes.
        unread: the place of those that cannot be read, and why; None where that becomes no dead letter.
    """

    shown: DataFrame
    as_they_came: DataFrame
    unread: DataFrame | None

    @classmethod
    def of(cls, source: DataFrame, hidden: Collection[str] = ()) -> Records:
        """For a source with the columns that keep what payloads were, if there are any.

        Args:
            source: the source.
            hidden: further columns that the transform is not shown.
        """
        bytes_of = {name: kept for name, kept in AS_IT_CAME.items() if kept in source.columns}
        columns = [name for name in source.columns if name not in (*bytes_of.values(), UNREAD)]
        shown = came = source
        unread = None
        if bytes_of:
            came = source.select(*(f.col(bytes_of.get(name, name)).alias(name) for name in columns))
        if UNREAD in source.columns:
            shown = source.where(f.col(UNREAD).isNull())
            record_columns = [name for name in RECORD if name in columns]
            unread = source.where(f.col(UNREAD).isNotNull()).select(*record_columns, f.col(UNREAD).alias(TOLD))
        return cls(shown.drop(UNREAD, *bytes_of.values(), *hidden), came, unread)


def divert(outputs: Mapping[str, DataFrame], source: Records, sink: Sink | None, work: Work) -> dict[str, DataFrame]:
    """The outputs without what is rejected, and that as an output ``dead_letters`` if there is a sink for it.

    Args:
        outputs: the transform's, by name.
        source: the records that the transform was given, and those that it was not.
        sink: where rejected records go; None for a pipeline without ``[dead_letters]``.
        work: keeps a frame, so that it is computed once. An output is cut in two by its reasons; were it computed
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
            raise no_dead_letter_sink(next(iter(rejecting)))
        return kept
    columns = kept_columns(source.as_they_came.columns)
    rejecting = {name: work.keep(frame) for name, frame in rejecting.items()}
    for name in rejecting.keys() & kept.keys():
        kept[name] = rejecting[name].where(f.col(REASON).isNull()).drop(REASON)
    rejected = [_named_records(name, frame) for name, frame in rejecting.items()]
    if source.unread is not None:
        rejected.append(_named_records("source", source.unread))
    dead_letters = _dead_letters(source.as_they_came.select(*columns), rejected, work)
    takes_records = sink.capabilities.takes_records
    kept[DEAD_LETTERS] = dead_letters.select(*_record(columns)) if takes_records else _with_years(dead_letters)
    return kept


def _with_years(dead_letters: DataFrame) -> DataFrame:
    """A record's time that no calendar has is NULL in a table: else its letter could not be stored."""
    if "timestamp" not in dead_letters.columns:
        return dead_letters
    time = f.col("timestamp")
    return dead_letters.withColumn("timestamp", f.when(f.year(time).between(1, 9999), time))


def _named_records(output: str, frame: DataFrame) -> DataFrame:
    """Topic, partition, offset and reason of the rejected records of one output."""
    reason = REASON if REASON in frame.columns else TOLD
    if (error := unnamed_records(output, frame.columns, reason)) is not None:
        raise error
    # A text made of a record's bytes may be no UTF-8, or have a NUL, which Spark does not mind and databases do.
    text = f.replace(f.make_valid_utf8(f.col(reason).cast("string")), f.lit("\0"), f.lit("\ufffd")).alias(TOLD)
    return frame.where(f.col(reason).isNotNull()).select(*RECORD, text)


def _dead_letters(records: DataFrame, rejected: list[DataFrame], work: Work) -> DataFrame:
    """The rejected records as they came, with the reason: one letter each, however many rows or outputs rejected it."""
    rows = reduce(DataFrame.unionByName, rejected) if rejected else None
    size = work.measure(rows) if rows is not None else Rejected(0, 0)
    if rows is None or size.rows == 0:
        return records.where(f.lit(False)).withColumn(TOLD, f.lit("").cast("string"))
    told = f.array_join(f.sort_array(f.collect_set(TOLD)), BETWEEN_REASONS).alias(TOLD)
    reasons = rows.groupBy(*(f.col(name).alias(_OF_ROW + name) for name in RECORD)).agg(told)
    is_the_record = [f.col(name) == f.col(_OF_ROW + name) for name in RECORD]
    if size.is_few:
        records = records.join(f.broadcast(reasons.drop(TOLD)), on=is_the_record, how="left_semi")
    # Spark has no idea how much a source gives, takes it for little, and would send that to every task.
    records = records.withColumn(_MATCHED, f.lit(True)).hint("merge")
    joined = reasons.hint("merge").join(records, on=is_the_record, how="left")
    # A row that names no record of the batch would be lost here, row and record alike.
    reason = f.when(f.col(_MATCHED), f.col(TOLD)).otherwise(f.raise_error(_unknown()).cast("string"))
    return joined.select(*(name for name in records.columns if name != _MATCHED), reason.alias(TOLD))


def is_surely_empty(dead_letters: DataFrame) -> bool:
    """Whether Spark sees by the plan alone that there are no rows: no job is needed then."""
    rows = dead_letters._jdf.queryExecution().optimizedPlan().maxRows()
    return bool(rows.isDefined()) and int(rows.get()) == 0


def _unknown() -> Column:
    """What to say of a rejected row whose topic, partition and offset are those of no record."""
    told = [
        f.concat(f.lit(f"{name} "), f.coalesce(f.col(_OF_ROW + name).cast("string"), f.lit("null"))) for name in RECORD
    ]
    location = f.concat_ws(", ", *told)
    return f.concat(f.lit("[dead_letters] a rejected row names no record of the batch: "), location)


def _record(columns: Sequence[str]) -> list[Column]:
    """The columns of a Kafka record: bytes as they came, and in headers where they came from and why."""
    told = [
        f.struct(f.lit(HEADER + name).alias("key"), f.col(name).cast("string").cast("binary").alias("value"))
        for name in (*RECORD, TOLD)
    ]
    headers = f.array(*told)
    if "headers" in columns:
        headers = f.concat(
            f.coalesce(f.col("headers"), f.array().cast("array<struct<key:string,value:binary>>")), headers
        )
    plain = [f.col(name) for name in ("key", "value") if name in columns]
    return [*plain, headers.alias("headers")]
