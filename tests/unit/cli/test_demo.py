"""What the demo says of its speed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from directkafka.cli.demo import show
from directkafka.cli.demo.show import DemoResult, Pace
from directkafka.errors import EnvironmentFaultError


def report(records: int, busy_ms: int) -> dict[str, int]:
    return {"records": records, "plan_ms": 1, "write_ms": busy_ms - 2, "commit_ms": 1}


def test_the_first_batch_of_each_start_is_not_counted_in_the_pace() -> None:
    lives = [[report(100, 9_000)], [report(100, 9_000), report(100, 50)], [report(100, 9_000), report(100, 150)]]
    assert Pace.of(lives, seconds=60.4) == Pace(records_per_second=1_000, seconds=60)


def test_a_pipeline_of_one_batch_has_a_pace_too() -> None:
    assert Pace.of([[report(100, 1_000)]], seconds=10).records_per_second == 100


def test_what_is_printed_tells_a_running_pipeline_from_its_starts() -> None:
    result = DemoResult(
        records_in=1_000, rows_out=1_000, lost=0, doubled=0, totals_equal=True, kills=3,
        records_per_second=100, seconds=60,
    )  # fmt: skip
    shown = {record["what"]: record["value"] for record in result.as_records()}
    assert shown["records per second, once it runs"] == 100
    assert shown["seconds at that rate"] == 10
    assert shown["seconds with 3 kills and 4 starts of Spark"] == 60


def test_outside_a_checkout_the_demo_says_so_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed = tmp_path / "lib" / "site-packages" / "directkafka" / "cli" / "demo" / "show.py"
    monkeypatch.setattr(show, "__file__", str(installed))
    monkeypatch.setattr(show, "_start_servers", lambda *_, **__: pytest.fail("a server was started"))
    with pytest.raises(EnvironmentFaultError, match=r"not part of an installed package.*make demo"):
        show.run_demo(keep=False, kills=0, seed=1)


@pytest.mark.parametrize("keep", [True, False])
def test_a_broker_that_nobody_was_told_of_ends_where_the_database_does_not_start(
    keep: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ended: list[str] = []

    class Broker:
        bootstrap_servers = "localhost:9092"

        def __init__(self, **_: object) -> None: ...

        def start(self) -> Broker:
            return self

        def stop(self) -> None:
            ended.append("broker")

    class Database(Broker):
        def start(self) -> Broker:
            raise EnvironmentFaultError(what="no database", remedy="none")

    monkeypatch.setattr("directkafka.testing.KafkaBroker", Broker)
    monkeypatch.setattr("directkafka.testing.EmbeddedPostgres", Database)
    monkeypatch.setattr("directkafka.testing.java.use_java", lambda: None)
    with ExitStack() as cleaning, pytest.raises(EnvironmentFaultError):
        show._start_servers(cleaning, tmp_path, keep=keep)
    assert ended == ["broker"]
