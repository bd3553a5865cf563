"""Dead letters: what is read of them, batches of a plan, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from directkafka.errors import RowCountError, RowRejectedError, SchemaMismatchError
from directkafka.sinks.api import TaskReport
from directkafka.sinks.dead_letters import table as module
from directkafka.sinks.dead_letters.replay import ReasonCounter, uncounted
from directkafka.sinks.dead_letters.table import DeadLetters, Selection
from directkafka.sinks.embedded.duckdb import DuckDBSink
from directkafka.sinks.embedded.sqlite import SQLiteSink

Sink = SQLiteSink | DuckDBSink


@pytest.fixture(params=["sqlite", "duckdb"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    make = SQLiteSink if request.param == "sqlite" else DuckDBSink
    return make(tmp_path / "air", "rejected")


def fill(sink: Sink, sizes: list[int]) -> None:
    """A table as a user might make it, with a letter of each size."""
    with sink.store.opened() as connection:
        connection.rows(
            'CREATE TABLE rejected (topic TEXT, "partition" INTEGER, "offset" INTEGER, value BLOB, reason TEXT)'
        )
        for offset, size in enumerate(sizes):
            value = b"v" * size
            connection.rows("INSERT INTO rejected VALUES ('air', 0, $1, $2, 'new')", (offset, value))


def dead_letters_of(sink: Sink) -> DeadLetters:
    return DeadLetters(sink.dead_letters(), "flights")


class Transaction:
    """What the operations inside a transaction are given by the store."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection


def inside(sink: Sink) -> Iterator[Transaction]:
    with sink.store.opened() as connection:
        yield Transaction(connection)


def planned(sink: Sink, selection: Selection, *, after: int = 1) -> dict[int, int]:
    dead_letters = dead_letters_of(sink)
    dead_letters.add_columns()
    for transaction in inside(sink):
        dead_letters.plan(transaction, selection, after=after)
    return dead_letters.planned()


def test_dead_letters_come_back_as_the_records_that_they_were(sink: Sink) -> None:
    at, is_duckdb = datetime(2013, 1, 1, 5, 0, 0, 123456, UTC), isinstance(sink, DuckDBSink)
    headers = [{"key": "trace, \n", "value": b"\x00\xff"}]
    with sink.store.opened() as connection:
        kinds = ("STRUCT(key TEXT, value BLOB)[]", "TIMESTAMPTZ") if is_duckdb else ("TEXT", "TEXT")
        connection.rows(
            'CREATE TABLE rejected (topic TEXT, "partition" INTEGER, "offset" BIGINT, key BLOB, value BLOB, '
            f'reason TEXT, headers {kinds[0]}, "timestamp" {kinds[1]})'
        )
        as_text = json.dumps([{"key": header["key"], "value": "AP8="} for header in headers])
        full = (b"\x00,\n'", b"", headers if is_duckdb else as_text, at if is_duckdb else f"{at:%F %T.%f}+00:00")
        for offset, cells in enumerate([full, (None, None, None, None)]):
            insert = "INSERT INTO rejected VALUES ('air', 7, $1, $2, $3, 'new', $4, $5)"
            connection.rows(insert, (2**40 + offset, *cells))
    planned(sink, Selection())
    first, second = sorted(dead_letters_of(sink).read(2).to_pylist(), key=lambda row: int(row["offset"]))
    assert json.loads(first.pop("headers")) == json.loads(as_text)
    assert first == {
        "topic": "air", "partition": 7, "offset": 2**40, "timestamp": at, "key": b"\x00,\n'", "value": b"",
        "replays": 0,
    }  # fmt: skip
    assert second == {
        "topic": "air", "partition": 7, "offset": 2**40 + 1, "timestamp": None, "key": None, "value": None,
        "headers": None, "replays": 0,
    }  # fmt: skip


def test_some_letters_are_told_with_the_beginnings_of_their_values(sink: Sink) -> None:
    fill(sink, [10, 3, 2_000_000])
    dead_letters = dead_letters_of(sink)
    letters = dead_letters.examples(5, bytes_max=4)
    assert [(letter.topic, letter.partition, letter.offset, letter.reason) for letter in letters] == [
        ("air", 0, 0, "new"), ("air", 0, 1, "new"), ("air", 0, 2, "new"),
    ]  # fmt: skip
    assert [(len(letter.value or b""), letter.byte_count) for letter in letters] == [(4, 10), (3, 3), (4, 2_000_000)]
    assert len(dead_letters.examples(1, bytes_max=4)) == 1
    assert dead_letters.examples(5, bytes_max=4, reason="ne") == ()
    assert len(dead_letters.examples(5, bytes_max=4, reason="new")) == 3
    assert dead_letters.count() == 3


def test_reasons_are_told_by_their_beginnings_the_most_common_first(sink: Sink) -> None:
    fill(sink, [1] * 6)
    long = "line one\nline two " + "x" * 1_000
    with sink.store.opened() as connection:
        connection.rows('UPDATE rejected SET reason = $1 WHERE "offset" < 2', (long,))
        connection.rows("UPDATE rejected SET reason = 'once' WHERE \"offset\" = 2")
    dead_letters = dead_letters_of(sink)
    assert dead_letters.common_reasons(2) == {"new": 3, long[:500]: 2}
    assert [letter.offset for letter in dead_letters.examples(9, bytes_max=1, reason=long[:500])] == [0, 1]


def test_a_batch_ends_at_its_number_of_letters_or_of_bytes(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEAD_LETTERS_MAX", 3)
    monkeypatch.setattr(module, "BYTES_MAX", 100)
    fill(sink, [10, 10, 10, 10, 200, 10, 10])
    # Three by number; one more and the large one, which began below 100 bytes; the two behind it.
    assert planned(sink, Selection()) == {2: 3, 3: 2, 4: 1, 5: 1}
    assert dead_letters_of(sink).read(3).column("offset").to_pylist() == [3, 4]


def test_a_plan_lets_go_what_an_earlier_one_of_the_same_pipeline_held(sink: Sink) -> None:
    fill(sink, [1] * 5)
    assert planned(sink, Selection()) == {2: 5}
    assert planned(sink, Selection(limit=2), after=7) == {8: 2}


def test_what_another_pipelines_replay_holds_is_left_alone(sink: Sink) -> None:
    fill(sink, [1] * 5)
    planned(sink, Selection(limit=2))
    with sink.store.opened() as connection:
        connection.rows("UPDATE rejected SET replay_claim = 'flights2 2' WHERE replay_claim IS NOT NULL")
    assert planned(sink, Selection()) == {2: 3}
    assert dead_letters_of(sink).count_by_reason(Selection()) == {"new": 3}


def test_a_record_with_two_letters_is_refused(sink: Sink) -> None:
    fill(sink, [1] * 5)
    with sink.store.opened() as connection:
        connection.rows('INSERT INTO rejected SELECT * FROM rejected WHERE "offset" = 3')
    with pytest.raises(RowRejectedError, match="2 dead letters are of the one record air-0 at offset 3"):
        planned(sink, Selection())


def test_letters_that_are_not_those_that_were_read_stay(sink: Sink) -> None:
    fill(sink, [1] * 5)
    planned(sink, Selection())
    dead_letters = dead_letters_of(sink)
    for transaction in inside(sink):
        with pytest.raises(RowCountError):
            dead_letters.delete_replayed(transaction, 2, expected=6)
        assert transaction.connection.rows("SELECT count(*) FROM rejected") == [(5,)]


def test_a_table_without_what_a_replay_needs_is_refused(sink: Sink) -> None:
    fill(sink, [1])
    dead_letters_of(sink).check(Selection())
    with pytest.raises(SchemaMismatchError, match="the columns timestamp, which"):
        dead_letters_of(sink).check(Selection(since_ms=0))
    with sink.store.opened() as connection:
        connection.rows("ALTER TABLE rejected DROP COLUMN reason")
    with pytest.raises(SchemaMismatchError, match="the columns reason, which"):
        dead_letters_of(sink).check(Selection())


def test_a_report_says_how_many_rows_have_which_reason() -> None:
    def inner(batches: Iterator[pa.RecordBatch]) -> TaskReport:
        return TaskReport(rows=sum(batch.num_rows for batch in batches), attempt="a", staged=False, payload=b"inner")

    batch = pa.record_batch({"reason": ["late", "round", "late"]})
    report = ReasonCounter(inner)(iter([batch, batch]))
    assert report.rows == 6
    payload, reasons = uncounted([report])
    assert ([task_report.payload for task_report in payload], reasons) == ([b"inner"], {"late": 4, "round": 2})
