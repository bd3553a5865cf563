"""Where tasks run: seen on two executors, each on a host of its own; the brokers are on one of the two."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from tests.real.kafka.logs import produce, until

from directkafka.testing.java import use_java
from directkafka.testing.ports import ReservedPort

pytestmark = [pytest.mark.real, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("placing.py")
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
BROKERS, OTHER = "127.0.0.1", "127.0.0.2"
TIMEOUT_S = 400


@pytest.fixture
def environment() -> dict[str, str]:
    return {
        **os.environ, "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(use_java()),
        "SPARK_LOCAL_IP": BROKERS, "SPARK_LOCAL_HOSTNAME": BROKERS,
    }  # fmt: skip


@pytest.fixture
def master(tmp_path: Path, environment: dict[str, str]) -> Iterator[str]:
    """A standalone master with a worker on each host; a worker's folder has its host's name."""
    with ExitStack() as running:
        port = running.enter_context(ReservedPort()).number
        address = f"spark://{BROKERS}:{port}"
        log = tmp_path / "master.log"
        arguments = ["Master", "--host", BROKERS, "--port", str(port), "--webui-port", "0"]
        running.enter_context(daemon(arguments, log, environment))
        until(lambda: "I have been elected leader" in log.read_text(), "the master does not start")
        for host in (BROKERS, OTHER):
            log = tmp_path / f"worker-{host}.log"
            sizes = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(tmp_path / host)]
            # The host of --host is what the worker binds to, and what its executors are known by.
            own = environment | {"SPARK_LOCAL_IP": host, "SPARK_LOCAL_HOSTNAME": host}
            running.enter_context(daemon(["Worker", "--host", host, *sizes, address], log, own))
            until(lambda log=log: "Successfully registered" in log.read_text(), "a worker does not start")
        yield address


@contextmanager
def daemon(arguments: list[str], log: Path, environment: dict[str, str]) -> Iterator[None]:
    kind, *others = arguments
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(SPARK_CLASS), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *others],
            env=environment, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_each_partition_is_read_where_its_strategy_wants_it(
    servers: str, create_topic: Callable[..., str], master: str, environment: dict[str, str]
) -> None:
    topic = create_topic(4)
    for partition in range(4):
        produce(servers, topic, [b"x"] * 10, partition=partition)
    found = placed(servers, topic, master, environment)
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


def placed(servers: str, topic: str, master: str, environment: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(  # noqa: PLW1510 - what went wrong is shown below
        [sys.executable, str(PROGRAM), servers, topic, master, OTHER],
        env=environment, capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    return {one["strategy"]: one for one in map(json.loads, done.stdout.splitlines())}
