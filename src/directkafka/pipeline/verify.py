"""``directkafka verify``: read again what a pipeline has read, and compare it with its tables.

Three numbers must agree for each sink: rows that the ledger says were written, rows that the table has, and rows
that the transform gives for the records between the pipeline's origin and its last committed end. A merge sink's
rows are not comparable (they are folded), so the sums of its added columns are. Where a table has the columns
``topic``, ``partition`` and ``offset``, no two rows of it may name the same record.

A replay has a ledger entry of its own: the rows that it gave count with the pipeline's. Dead letters leave their table
by a replay, so that their number is compared with what the transform rejects now, and not with the ledger's.

A transform that groups gives other rows for all records at once than batch by batch; an append sink behind one is
compared with the ledger alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from directkafka.errors import LineageError
from directkafka.html_table import html_of_records
from directkafka.offsets import OffsetRange, PartitionProgress
from directkafka.pipeline.execution.executor_errors import job_errors
from directkafka.pipeline.execution.outputs import outputs_of
from directkafka.pipeline.execution.rejection import DEAD_LETTERS
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.execution.transform import is_per_batch
from directkafka.pipeline.file import replay_name
from directkafka.pipeline.pipeline import Pipeline
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.capabilities import TableCount
from directkafka.sinks.ledger import ALL_SET_APART, FORGOTTEN, SKIPPED
from directkafka.snapshot import PartitionSnapshot
from directkafka.spark.dataframe import records_frame
from directkafka.spark.source_cluster import SourceCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One sink's comparison.

    Attributes:
        sink: the sink's name.
        batch_id: last committed batch.
        offsets: offsets between origin and end.
        ledger_rows: rows that all batches and replays wrote, as the ledger counted; None for dead letters that a replay
            has tried.
        table: what the table has.
        expected_rows: rows that the transform gives now; None where that cannot be compared.
        expected_sums: sums of the added columns that the transform gives now, for merge sinks.
        note: why something is not compared; empty when all is.
    """

    sink: str
    batch_id: int
    offsets: int
    ledger_rows: int | None
    table: TableCount
    expected_rows: int | None
    expected_sums: Mapping[str, Any]
    note: str = ""

    @property
    def is_right(self) -> bool:
        """Whether everything that could be compared agrees."""
        rows_agree = self.table.is_folded or self.ledger_rows is None or self.table.rows == self.ledger_rows
        recount_agrees = self.expected_rows is None or self.table.rows == self.expected_rows
        return rows_agree and recount_agrees and self.table.doubled == 0 and self.sums_agree

    @property
    def sums_agree(self) -> bool:
        """Whether the added columns add up to what the transform gives."""
        return all(_is_same_sum(self.table.sums.get(name), value) for name, value in self.expected_sums.items())

    def as_record(self) -> dict[str, Any]:
        """For printing; None where there is nothing to compare."""
        return {
            "sink": self.sink,
            "batch_id": self.batch_id,
            "offsets": self.offsets,
            "ledger_rows": self.ledger_rows,
            "table_rows": self.table.rows,
            "expected_rows": self.expected_rows,
            "doubled": self.table.doubled,
            "sums_agree": self.sums_agree if self.expected_sums else None,
            "is_right": self.is_right,
            "note": self.note,
        }


class Findings(tuple[Finding, ...]):
    """The findings of one pipeline; a notebook shows them as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return html_of_records("Rows against offsets", [finding.as_record() for finding in self])


def verify(pipeline: Pipeline) -> Findings:
    """Compare every sink of a pipeline. Of one that runs meanwhile the numbers may be of two batches.

    Raises:
        AlreadyRunningError: see :meth:`Pipeline.routes_to_look_at`.
        LineageError: a store has no entry of this pipeline.
        DirectKafkaError: Kafka or a store cannot be read.
    """
    routes = pipeline.routes_to_look_at()
    with ExitStack() as ending:
        cluster = ending.enter_context(closing(SourceCluster(pipeline.source_options)))
        for route in routes:
            ending.callback(route.sink.store.close)
        return Findings(_compare(pipeline, route, cluster) for route in routes)


def _compare(pipeline: Pipeline, route: Route, cluster: SourceCluster) -> Finding:
    sink = route.sink
    entry = _entry(pipeline, route)
    table = sink.recount()
    output, note = _output_again(pipeline, route, cluster, entry, is_folded=table.is_folded)
    condition = sink.capabilities.row_condition
    if output is not None and condition is not None:
        output = output.where(condition)
    with job_errors():
        expected_rows = None if output is None or table.is_folded else output.count()
        expected_sums = {} if output is None else _sums(output, table)
    return Finding(
        sink=sink.name,
        batch_id=entry.batch_id,
        offsets=sum(partition.end - partition.origin for partition in entry.progress),
        ledger_rows=_ledger_rows(pipeline, route, entry),
        table=table,
        expected_rows=expected_rows,
        expected_sums=expected_sums,
        note=note,
    )


def _entry(pipeline: Pipeline, route: Route) -> LedgerEntry:
    store = route.sink.store
    entry = store.read(pipeline.name)
    if entry is None:
        raise LineageError(
            store=store.identity,
            pipeline=pipeline.name,
            expected="an entry",
            found="none",
            remedy="The pipeline never ran here, was dropped, or ran under another name.",
        )
    return entry


def _ledger_rows(pipeline: Pipeline, route: Route, entry: LedgerEntry) -> int | None:
    """Rows that the ledger says were written; None where rows have left since."""
    rows, sink = entry.total_rows.get(route.sink.name, 0), route.sink
    if not any(route.output == DEAD_LETTERS for route in pipeline.routes):
        return rows
    replayed = sink.store.read(replay_name(pipeline.name))
    if replayed is None:
        return rows
    return None if route.output == DEAD_LETTERS else rows + replayed.total_rows.get(sink.name, 0)


def _output_again(
    pipeline: Pipeline, route: Route, cluster: SourceCluster, entry: LedgerEntry, *, is_folded: bool
) -> tuple[DataFrame | None, str]:
    """The binding's output over all records since the origin, or None and the reason why there is none."""
    if skipped := entry.total_rows.get(SKIPPED, 0):
        return None, f"a reset has skipped {skipped} offsets, so nothing was read again"
    if forgotten := entry.total_rows.get(FORGOTTEN, 0):
        return None, f"{forgotten} offsets were read of topics that are deleted since, so nothing was read again"
    if set_apart := entry.total_rows.get(ALL_SET_APART, 0):
        return None, f"{set_apart} records made their batch fail and were set apart, so nothing was read again"
    snapshot = cluster.snapshot()
    for partition in entry.progress:
        if partition.origin < partition.end and not _is_whole(
            partition, snapshot.partitions.get(partition.topic_partition)
        ):
            offset_range = f"{partition.topic_partition}[{partition.origin}, {partition.end})"
            return None, f"Kafka no longer has all of {offset_range}, so nothing was read again"
    session = pipeline.session()
    options = pipeline.source_in(session)
    ranges = [
        OffsetRange(partition.topic, partition.partition, partition.origin, partition.end)
        for partition in entry.progress
    ]
    planned = cluster.tasks([offset_range for offset_range in ranges if offset_range.count()], snapshot)
    tasks = [replace(task, payloads=options.payloads, columns=options.columns) for task in planned]
    source = records_frame(session, tasks, options.columns, payloads=options.payloads)
    output = outputs_of(pipeline.transform(session), source, session, pipeline.routes)[route.output]
    if is_per_batch(output) and not is_folded:
        return None, "the transform groups within each batch, so its rows are not comparable over all of them"
    return output, ""


def _is_whole(partition: PartitionProgress, seen: PartitionSnapshot | None) -> bool:
    """Whether Kafka still has, under the same topic id, what the pipeline has read."""
    if seen is None or (partition.topic_id and seen.topic_id and partition.topic_id != seen.topic_id):
        return False
    return seen.earliest <= partition.origin and partition.end <= seen.latest


def _sums(output: DataFrame, table: TableCount) -> dict[str, Any]:
    if not table.sums:
        return {}
    row = output.agg(*(f.sum(name).alias(name) for name in table.sums)).collect()[0]
    return {name: _plain(row[name]) for name in table.sums}


def _is_same_sum(stored: Any, expected: Any) -> bool:
    """Sums of floating-point numbers depend on the order of their terms in the last digits."""
    if isinstance(stored, float) or isinstance(expected, float):
        return stored is not None and math.isclose(float(stored), float(expected), rel_tol=1e-9)
    return bool(stored == expected)


def _plain(value: Any) -> Any:
    return 0 if value is None else value
