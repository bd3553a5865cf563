"""Rows that say which table they go into."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from directkafka.errors import OptionError, RowRejectedError, SchemaMismatchError
from directkafka.sinks.api import TaskReport
from directkafka.sinks.delta.sink import DeltaSink
from directkafka.sinks.embedded.sqlite import SQLiteSink
from directkafka.sinks.routing import RoutedWriter, Routing, routed_sinks


def reports_numbers(batches: Iterator[pa.RecordBatch]) -> TaskReport:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return TaskReport(rows=len(rows), attempt=str(rows), staged=False)


def writer(table: str, *tables: str) -> RoutedWriter:
    return RoutedWriter(reports_numbers, Routing("kind", tables), table, store="here", sink=table)


def batch(*kinds: str | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(range(len(kinds))), "kind": pa.array(kinds, pa.string())})


def test_each_writer_takes_the_rows_that_name_its_table_without_the_name() -> None:
    batches = [batch("a", "b", "a"), batch(), batch("b")]
    taken = {table: pickle.loads(pickle.dumps(writer(table, "a", "b")))(iter(batches)) for table in ("a", "b")}
    assert taken["a"].attempt == str([{"n": 0}, {"n": 2}])
    assert taken["b"].attempt == str([{"n": 1}, {"n": 0}])


@pytest.mark.parametrize(
    ("kind", "told"), [("c", "column kind has 'c', not in tables \\(a, b\\)"), (None, "column kind has None")]
)
def test_a_row_that_names_no_table_of_the_list_is_refused_by_each(kind: str | None, told: str) -> None:
    for table in ("a", "b"):
        with pytest.raises(RowRejectedError, match=told):
            writer(table, "a", "b")(iter([batch("a", kind)]))


def test_names_that_are_many_are_told_in_part() -> None:
    with pytest.raises(RowRejectedError) as raised:
        writer("a", "a")(iter([batch(*(f"x{number}" for number in range(100)))]))
    assert "'x4', ..., not in tables" in raised.value.detail


def test_the_column_may_be_of_any_layout_of_texts() -> None:
    kinds = pa.array(["a", "b", "a"]).dictionary_encode()
    for array in (kinds, kinds.cast(pa.large_string())):
        rows = pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), array], names=["n", "kind"])
        assert writer("a", "a", "b")(iter([rows])).rows == 2


@pytest.mark.parametrize(
    ("column", "tables", "option"),
    [
        (None, ["a"], "table_from"),
        ("", ["a"], "table_from"),
        ("kind", None, "tables"),
        ("kind", [], "tables"),
        ("kind", "a", "tables"),
        ("kind", ["a", ""], "tables"),
        ("kind", ["a", 1], "tables"),
        ("kind", ["a", "b", "a"], "tables"),
    ],
)
def test_what_is_no_list_of_tables_is_refused(column: Any, tables: Any, option: str) -> None:
    with pytest.raises(OptionError) as raised:
        Routing.parse(column, tables)
    assert raised.value.option == option


def test_sinks_are_made_by_their_class(tmp_path: Path) -> None:
    sinks = SQLiteSink.routed(tmp_path / "shop.db", table_from="kind", tables=["a", "b"], mode="ignore")
    assert [sink.name for sink in sinks] == ["a", "b"]
    assert [sink.capabilities.row_condition for sink in sinks] == ["`kind` = 'a'", "`kind` = 'b'"]
    odd = SQLiteSink.routed(tmp_path / "shop.db", table_from="k`i", tables=["it's \\"])
    assert odd[0].capabilities.row_condition == "`k``i` = 'it\\'s \\\\'"
    with pytest.raises(OptionError, match="keep one of both"):
        SQLiteSink.routed(tmp_path / "shop.db", table="a", table_from="kind", tables=["a"])
    with pytest.raises(OptionError, match="a DeltaSink has no tables"):
        DeltaSink.routed(tmp_path, table_from="kind", tables=["a"])


def test_a_sink_for_each_table_wants_the_column_and_does_not_store_it(tmp_path: Path) -> None:
    sinks = routed_sinks(lambda table: SQLiteSink(tmp_path / "shop.db", table), Routing("kind", ("a", "b")))
    assert [sink.name for sink in sinks] == ["a", "b"]
    with pytest.raises(SchemaMismatchError, match="no column 'kind'"):
        sinks[0].prepare(pa.schema([("n", pa.int64())]))
    with pytest.raises(SchemaMismatchError, match="is no string"):
        sinks[0].check(pa.schema([("n", pa.int64()), ("kind", pa.int64())]))
    copy = sinks[1].clone()
    assert copy is not None
    assert repr(copy) == repr(sinks[1])
    assert copy.store is not sinks[1].store
