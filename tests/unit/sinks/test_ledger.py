"""What every store makes of a ledger's entries."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.planning.snapshots import T0, T1, U0, at

from directkafka.errors import SchemaMismatchError
from directkafka.offsets import PartitionProgress
from directkafka.sinks.api import FORMAT_VERSION, LedgerEntry
from directkafka.sinks.ledger import (
    FORGOTTEN,
    PipelineState,
    schema_ids,
    sink_rows,
    state_from_row,
    with_counts,
    with_notes,
)


def entry(batch_id: int, *progress: PartitionProgress) -> LedgerEntry:
    return LedgerEntry(pipeline="p", generation=1, lineage="l", batch_id=batch_id, progress=progress)


def test_totals_carry_on() -> None:
    first = with_counts(entry(0, at(T0, 5)), None, {"rows": 5})
    second = with_counts(entry(1, at(T0, 9)), first, {"rows": 4, "late": 1})
    assert (second.row_counts, second.total_rows) == ({"rows": 4, "late": 1}, {"rows": 9, "late": 1})


def test_ids_of_schemas_stand_beside_the_rows_of_their_batch_and_are_none() -> None:
    first = with_counts(with_notes(entry(0, at(T0, 5)), schema_ids={"value": 17, "key": 3}), None, {"rows": 5})
    assert schema_ids(first) == {"value": 17, "key": 3}
    assert (sink_rows(first), first.total_rows) == ({"rows": 5}, {"rows": 5})
    second = with_counts(entry(1, at(T0, 9)), first, {"rows": 4})
    assert (schema_ids(second), second.row_counts) == ({}, {"rows": 4})


def test_offsets_of_partitions_that_leave_the_ledger_are_counted_so_that_verify_can_tell() -> None:
    first = with_counts(entry(0, at(T0, 5), at(T1, 20, origin=8), at(U0, 3, origin=3)), None, {})
    second = with_counts(entry(1, at(T0, 9), at(U0, 3, origin=3)), first, {"rows": 4})
    assert second.total_rows == {"rows": 4, FORGOTTEN: 12}
    third = with_counts(entry(2, at(T0, 9)), second, {})
    assert third.total_rows == {"rows": 4, FORGOTTEN: 12}


def test_an_entry_of_another_lineage_forgets_none() -> None:
    first = with_counts(entry(0, at(T0, 5), at(U0, 3)), None, {})
    assert with_counts(replace(entry(0, at(T0, 5)), lineage="open"), first, {}).total_rows == {}


def test_a_replay_s_entry_which_has_no_partitions_forgets_none() -> None:
    first = with_counts(entry(0), None, {"rows": 1})
    assert with_counts(entry(1), first, {"rows": 1}).total_rows == {"rows": 2}


def test_a_row_of_a_newer_format_is_told_with_both_versions_whatever_its_columns_hold() -> None:
    row = {
        "pipeline": "flights", "format_version": FORMAT_VERSION + 1, "generation": 3, "lineage": "x", "batch_id": 7,
        "batch_generation": 2, "commit_id": "c", "progress": [{"topic": "t", "tiers": [1, 2]}], "row_counts": {},
        "total_rows": {}, "committed_at_ms": 0,
    }  # fmt: skip
    with pytest.raises(SchemaMismatchError, match=f"format version {FORMAT_VERSION + 1} is newer"):
        state_from_row(row, store="db")
    assert state_from_row(row | {"batch_id": -1}, store="db") == PipelineState(generation=3, commit_id="c")
