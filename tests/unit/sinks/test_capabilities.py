"""What each sink says that it can do, as one value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from directkafka import DeltaSink, DuckDBSink, KafkaSink, MySQLSink, ParquetSink, PostgresSink, SQLiteSink
from directkafka.sinks.api import Sink
from directkafka.sinks.capabilities import SinkCapabilities
from directkafka.sinks.write_modes import WriteMode

UPSERT = WriteMode.parse("upsert", key=["id"], add=(), order=("at",), where="a sink")
APPEND = WriteMode.parse("append", key=(), add=(), order=(), where="a sink")


@pytest.mark.parametrize(
    ("make", "capabilities"),
    [
        (
            lambda folder: PostgresSink(
                "host=one", "flights", "upsert", key=["id"], order=["at"], connections_max=3, inline_bytes_max=7
            ),
            SinkCapabilities(writers_max=3, inline_bytes_max=7, allows_prefetch=True, write_mode=UPSERT),
        ),
        (
            lambda folder: MySQLSink(
                "mysql://me@one/air",
                "flights",
                "upsert",
                key=["id"],
                order=["at"],
                connections_max=3,
                inline_bytes_max=7,
            ),
            SinkCapabilities(writers_max=3, inline_bytes_max=7, allows_prefetch=True, write_mode=UPSERT),
        ),
        (
            lambda folder: SQLiteSink(folder / "air", "flights", inline_bytes_max=7),
            SinkCapabilities(inline_bytes_max=7, allows_prefetch=True, write_mode=APPEND),
        ),
        (
            lambda folder: DuckDBSink(folder / "air", "flights", inline_bytes_max=7),
            SinkCapabilities(inline_bytes_max=7, allows_prefetch=True, write_mode=APPEND),
        ),
        (
            lambda folder: KafkaSink({"bootstrap.servers": "one:1"}, "flights", inline_bytes_max=7),
            SinkCapabilities(inline_bytes_max=7, has_second_phase=True, takes_records=True),
        ),
        (ParquetSink, SinkCapabilities()),
        (
            lambda folder: DeltaSink(folder, "upsert", ["id"], order=["at"]),
            SinkCapabilities(write_mode=UPSERT),
        ),
    ],
    ids=["postgres", "mysql", "sqlite", "duckdb", "kafka", "files", "delta"],
)
def test_a_sink_says_what_it_can_do(make: Any, capabilities: SinkCapabilities, tmp_path: Path) -> None:
    assert make(tmp_path).capabilities == capabilities


class Least(Sink):
    """A user's own sink that has no more than it must."""

    name, store = "rows", None  # type: ignore[assignment]
    check = prepare = task_writer = apply = recount = None  # type: ignore[assignment]


def test_a_sink_of_a_user_s_own_can_do_nothing_unless_it_says_so() -> None:
    sink: Any = Least()
    assert sink.capabilities == SinkCapabilities()
    assert (sink.clone(), sink.dead_letters(), sink.json_columns(None), sink.needs_second_phase(())) == (
        None,
        None,
        (),
        False,
    )
    with pytest.raises(NotImplementedError, match="rows writes no second phase"):
        sink.second_phase(None, None, (), writers_max=1)


def test_a_sink_that_lacks_a_method_cannot_be_made() -> None:
    class Without(Sink):
        name = "rows"

    with pytest.raises(TypeError, match="abstract"):
        Without()  # type: ignore[abstract]
