"""JSON from Kafka into a Postgres table of ten columns, end to end: exactly once, beside two peers, at least once.

The peers run in an environment of their own (``make bench`` makes it), as two processes that share the topic's two
partitions as a consumer group, which is faster than one. What is timed begins when all is imported and connected, and
ends when the offsets of all records are committed, which both do after the rows. Ours is a native pipeline in a Spark
that is warm, on two cores, its start and its ledger included.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
from figures import Figure, Run, alternately, console, ratio
from json_flights import DEFINITIONS, TABLE, flights, total_distance
from publish import publish_values

from directkafka import Cluster
from directkafka.errors import EnvironmentFaultError

__all__ = ["peers"]

_TOPIC: Final = "flights-of-json"
_PARTITIONS: Final = 2
_PEERS: Final = {"quixstreams": "peer_quix.py", "confluent-kafka and COPY": "peer_copy.py"}
_PROCESSES: Final = 2
_PYTHON: Final = Path(__file__).parents[1] / ".venv-peers" / "bin" / "python"
_WAIT_S: Final = 300.0
_LOOK_S: Final = 0.02
#: Enough for a pipeline's batches to run beside one another.
_TIMES_ROWS: Final = 3

_runs = itertools.count()


def peers(spark: Any, servers: str, dsn: str, *, rows: int, repeat: int, python: Path = _PYTHON) -> list[Figure]:
    """Rows a second beside each peer, of three million records unless ``rows`` says otherwise."""
    if not python.exists():
        raise EnvironmentFaultError(
            what=f"the peers' environment is missing: there is no {python}",
            remedy="Run make bench, or: python -m venv .venv-peers && .venv-peers/bin/pip install -r "
            "requirements/peers.txt",
        )
    count = _TIMES_ROWS * rows
    console.print(f"publishing {count:,} records of JSON")
    publish_values(servers, _TOPIC, flights(count), partitions=_PARTITIONS)
    sides: dict[str, Run] = {"ours": partial(import_module("json_rows").native, servers, _TOPIC, dsn)}
    for peer, script in _PEERS.items():
        sides[peer] = partial(_peer, python, script, servers, dsn, count=_PROCESSES, rows=count)
    table = Table(dsn, rows=count)
    alone = [name for name in sides if name != "ours"]
    seconds = alternately(sides, repeat, before=table.make, after=table.check, always_warm=alone)
    return [
        ratio(f"JSON to Postgres, beside {peer}, two processes", seconds, over=peer, required=1.8, records=count)
        for peer in _PEERS
    ]


class Table:
    """The table, made anew for each run."""

    def __init__(self, dsn: str, *, rows: int) -> None:
        self._dsn = dsn
        self._rows = rows

    def make(self, side: str) -> None:
        """An empty table."""
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
            connection.execute(f"CREATE TABLE {TABLE} ({DEFINITIONS})")
            connection.execute("CHECKPOINT")

    def check(self, side: str) -> None:
        """Every record's row is there, and what is in it came through."""
        with psycopg.connect(self._dsn) as connection:
            query = f"SELECT count(*), count(DISTINCT id), sum(distance), count(departed) FROM {TABLE}"
            totals = connection.execute(query).fetchone()
        wanted = (self._rows, self._rows, total_distance(self._rows), self._rows)
        assert totals == wanted, f"{side}: rows, ids, distances, departures are {totals}, not {wanted}"


def _peer(python: Path, script: str, servers: str, dsn: str, *, count: int, rows: int) -> float:
    """Seconds until a peer's processes have committed all records."""
    parts = urlsplit(dsn)
    group = f"{script}-{next(_runs)}"
    arguments: dict[str, object] = {
        "servers": servers,
        "topic": _TOPIC,
        "group": group,
        "host": parts.hostname,
        "port": parts.port,
        "database": parts.path.removeprefix("/"),
        "user": parts.username,
    }
    with ExitStack() as running:
        password = parts.password or ""
        processes = [running.enter_context(_process(python, script, arguments, password)) for _ in range(count)]
        cluster = running.enter_context(Cluster({"bootstrap.servers": servers}))
        places = cluster.partitions(_TOPIC)
        started = time.perf_counter()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("start\n")
            process.stdin.flush()
        while sum(offset or 0 for offset in cluster.committed(group, places).values()) < rows:
            assert all(process.poll() is None for process in processes), f"{script} has ended"
            assert time.perf_counter() - started < _WAIT_S, f"{script} takes more than {_WAIT_S:g} s"
            time.sleep(_LOOK_S)
        return time.perf_counter() - started


@contextmanager
def _process(python: Path, script: str, arguments: dict[str, object], password: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has said that it is ready. A command line can be seen by everybody, an environment cannot."""
    command = [str(python), str(Path(__file__).with_name(script)), json.dumps(arguments)]
    # What this environment tells its own children about packages is not for that one's. quixstreams keeps state in the
    # working folder, and two processes that make it at one moment fail.
    with (
        tempfile.TemporaryDirectory(prefix="directkafka-peer-") as folder,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONWARNINGS": "ignore", "PGPASSWORD": password},
            cwd=folder,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", f"{script} did not start"
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
