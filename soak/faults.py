"""What is done to drivers, executors, workers, brokers and the database, at random and from a seed."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import psutil
import psycopg

from directkafka.fault_points import FAULT_POINTS
from soak.driver import Driver, write_pipeline
from soak.history import History
from soak.world import BROKERS, World

__all__ = ["FENCED_EXIT_CODE", "Storm"]

#: What a driver ends with when a newer one owns its pipeline.
FENCED_EXIT_CODE = 3

#: How long a driver may take to its first batch, and an older one to see that it is fenced, in seconds.
_PATIENCE_S = 90.0

#: The share of chances that is taken before a life's first batch.
_EARLY = 0.1

#: Points that a driver passes; those of tasks are passed by workers.
_DRIVER_POINTS = [point for point in FAULT_POINTS if not point.startswith(("task.", "log.", "replay."))]

#: Points that are passed once in a life.
_ONCE = {"fence.before", "fence.taken", "fence.done", "ledger.read", "origin.planned", "origin.committed"}


@dataclass
class Storm:
    """Lives of a driver, one after the other, with faults in each.

    Attributes:
        world: whose servers are killed.
        history: told of everything.
        chance: decides; made from the seed.
        problems: what must not happen, and did.
    """

    world: World
    history: History
    chance: random.Random
    problems: list[str] = field(default_factory=list)
    _lives: int = 0
    _servers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2))
    _broker: Future[None] | None = None
    _database: Future[None] | None = None

    def rage(self, seconds: float) -> None:
        """Live after life until the time is over; servers that are down are started again at the end."""
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                self._life(until)
        finally:
            for waiting in (self._broker, self._database):
                if waiting is not None:
                    waiting.result()
            self._servers.shutdown()

    def run_to_the_end(self) -> None:
        """A driver that is left alone, until it has read all there is."""
        for _ in range(5):
            driver = self._start("calm", trigger="available-now", batch=20_000)
            code = driver.wait(10 * _PATIENCE_S)
            messages = driver.messages()
            driver.close()
            self.history.note("calm", exit_code=code)
            if code == 0:
                return
        raise RuntimeError(f"a driver that was left alone does not reach the end:\n{messages}")

    def _life(self, until: float) -> None:
        is_cluster = self.chance.random() < 0.15
        driver = self._start(
            "storm",
            faults=self._armed(),
            master="local-cluster[2,1,1024]" if is_cluster else "local[2]",
            inline_bytes_max=self.chance.choice((0, 64 * 1024 * 1024)),
        )
        try:
            self._harass(driver, until)
            if driver.is_running and self.chance.random() < 0.15 and driver.batches:
                self._take_over(driver)
            elif driver.is_running:
                driver.kill()
                self.history.killed("driver", life=driver.number, batches=driver.batches, at="some moment")
        finally:
            driver.close()

    def _start(self, name: str, *, faults: str = "", **values: object) -> Driver:
        self._lives += 1
        file = write_pipeline(self.world, name=name, **values)
        self.history.note("driver", life=self._lives, faults=faults, **values)
        return Driver(file, self.world.folder, number=self._lives, faults=faults)

    def _armed(self) -> str:
        """A point at which this life ends, in half of the lives."""
        if self.chance.random() < 0.5:
            return ""
        point = self.chance.choice(_DRIVER_POINTS)
        return f"{point}@{1 if point in _ONCE else self.chance.randint(1, 4)}=kill"

    def _harass(self, driver: Driver, until: float) -> None:
        """Faults from the start on; the life ends a few seconds after its first batch."""
        latest = time.monotonic() + _PATIENCE_S
        ends = None
        while driver.is_running and time.monotonic() < min(latest, ends or latest, until):
            time.sleep(self.chance.uniform(0.1, 0.8))
            if ends is None and driver.batches:
                ends = time.monotonic() + self.chance.uniform(0.3, 5.0)
            # A driver that starts is met now and then; met all the time it would never read anything.
            if driver.is_running and (driver.batches or self.chance.random() < _EARLY):
                self._some_fault(driver)
        if not driver.is_running:
            self._note_end(driver)

    def _note_end(self, driver: Driver) -> None:
        code = driver.exit_code
        if code == -signal.SIGKILL:
            self.history.killed("driver", life=driver.number, batches=driver.batches, at="its fault point")
            return
        # A server that stays away for longer than the driver waits ends it with 1; nothing else may.
        self.history.note("exit", life=driver.number, exit_code=code, said=driver.messages()[-1500:])
        if code != 1:
            self.problems.append(f"life {driver.number} ended with {code}")

    def _some_fault(self, driver: Driver) -> None:
        faults: list[tuple[Callable[[Driver], None], int]] = [
            (self._kill_worker, 8),
            (self._kill_executor, 6),
            (self._kill_session, 2),
            (self._kill_broker, 1),
            (self._kill_database, 1),
        ]
        kinds, weights = zip(*faults, strict=True)
        self.chance.choices(kinds, weights)[0](driver)

    def _kill_worker(self, driver: Driver) -> None:
        self._kill_one("worker", driver.workers())

    def _kill_executor(self, driver: Driver) -> None:
        self._kill_one("executor", driver.executors())

    def _kill_one(self, kind: str, processes: list[psutil.Process]) -> None:
        if not processes:
            return
        chosen = self.chance.choice(processes)
        with contextlib.suppress(psutil.Error):
            chosen.kill()
            self.history.killed(kind, pid=chosen.pid)

    def _kill_session(self, driver: Driver) -> None:
        """End a connection of the pipeline's at the server, whatever it is doing."""
        query = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'directkafka%'"
        with contextlib.suppress(psycopg.Error), psycopg.connect(self.world.dsn, connect_timeout=2) as connection:
            sessions = [pid for (pid,) in connection.execute(query).fetchall()]
            if sessions:
                connection.execute("SELECT pg_terminate_backend(%s)", (self.chance.choice(sessions),))
                self.history.killed("session")

    def _kill_broker(self, driver: Driver) -> None:
        if self._broker is not None and not self._broker.done():
            return
        node, away_s = self.chance.randint(1, BROKERS), self.chance.uniform(0.2, 3.0)
        self.world.kafka.kill(node)
        self.history.killed("broker", node=node, away_s=round(away_s, 2))
        self._broker = self._servers.submit(self._later, away_s, lambda: self.world.kafka.restart(node))

    def _kill_database(self, driver: Driver) -> None:
        if self._database is not None and not self._database.done():
            return
        away_s = self.chance.uniform(0.0, 2.0)
        self.world.postgres.kill()
        self.history.killed("database", away_s=round(away_s, 2))
        self._database = self._servers.submit(self._later, away_s, self.world.postgres.restart)

    def _later(self, away_s: float, start: Callable[[], None]) -> None:
        time.sleep(away_s)
        start()
        self.history.note("server is back")

    def _take_over(self, older: Driver) -> None:
        """The driver stands still, a newer one takes its pipeline and commits; then the older one goes on."""
        older.send(signal.SIGSTOP)
        newer = self._start("newer")
        try:
            if not newer.wait_for_batches(2, _PATIENCE_S):
                # A file of an embedded database stays locked while the older one stands in the middle of its commit.
                self.history.note("locked out", life=newer.number, said=newer.messages()[-500:])
                return
            older.send(signal.SIGCONT)
            code = older.wait(_PATIENCE_S)
            self.history.killed("driver, taken over", life=older.number, exit_code=code)
            if code != FENCED_EXIT_CODE:
                self.problems.append(f"life {older.number} was taken over and ended with {code}")
        finally:
            newer.close()
            self.history.killed("driver", life=newer.number, batches=newer.batches, at="some moment")
