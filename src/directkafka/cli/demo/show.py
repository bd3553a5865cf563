"""The demo's course: start, publish, run and kill, count; its pipeline is a process of its own, the victim."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from directkafka.cli.demo.flights import CarrierTotal, expected_totals, publish
from directkafka.cli.output import messages, say
from directkafka.errors import EnvironmentFaultError


class Victim:
    """``directkafka run`` in a process group of its own, with its batch reports read as they come.

    Args:
        file: the pipeline file.
        environment: the child's environment.
        log: where its messages go.
    """

    def __init__(self, file: Path, environment: Mapping[str, str], log: Path) -> None:
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "directkafka", "run", str(file), "--format", "json"],
            env=dict(environment),
            stdout=subprocess.PIPE,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            cwd=log.parent,
        )
        self.reports: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for_batches(self, count: int, timeout_s: float) -> bool:
        """Wait until it has reported so many batches, or ended; whether it has."""
        with self._news:
            self._news.wait_for(lambda: len(self.reports) >= count or self.has_ended, timeout_s)
            return len(self.reports) >= count

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """SIGKILL to the driver. Spark's JVM notices that its driver is gone and ends by itself."""
        self._process.send_signal(signal.SIGKILL)
        self._finish()

    def stop(self, timeout_s: float) -> int:
        """SIGTERM, as a supervisor would; the exit code."""
        self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self._finish()

    def clean_up(self) -> None:
        """End whatever is left of its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._finish()

    def _finish(self) -> int:
        if not self.has_ended:
            self._process.kill()
        code = self._process.wait()
        self._reader.join(timeout=5)
        self._log.close()
        return code

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self.reports.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()


#: How long the pipeline may take to report its first batch; a cold machine compiles kernels and starts a JVM.
_FIRST_BATCH_S = 240.0
_ALL_BATCHES_S = 600.0
#: How many records must wait for a kill: four batches are committed until it comes, and one is left to be killed in.
_WAITING_MIN = 100_000
_STOP_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """What was counted at the end, by SQL and by the CSV, and how long it took.

    Attributes:
        records_per_second: of a pipeline that runs: the first batch of each start is left out, in which Spark and its
            workers warm up.
        seconds: from the first start to the last record, with all starts of Spark and all kills.
    """

    records_in: int
    rows_out: int
    lost: int
    doubled: int
    totals_equal: bool
    kills: int
    records_per_second: int
    seconds: int

    @property
    def is_right(self) -> bool:
        """Whether nothing is off."""
        return self.lost == 0 and self.doubled == 0 and self.rows_out == self.records_in and self.totals_equal

    def as_records(self) -> list[dict[str, Any]]:
        """For printing."""
        values = {
            "records in": self.records_in,
            "rows out": self.rows_out,
            "lost": self.lost,
            "doubled": self.doubled,
            "totals equal": "yes" if self.totals_equal else "NO",
            "kills survived": self.kills,
            "records per second, once it runs": self.records_per_second,
            "seconds at that rate": round(self.records_in / self.records_per_second),
            f"seconds with {self.kills} kills and {self.kills + 1} starts of Spark": self.seconds,
        }
        return [{"what": name, "value": value} for name, value in values.items()]


def run_demo(*, keep: bool, kills: int, seed: int | None) -> DemoResult:
    """Start a broker and a database, publish, run the pipeline while killing it, and count.

    Args:
        keep: leave both running and say how to look.
        kills: how often the pipeline is killed with SIGKILL while batches are in flight.
        seed: of the random moments.

    Raises:
        EnvironmentFaultError: something is not installed, or the pipeline does not run at all.
    """
    file = _pipeline_file()
    seed = random.randrange(10_000) if seed is None else seed
    folder = Path(tempfile.mkdtemp(prefix="directkafka-demo-"))
    with ExitStack() as cleaning:
        if not keep:
            cleaning.callback(shutil.rmtree, folder, ignore_errors=True)
        kafka, dsn, pids = _start_servers(cleaning, folder, keep=keep)
        if keep:
            # However it ends: somebody must end them.
            cleaning.callback(_say_how_to_end, folder, pids)
        with _progress() as bars:
            count, totals = _prepare(bars, kafka)
            environment = {"KAFKA": kafka, "DSN": dsn}
            course = _Course(file, folder, environment, count=count, bars=bars, chance=random.Random(seed))
            cleaning.callback(course.clean_up)
            pace = course.run(kills)
        say(f"counting the tables against the CSV (kills at random moments of seed {seed})")
        result = _count(dsn, totals, records_in=count, kills=course.kills, pace=pace)
        if keep:
            _say_how_to_look(kafka, dsn, folder)
        return result


def _start_servers(cleaning: ExitStack, folder: Path, *, keep: bool) -> tuple[str, str, list[int]]:
    """Broker address, connection string, and the process ids of both."""
    from directkafka.testing import EmbeddedPostgres, KafkaBroker
    from directkafka.testing.java import use_java

    use_java()
    with ExitStack() as started:
        with messages.status("starting a Kafka broker") as status:
            broker = KafkaBroker(folder=folder / "kafka", detached=keep, progress=status.update).start()
            started.callback(broker.stop)
        say(f"Kafka    {broker.bootstrap_servers}")
        with messages.status("starting Postgres"):
            postgres = EmbeddedPostgres(folder=folder / "postgres", detached=keep).start()
            started.callback(postgres.stop)
            dsn = postgres.create_database("air")
        say(f"Postgres {urlsplit(dsn).hostname}:{urlsplit(dsn).port}")
        # What is to be kept is told from here on; before, nobody would know of it.
        ending = started.pop_all()
    if not keep:
        cleaning.push(ending)
    return broker.bootstrap_servers, dsn, [*broker.pids.values(), postgres.pid]


@contextmanager
def _progress() -> Iterator[Progress]:
    columns = (SpinnerColumn(), TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=messages) as bars:
        yield bars


def _prepare(bars: Progress, kafka: str) -> tuple[int, list[CarrierTotal]]:
    count, totals = expected_totals()
    bar = bars.add_task("publishing flights as JSON", total=count)
    published = publish(kafka, lambda done: bars.update(bar, completed=done))
    assert published == count, f"{published} of {count} flights were published"
    return count, totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast a pipeline went.

    Attributes:
        records_per_second: without the first batch of each start.
        seconds: all of it.
    """

    records_per_second: int
    seconds: int

    @classmethod
    def of(cls, lives: Sequence[Sequence[Mapping[str, Any]]], *, seconds: float) -> Pace:
        """From the batches' reports, start by start; there must be one at least."""
        batches = [report for reports in lives for report in reports[1:]] or [
            report for reports in lives for report in reports
        ]
        busy_ms = sum(int(batch["plan_ms"] + batch["write_ms"] + batch["commit_ms"]) for batch in batches)
        records = sum(int(batch["records"]) for batch in batches)
        return cls(records_per_second=max(1, round(records * 1000 / max(1, busy_ms))), seconds=round(seconds))


class _Course:
    """The pipeline's lives: each ends by SIGKILL while a batch is in flight, the last one by SIGTERM."""

    def __init__(
        self,
        file: Path,
        folder: Path,
        environment: dict[str, str],
        *,
        count: int,
        bars: Progress,
        chance: random.Random,
    ) -> None:
        self._file = file
        self._environment = {**os.environ, **environment}
        self._log = folder / "pipeline.log"
        self._count = count
        self._bars = bars
        self._chance = chance
        self._victim: Victim | None = None
        self._bar = bars.add_task("running the pipeline", total=count)
        self.kills = 0

    def run(self, kills: int) -> Pace:
        """Run to the end, killed so often on the way."""
        begun = time.monotonic()
        reports: list[Sequence[Mapping[str, Any]]] = []
        while True:
            victim = self._victim = Victim(self._file, self._environment, self._log)
            self._wait_for(victim, 1, _FIRST_BATCH_S)
            if self.kills < kills and self._waiting(victim) >= _WAITING_MIN:
                self._kill_in_flight(victim)
                reports.append(victim.reports)
            else:
                if self.kills < kills:
                    say(f"killed {self.kills} times of {kills}: too few records are left for another one")
                self._wait_for_all(victim)
                reports.append(victim.reports)
                seconds = time.monotonic() - begun
                code = victim.stop(_STOP_S)
                if code != 0:
                    raise self._failure(f"the pipeline answered SIGTERM with exit code {code}")
                return Pace.of(reports, seconds=seconds)

    def clean_up(self) -> None:
        """End the last process, whatever happened."""
        if self._victim is not None:
            self._victim.clean_up()

    def _kill_in_flight(self, victim: Victim) -> None:
        """After a batch or two the next one is under way, since most records still wait; kill at any moment of it."""
        self._wait_for(victim, self._chance.randint(1, 2), _FIRST_BATCH_S)
        time.sleep(self._chance.uniform(0.0, 0.6))
        victim.kill()
        self.kills += 1
        self._show(f"killed {self.kills}, restarting")

    def _wait_for_all(self, victim: Victim) -> None:
        deadline = time.monotonic() + _ALL_BATCHES_S
        while self._waiting(victim) > 0 and time.monotonic() < deadline:
            self._wait_for(victim, len(victim.reports) + 1, deadline - time.monotonic())

    def _waiting(self, victim: Victim) -> int:
        return int(victim.reports[-1]["backlog"]) if victim.reports else self._count

    def _wait_for(self, victim: Victim, batches: int, timeout_s: float) -> None:
        while len(victim.reports) < batches:
            if not victim.wait_for_batches(len(victim.reports) + 1, timeout_s):
                raise self._failure("the pipeline stopped, or reported no batch in time")
            self._show(f"running the pipeline, kills {self.kills}")

    def _show(self, text: str) -> None:
        done = self._count
        if self._victim is not None and self._victim.reports:
            done = self._count - self._waiting(self._victim)
            self._bars.update(self._bar, completed=done)
        self._bars.update(self._bar, description=text)

    def _failure(self, what: str) -> EnvironmentFaultError:
        lines = self._log.read_text(errors="replace").strip().splitlines()[-15:]
        return EnvironmentFaultError(what=what, remedy="Its last messages:\n" + "\n".join(lines))


def _pipeline_file() -> Path:
    """The example in the checkout; its Python module lies beside it."""
    file = Path(__file__).parents[4] / "examples" / "flights.toml"
    if not file.exists():
        raise EnvironmentFaultError(
            what="the demo's pipeline, examples/flights.toml, is not part of an installed package",
            remedy="Run `make demo` in a checkout of directkafka.",
        )
    return file


def _count(dsn: str, totals: list[CarrierTotal], *, records_in: int, kills: int, pace: Pace) -> DemoResult:
    with psycopg.connect(dsn) as connection:
        counted = connection.execute("SELECT count(*), count(DISTINCT id) FROM flights").fetchone()
        carrier_rows = connection.execute(
            "SELECT carrier, flights, distance, delay_minutes FROM carrier_totals ORDER BY carrier"
        ).fetchall()
    assert counted is not None, "an aggregate without GROUP BY has one row"
    rows, distinct = counted
    return DemoResult(
        records_in=records_in,
        rows_out=rows,
        lost=records_in - distinct,
        doubled=rows - distinct,
        totals_equal=[CarrierTotal(str(name), *map(int, sums)) for name, *sums in carrier_rows] == totals,
        kills=kills,
        records_per_second=pace.records_per_second,
        seconds=pace.seconds,
    )


def _say_how_to_look(kafka: str, dsn: str, folder: Path) -> None:
    say("Kept running, have a look:", style="bold")
    say(f"  psql '{dsn}' -c 'SELECT * FROM carrier_totals ORDER BY flights DESC'")
    say(f"  psql '{dsn}' -c 'SELECT * FROM directkafka_ledger'")
    say(f"  KAFKA={kafka} DSN='{dsn}' directkafka verify examples/flights.toml")
    say(f"  files and logs: {folder}")


def _say_how_to_end(folder: Path, pids: list[int]) -> None:
    say("To end both, and then remove their files:", style="bold")
    say(f"  kill {' '.join(map(str, pids))}")
    say(f"  rm -r {folder}")
