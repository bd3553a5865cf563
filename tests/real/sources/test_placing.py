"""Where tasks run: seen on two executors that are processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.real.kafka.logs import produce

from directkafka.testing.java import use_java

pytestmark = [pytest.mark.real, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("placing.py")


def test_each_partition_is_read_where_its_strategy_wants_it(servers: str, create_topic: Callable[..., str]) -> None:
    topic = create_topic(4)
    for partition in range(4):
        produce(servers, topic, [b"x"] * 10, partition=partition)
    found = placed(servers, topic)
    for name in ("consistent", "brokers", "fixed"):
        first, *others = found[name]["runs"]
        assert all(one == first for one in others), f"{name}: a partition stays with its executor"
        assert sorted(first.values()) == ["0", "0", "1", "1"], f"{name}: each executor has half"
        assert first["0"] != first["1"], f"{name}: neighbours are on different ones"
        assert found[name]["warned"] == []
    # A host that is not there: it runs all the same, and says so.
    assert all(set(run) == {"0", "1", "2", "3"} for run in found["nowhere"]["runs"])
    assert all("no executor on no-such-host, which PreferFixed asks for" in one for one in found["nowhere"]["warned"])
    assert len(found["nowhere"]["warned"]) == 3


def placed(servers: str, topic: str) -> dict[str, Any]:
    environment = {
        **os.environ, "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(use_java()),
        # Executors are on the host that brokers have.
        "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
    }  # fmt: skip
    done = subprocess.run(  # noqa: PLW1510 - what went wrong is shown below
        [sys.executable, str(PROGRAM), servers, topic], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return {one["strategy"]: one for one in map(json.loads, done.stdout.splitlines())}
