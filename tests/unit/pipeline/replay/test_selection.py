"""Which letters are chosen, and which pipelines cannot be replayed: each refusal says what to do."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from directkafka import DuckDBSink, KafkaSink, ParquetSink, Pipeline, SQLiteSink
from directkafka.errors import OptionError
from directkafka.pipeline.replay.report import ReplaySummary
from directkafka.pipeline.replay.selection import Chosen, choose
from directkafka.sinks.api import Sink
from directkafka.sinks.dead_letters.table import Selection


def pipeline(sink: Sink, dead_letters: Sink | None) -> Pipeline:
    source = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "air"}
    return Pipeline("flights", source=source, transform="SELECT 1", sinks=sink, dead_letters=dead_letters)


def test_times_are_instants_and_may_be_texts() -> None:
    chosen = choose({"since": "2013-01-01T05:00:00.5Z", "until": datetime(2013, 1, 1, 6, tzinfo=UTC)})
    assert chosen == Selection(since_ms=1_357_016_400_500, until_ms=1_357_020_000_000)
    # A record at the millisecond before is neither at or after the first time, nor left out by the second.
    finer = choose({"since": "2013-01-01T05:00:00.0005Z", "until": "2013-01-01T06:00:00.0005Z"})
    assert finer == Selection(since_ms=1_357_016_400_001, until_ms=1_357_020_000_001)


@pytest.mark.parametrize(
    ("chosen", "option"),
    [
        (Chosen(since="2013-01-01T05:00:00"), "since"),
        (Chosen(until="yesterday"), "until"),
        (Chosen(partition=1), "partition"),
        (Chosen(topic="air", from_offset=1), "from_offset"),
        (Chosen(until_offset=1), "until_offset"),
        (Chosen(reason=""), "reason"),
        (Chosen(limit=0), "limit"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(chosen: Chosen, option: str) -> None:
    with pytest.raises(OptionError) as caught:
        choose(chosen)
    assert caught.value.option == option


def test_a_pipeline_without_dead_letters_has_nothing_to_replay(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="nothing to replay"):
        pipeline(SQLiteSink(tmp_path / "air.db", "flights"), None).replay()


def test_letters_in_committed_files_are_refused_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="copy the dead letters that are there"):
        pipeline(SQLiteSink(tmp_path / "air.db", "flights"), ParquetSink(tmp_path / "letters")).replay()


def test_letters_in_a_topic_are_refused_with_a_way_out(tmp_path: Path) -> None:
    dead_letters = KafkaSink({"bootstrap.servers": "nowhere:1"}, "letters")
    with pytest.raises(OptionError, match="a pipeline of another name that subscribes to the topic"):
        pipeline(SQLiteSink(tmp_path / "air.db", "flights"), dead_letters).replay()


@pytest.mark.parametrize(
    ("sink", "option"),
    [
        (DuckDBSink("air.duckdb", "flights", "replace"), "mode"),
        (DuckDBSink("air.duckdb", "flights", "upsert", ["carrier"]), "order"),
    ],
)
def test_sinks_in_which_old_records_would_undo_newer_ones_are_refused(sink: Sink, option: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError) as caught:
        pipeline(sink, SQLiteSink(tmp_path / "air.db", "rejected")).replay(dry_run=True)
    assert caught.value.option == option


def test_an_upsert_with_an_order_takes_records_late(tmp_path: Path) -> None:
    sink = DuckDBSink(tmp_path / "air.duckdb", "flights", "upsert", ["carrier"], order=["offset"])
    dead_letters = SQLiteSink(tmp_path / "air.db", "rejected")
    assert pipeline(sink, dead_letters).replay(dry_run=True) == ReplaySummary(is_dry=True)
    assert not (tmp_path / "air.db").exists(), "a look makes nothing"


def test_a_pipeline_that_never_rejected_anything_is_replayed_without_spark(tmp_path: Path) -> None:
    done = pipeline(SQLiteSink(tmp_path / "air.db", "flights"), SQLiteSink(tmp_path / "air.db", "rejected")).replay()
    assert (done.letters, done.as_records()) == (0, [])


def test_the_name_of_replays_is_no_name_for_a_pipeline(tmp_path: Path) -> None:
    source = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "air"}
    sink = SQLiteSink(tmp_path / "air.db", "flights")
    with pytest.raises(OptionError, match="what the replays of 'flights' are called"):
        Pipeline("flights.replay", source=source, transform="SELECT 1", sinks=sink)


def test_a_summary_has_the_reasons_of_most_letters_first_and_the_new_ones() -> None:
    done = ReplaySummary.of({"late": 1, "round": 3}, {"round": 1, "odd": 1})
    assert done.as_records() == [
        {"reason": "round", "letters": 3, "rejected_again": 1},
        {"reason": "late", "letters": 1, "rejected_again": 0},
        {"reason": "odd", "letters": 0, "rejected_again": 1},
    ]
    assert (done.letters, done.rejected, done.replayed) == (4, 2, 2)
    dry = ReplaySummary.of({"late": 1}, None)
    assert (dry.as_records(), dry.replayed) == ([{"reason": "late", "letters": 1}], 0)
