"""Rows of real tables by the records that they came from: counted, and deleted in a commit without rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from directkafka import DuckDBSink, MySQLSink, PostgresSink, SQLiteSink
from directkafka.errors import RowCountError
from directkafka.offsets import OffsetRange
from directkafka.sinks.api import LedgerEntry, TaskReport
from directkafka.sinks.record_rows import RecordDeletionSink, RecordRows
from directkafka.testing.store_contract import Job

pytestmark = pytest.mark.real

SCHEMA = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("id", pa.int64())])
SINKS = {"postgres": PostgresSink, "mysql": MySQLSink, "sqlite": SQLiteSink, "duckdb": DuckDBSink}
DATABASES = {"postgres": "database", "mysql": "mysql_database"}

#: Two topics that differ in case alone, and two partitions.
RECORDS = [
    *(("air", 0, offset) for offset in range(10)),
    *(("AIR", 0, offset) for offset in range(10)),
    *(("air", 1, offset) for offset in range(10)),
]


@pytest.fixture(params=SINKS)
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    kind = request.param
    address = request.getfixturevalue(DATABASES[kind]) if kind in DATABASES else tmp_path / f"air.{kind}"
    made = SINKS[kind](address, "flights")
    with closing(made.store):
        yield made


@pytest.fixture
def job(sink: Any) -> Job:
    """A driver that has written a row for each record."""
    started = Job(sink.store).start()
    sink.prepare(SCHEMA)
    write(started, sink, RECORDS)
    return started


def write(job: Job, sink: Any, records: list[tuple[str, int, int]]) -> None:
    entry = job.next_entry()
    attempt = job.batch(entry)
    rows = [{"topic": topic, "partition": partition, "offset": offset, "id": 1} for topic, partition, offset in records]
    report = sink.task_writer(attempt, SCHEMA)(iter([pa.RecordBatch.from_pylist(rows, SCHEMA)]))
    job.last = sink.store.commit(entry, previous=job.last, writes=[(sink, attempt, [report])])


def delete(job: Job, deletion: RecordDeletionSink, reports: Sequence[TaskReport]) -> LedgerEntry:
    entry = job.next_entry(records=0)
    return job.store.commit(entry, previous=job.last, writes=[(deletion, job.batch(entry), reports)])


def rows_in(sink: Any) -> list[tuple[str, int, int]]:
    with sink.dead_letters().opened() as rows:
        return sorted(tuple(row) for row in rows('SELECT "topic", "partition", "offset" FROM flights', ()))


def test_rows_are_counted_by_record_and_topics_that_differ_in_case_are_two(sink: Any, job: Job) -> None:
    record_rows = RecordRows.of(sink)
    assert record_rows is not None
    assert (record_rows.is_there, record_rows.names_records, record_rows.is_empty()) == (True, True, False)
    ranges = [OffsetRange("air", 0, 3, 8), OffsetRange("AIR", 0, 9, 20), OffsetRange("sea", 0, 0, 9)]
    assert record_rows.count(ranges) == [5, 1, 0]


def test_rows_are_deleted_with_the_entry_and_its_total_goes_down(sink: Any, job: Job) -> None:
    record_rows = RecordRows.of(sink)
    assert record_rows is not None
    ranges = [OffsetRange("air", 0, 3, 8), OffsetRange("air", 1, 0, 10)]
    deletion = RecordDeletionSink(sink, record_rows, ranges)
    entry = delete(job, deletion, deletion.reports())
    left = [record for record in RECORDS if not (record[0] == "air" and (record[1] == 1 or 3 <= record[2] < 8))]
    assert rows_in(sink) == sorted(left)
    assert (list(entry.row_counts.values()), list(entry.total_rows.values())) == ([-15], [len(left)])


def test_a_table_that_has_changed_since_it_was_counted_stays_as_it_is(sink: Any, job: Job) -> None:
    record_rows = RecordRows.of(sink)
    assert record_rows is not None
    deletion = RecordDeletionSink(sink, record_rows, [OffsetRange("air", 0, 3, 100)])
    reports = deletion.reports()
    write(job, sink, [("air", 0, 50)])
    before = sink.store.read(job.pipeline), rows_in(sink)
    assert len(before[1]) == len(RECORDS) + 1
    with pytest.raises(RowCountError):
        delete(job, deletion, reports)
    assert (sink.store.read(job.pipeline), rows_in(sink)) == before


def test_a_table_that_is_not_there_is_empty_and_names_nothing(sink: Any) -> None:
    record_rows = RecordRows.of(sink)
    assert record_rows is not None
    assert (record_rows.is_there, record_rows.names_records, record_rows.is_empty()) == (False, False, True)
