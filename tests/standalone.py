"""A standalone Spark cluster on this machine: a master, and a worker with one executor on each of two addresses.

In ``local-cluster`` all executors are on one host. There no location strategy makes a difference, and Spark starts no
second copy of a task, which it never does on the host of the first one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
from tests.waiting import until

from directkafka.testing.java import use_java
from directkafka.testing.servers.ports import ReservedPort

HOSTS = ("127.0.0.1", "127.0.0.2")
_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


def environment_of(host: str) -> dict[str, str]:
    """For a process of Spark's on this host."""
    return {
        **os.environ, "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(use_java()),
        "SPARK_LOCAL_IP": host, "SPARK_LOCAL_HOSTNAME": host,
    }  # fmt: skip


@contextmanager
def standalone_cluster(folder: Path, **environment: str) -> Iterator[str]:
    """The master's address.

    Args:
        folder: of logs, and of the executors: each works below a folder that has its host's name.
        environment: of the workers, and so of the executors.
    """
    with ExitStack() as running:
        address = f"spark://{HOSTS[0]}:{running.enter_context(ReservedPort()).number}"
        port = address.rpartition(":")[2]
        log = folder / "master.log"
        arguments = ["Master", "--host", HOSTS[0], "--port", port, "--webui-port", "0"]
        running.enter_context(_daemon(arguments, log, environment_of(HOSTS[0])))
        until(lambda: "I have been elected leader" in log.read_text(), "the master does not start")
        for host in HOSTS:
            own = folder / f"worker-{host}.log"
            sizes = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(folder / host)]
            arguments = ["Worker", "--host", host, *sizes, address]
            running.enter_context(_daemon(arguments, own, environment_of(host) | environment))
            until(lambda own=own: "Successfully registered" in own.read_text(), "a worker does not start")
        yield address


@contextmanager
def _daemon(arguments: list[str], log: Path, environment: dict[str, str]) -> Iterator[None]:
    kind, *others = arguments
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(_SPARK_CLASS), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *others],
            env=environment, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        process.wait()
