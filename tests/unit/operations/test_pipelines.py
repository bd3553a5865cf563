"""Summaries of pipelines, from ledger entries; against real stores: ``real/cli/test_offset_commands.py``."""

from __future__ import annotations

from directkafka.offsets import PartitionProgress, TopicPartition
from directkafka.operations.pipelines import PipelineSummary
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.ledger import FORGOTTEN


def test_rows_of_all_tables_are_one_number_and_offsets_of_deleted_topics_are_no_rows() -> None:
    entry = LedgerEntry(
        pipeline="flights",
        generation=3,
        lineage="a",
        batch_id=7,
        progress=tuple(PartitionProgress.at(TopicPartition("air", partition), 5) for partition in range(4)),
        row_counts={"flights": 1},
        total_rows={"flights": 20, "late": 2, FORGOTTEN: 1000},
        committed_at_ms=1_700_000_000_999,
    )
    assert PipelineSummary.of(entry).as_record() == {
        "pipeline": "flights",
        "generation": 3,
        "batch_id": 7,
        "partitions": 4,
        "rows": 22,
        "paused": False,
        "committed_at": "2023-11-14T22:13:20+00:00",
    }
