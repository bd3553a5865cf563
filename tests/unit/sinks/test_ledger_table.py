"""Tables that a ledger names."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest
from tests.unit.pipeline.fakes import FakeStore, World

from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.ledger import FORGOTTEN, SKIPPED
from directkafka.sinks.ledger_table import LedgerTable


def entry(total_rows: Mapping[str, int]) -> LedgerEntry:
    return LedgerEntry(
        pipeline="flights", generation=1, lineage="a", batch_id=1, progress=(), committed_at_ms=1, total_rows=total_rows
    )


def test_the_tables_of_a_ledger_are_those_that_rows_were_written_into() -> None:
    store = FakeStore(World(), "a")
    found = entry({"rejected": 1, "flights": 2, FORGOTTEN: 7, SKIPPED: 9})
    assert [table.name for table in LedgerTable.all_of(found, store)] == ["flights", "rejected"]
    assert {table.store.identity for table in LedgerTable.all_of(found, store)} == {"a"}


def test_a_pipeline_that_has_written_nothing_has_a_table_nobody_knows() -> None:
    assert [table.name for table in LedgerTable.all_of(entry({}), FakeStore(World(), "a"))] == ["unknown"]


def test_a_table_whose_name_alone_is_known_is_not_written() -> None:
    with pytest.raises(NotImplementedError, match="only the name of flights is known"):
        LedgerTable("flights", FakeStore(World(), "a")).prepare(pa.schema([]))
