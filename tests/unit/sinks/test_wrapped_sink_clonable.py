"""A sink that is made again has the same settings, and shares nothing that a running pipeline holds."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from directkafka import DeltaSink, DuckDBSink, KafkaSink, MySQLSink, ParquetSink, PostgresSink, SQLiteSink


class OwnSink(KafkaSink):
    """Made from other arguments than its base."""

    def __init__(self, number: int) -> None:
        super().__init__({"bootstrap.servers": "one:1"}, f"topic-{number}")


def sinks(folder: Path) -> list[Any]:
    return [
        PostgresSink("host=one dbname=two", "flights", "upsert", key=["id"], connections_max=3),
        MySQLSink("mysql://me:secret@one/air", "flights", "upsert", key=["id"], order=["at"]),
        SQLiteSink(folder / "a.sqlite", "flights", mode="merge", key=["id"], add=["flights"]),
        DuckDBSink(folder / "a.duckdb", "flights"),
        ParquetSink(folder / "files", table="flights"),
        DeltaSink(folder / "delta"),
        KafkaSink({"bootstrap.servers": "one:1"}, "flights", tasks_max=2, name_prefix="mine"),
        OwnSink(7),
    ]


@pytest.mark.parametrize("number", range(8))
def test_a_sink_that_is_made_again_has_its_settings_and_a_store_of_its_own(tmp_path: Path, number: int) -> None:
    sink = sinks(tmp_path)[number]
    again = sink.clone()
    assert type(again) is type(sink)
    assert repr(again) == repr(sink)
    assert again.store is not sink.store
    assert repr(again.clone()) == repr(sink)


def test_what_was_pickled_can_be_made_again() -> None:
    sink = pickle.loads(pickle.dumps(OwnSink(7)))
    assert sink.clone().name == "topic-7"
