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
    found = placed(servers, topic, master, "rdds")
    for name in ("consistent", "brokers", "fixed", "fixed in part"):
        first, *others = found[name]["runs"]
        assert all(one == first for one in others), f"{name}: a partition stays where it is"
        assert found[name]["warned"] == []
    consistent = found["consistent"]["runs"][0]
    assert sorted(consistent.values()) == [BROKERS, BROKERS, OTHER, OTHER], "each executor has half"
    assert consistent["0"] != consistent["1"], "neighbours are on different ones"
    assert set(found["brokers"]["runs"][0].values()) == {BROKERS}
    assert set(found["fixed"]["runs"][0].values()) == {OTHER}
    in_part = found["fixed in part"]["runs"][0]
    assert (in_part["0"], in_part["1"]) == (OTHER, BROKERS)
    # A host that is not there: it runs all the same, and says so.
    assert all(set(run) == {"0", "1", "2", "3"} for run in found["nowhere"]["runs"])
    assert all("no executor on no-such-host, which PreferFixed asks for" in one for one in found["nowhere"]["warned"])
    assert len(found["nowhere"]["warned"]) == 3


def test_a_stream_reads_each_partition_where_its_strategy_wants_it(
    servers: str, create_topic: Callable[..., str], master: str
) -> None:
    topic = create_topic(4)
    for partition in range(4):
        produce(servers, topic, [b"x"] * 10, partition=partition)
    found = placed(servers, topic, master, "streams")
    assert set(found["brokers"]["read"].values()) == {BROKERS}
    assert set(found["fixed"]["read"].values()) == {OTHER}


def placed(servers: str, topic: str, master: str, what: str) -> dict[str, Any]:
    done = subprocess.run(  # noqa: PLW1510 - what went wrong is shown below
        [sys.executable, str(PROGRAM), servers, topic, master, OTHER, what],
        env=environment_of(BROKERS), capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    return {one["strategy"]: one for one in map(json.loads, done.stdout.splitlines())}
