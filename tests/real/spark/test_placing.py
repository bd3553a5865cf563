"""Where tasks run: seen on two executors, each on a host of its own; the brokers are on one of the two."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.real.kafka.logs import produce
from tests.standalone import HOSTS, environment_of, standalone_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("placing.py")
BROKERS, OTHER = HOSTS
#: A minute and a half on an idle machine.
TIMEOUT_S = 1000


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    with standalone_cluster(tmp_path) as address:
        yield address


def test_each_partition_is_read_where_its_strategy_wants_it(
    servers: str, create_topic: Callable[..., str], master: str
) -> None:
    topic = create_topic(4)
    for partition in range(4):
        produce(servers, topic, [b"x"] * 10, partition=partition)
    reports = placed(servers, topic, master, "rdds")
    for name in ("consistent", "brokers", "fixed", "fixed in part"):
        first, *others = reports[name]["runs"]
        assert all(run == first for run in others), f"{name}: a partition stays where it is"
        assert reports[name]["warned"] == []
    consistent = reports["consistent"]["runs"][0]
    assert sorted(consistent.values()) == [BROKERS, BROKERS, OTHER, OTHER], "each executor has half"
    assert consistent["0"] != consistent["1"], "neighbours are on different ones"
    assert set(reports["brokers"]["runs"][0].values()) == {BROKERS}
    assert set(reports["fixed"]["runs"][0].values()) == {OTHER}
    in_part = reports["fixed in part"]["runs"][0]
    assert (in_part["0"], in_part["1"]) == (OTHER, BROKERS)
    # A host that is not there: it runs all the same, and says so.
    assert all(set(run) == {"0", "1", "2", "3"} for run in reports["nowhere"]["runs"])
    assert all(
        "no executor on no-such-host, which PreferFixed asks for" in warning for warning in reports["nowhere"]["warned"]
    )
    assert len(reports["nowhere"]["warned"]) == 3


def test_a_stream_reads_each_partition_where_its_strategy_wants_it(
    servers: str, create_topic: Callable[..., str], master: str
) -> None:
    topic = create_topic(4)
    for partition in range(4):
        produce(servers, topic, [b"x"] * 10, partition=partition)
    reports = placed(servers, topic, master, "streams")
    assert set(reports["brokers"]["read"].values()) == {BROKERS}
    assert set(reports["fixed"]["read"].values()) == {OTHER}


def placed(servers: str, topic: str, master: str, what: str) -> dict[str, Any]:
    done = subprocess.run(  # noqa: PLW1510 - what went wrong is shown below
        [sys.executable, str(PROGRAM), servers, topic, master, OTHER, what],
        env=environment_of(BROKERS), capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    return {report["strategy"]: report for report in map(json.loads, done.stdout.splitlines())}
