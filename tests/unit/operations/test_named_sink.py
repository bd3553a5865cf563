"""Sinks that a ledger names."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest
from tests.unit.pipeline.fakes import FakeStore, World

from directkafka.operations.named_sink import NamedSink
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.ledger import FORGOTTEN, SKIPPED


def entry(total_rows: Mapping[str, int]) -> LedgerEntry:
    return LedgerEntry(
        pipeline="flights", generation=1, lineage="a", batch_id=1, progress=(), committed_at_ms=1, total_rows=total_rows
    )


def test_the_sinks_of_a_ledger_are_those_whose_rows_it_counts() -> None:
    store = FakeStore(World(), "a")
    ledger_entry = entry({"rejected": 1, "flights": 2, FORGOTTEN: 7, SKIPPED: 9})
    assert [table.name for table in NamedSink.of_entry(ledger_entry, store)] == ["flights", "rejected"]
    assert {table.store.identity for table in NamedSink.of_entry(ledger_entry, store)} == {"a"}


def test_a_pipeline_that_has_written_nothing_has_one_sink_without_a_table() -> None:
    assert [table.name for table in NamedSink.of_entry(entry({}), FakeStore(World(), "a"))] == ["(no table yet)"]


def test_a_sink_of_which_only_the_name_is_known_writes_nothing() -> None:
    with pytest.raises(NotImplementedError, match="only the name of flights is known"):
        NamedSink("flights", FakeStore(World(), "a")).prepare(pa.schema([]))
