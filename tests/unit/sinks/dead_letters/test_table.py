"""Dead letters as values: the lines that a database writes, batches of a plan, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from directkafka.errors import RowCountError, RowRejectedError, SchemaMismatchError
from directkafka.sinks.api import TaskReport
from directkafka.sinks.dead_letters import table as module
from directkafka.sinks.dead_letters.replay import ReasonCounter, uncounted
from directkafka.sinks.dead_letters.table import DeadLetters, Selection, decode_dead_letters
from directkafka.sinks.embedded.duckdb import DuckDBSink
from directkafka.sinks.embedded.sqlite import SQLiteSink

Sink = SQLiteSink | DuckDBSink

RECORD = st.tuples(st.none() | st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 2**62))


def hexed(value: bytes | None) -> str:
    return "" if value is None else "x" + value.hex()


@given(st.lists(RECORD, max_size=20))
def test_lines_become_the_letters_that_they_were_made_of(records: list[tuple[bytes | None, bytes, int]]) -> None:
    lines = "\n".join(f"x{b'air'.hex()},7,{offset},{hexed(key)},{hexed(value)}" for key, value, offset in records)
    found = decode_dead_letters(lines, ("topic", "partition", "offset", "key", "value"))
    assert found.to_pylist() == [
        {"topic": "air", "partition": 7, "offset": offset, "key": key, "value": value} for key, value, offset in records
    ]


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


def test_a_batch_ends_at_its_number_of_letters_or_of_bytes(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LETTERS_MAX", 3)
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
    assert ([one.payload for one in payload], reasons) == ([b"inner"], {"late": 4, "round": 2})
