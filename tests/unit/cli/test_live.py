"""The view of ``run --live``: what it shows, in 80 columns, and that it does nothing to a terminal."""

from __future__ import annotations

import io
import logging

import pytest
from rich.console import Console
from tests.hostile import HOSTILE, assert_harmless

from directkafka.cli import output
from directkafka.cli.live import LiveView, live_view
from directkafka.kafka.consumer.range_task import ReadCount
from directkafka.offsets import TopicPartition
from directkafka.operations.positions import PartitionPosition
from directkafka.pipeline.progress import BatchReport, TableRows
from directkafka.pipeline.status import PipelineStatus, Step

COLUMNS = 80


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def batch(number: int, records: int, **more: object) -> BatchReport:
    usual = {
        "pipeline": "flights", "generation": 3, "batch_id": number, "offsets": records, "records": records,
        "rows": {"flights": records}, "backlog": 0, "plan_ms": 10, "write_ms": 700, "commit_ms": 290, "ranges": (),
        "read": {"air": ReadCount(records, 10 * records)},
        "tables": (TableRows(store="s", table="t", row_count=records),),
    }  # fmt: skip
    return BatchReport(**{**usual, **more})


def position(topic: str, partition: int, lag: int, age_s: float | None = 1.5) -> PartitionPosition:
    return PartitionPosition(
        topic=topic, partition=partition, earliest=0, current=10, end=10 + lag, lag=lag, lag_seconds=age_s
    )


def drawn(view: LiveView) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=COLUMNS, force_terminal=False).print(view)
    text = file.getvalue()
    assert_harmless(text)
    lines = text.splitlines()
    assert max(map(len, lines)) <= COLUMNS
    return lines


def test_a_pipeline_that_runs_is_told_in_80_columns() -> None:
    clock = Clock()
    status = PipelineStatus("flights", clock=clock)
    view = LiveView(status, lambda: [position("air", 0, 5), position("air", 1, 12_000)], clock)
    status.started()
    drawn(view)
    for number in range(3):
        clock.now_s += 2.0
        status.committed(batch(number, 1_000 * (number + 1)), {TopicPartition("air", 0): 10})
        drawn(view)
    status.at(Step.WRITE)
    clock.now_s += 0.4
    head, counts, records, rows, times, heads, first, second, *_ = drawn(view)
    assert head.split("  ") == ["flights", "generation 3", "write 0 s", "up 0:00:06"]
    assert counts.strip() == "batch 2  6,000 records  6,000 rows  0 dead letters"
    assert records.split() == ["records", "1,500/s", "▃▅█"]
    assert rows.split() == ["rows", "1,500/s", "▃▅█"]
    assert times.split("  ")[-3:] == ["plan 1%", "write 70%", "commit 29%"]
    assert heads.split() == ["partition", "unread", "seconds", "next", "offset"]
    assert first.split() == ["air-1", "12,000", "1.5", "10"]
    assert second.split() == ["air-0", "5", "1.5", "10"]


def test_a_pipeline_that_has_done_nothing_yet_is_told_too() -> None:
    text = "\n".join(drawn(LiveView(PipelineStatus("flights"), lambda: ())))
    assert "batch -" in text
    assert "not known" in text


def test_of_many_partitions_the_furthest_are_told_and_the_others_summed_up() -> None:
    positions = [position("air", number, number) for number in range(100)]
    lines = drawn(LiveView(PipelineStatus("flights"), lambda: positions))
    assert [line.split()[0] for line in lines if line.startswith("air-")] == [f"air-{n}" for n in range(99, 89, -1)]
    assert any(line.split() == ["90", "more", "4,005"] for line in lines)


def test_a_long_name_keeps_its_partition() -> None:
    lines = drawn(LiveView(PipelineStatus("flights"), lambda: [position("a" * 249, 12_345, 1)]))
    (row,) = [line for line in lines if line.startswith("aaa")]
    name = row.split()[0]
    assert (len(name), name[-6:], "…" in name) == (40, "-12345", True)


def test_what_is_tried_again_and_what_is_rejected_is_told() -> None:
    status = PipelineStatus("flights")
    letters = TableRows(store="s", table="letters", row_count=7, is_of_dead_letters=True)
    status.committed(batch(0, 10, tables=(letters,)), {})
    status.retried(ConnectionError())
    text = "\n".join(drawn(LiveView(status, lambda: ())))
    assert "7 dead letters" in text
    assert "tried again: ConnectionError 1 times" in text
    assert "retrying" in text


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_names_of_any_kind_do_nothing_to_the_terminal(name: str) -> None:
    status = PipelineStatus(HOSTILE[name])
    lines = drawn(LiveView(status, lambda: [position(HOSTILE[name], 0, 1, None)]))
    assert_harmless("\n".join(lines))
    assert [line.split()[-3:] for line in lines if line.endswith(" 10")] == [["1", "-", "10"]]


def test_warnings_are_printed_above_the_view_and_other_lines_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    console = output._Messages(file=file, force_terminal=True, width=COLUMNS)
    monkeypatch.setattr(output, "messages", console)
    monkeypatch.setattr("directkafka.cli.live.messages", console)
    before = logging.getLogger().handlers[:]
    with live_view(PipelineStatus("flights")):
        logging.getLogger("directkafka.pipeline").info("a batch, which is drawn")
        logging.getLogger("directkafka.pipeline").warning("retention comes near")
    text = file.getvalue()
    assert ("retention comes near" in text, "a batch, which" in text, "flights" in text) == (True, False, True)
    assert logging.getLogger().handlers == before


def test_nothing_is_drawn_where_stdout_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "messages", output._Messages(force_terminal=True))
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert not output.is_drawn_on()
