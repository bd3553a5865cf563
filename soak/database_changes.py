"""``python -m soak.database_changes``: tables under random changes are copied by Debezium and pipelines, all killed.

A Postgres is changed for some minutes: rows are inserted, updated and deleted, keys change, tables are truncated,
transactions roll back. Kafka Connect with Debezium's connector writes the changes to a broker, and two pipelines copy
the tables into Postgres, DuckDB, SQLite and Delta tables. Meanwhile one of the four is killed, again and again. At the
end source and copies must be equal, row by row. A third table has no key, and a copy of it is refused.
"""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import duckdb
import psycopg
import typer
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from tests.debezium_worker import DebeziumWorker

from directkafka.testing import EmbeddedPostgres, KafkaBroker
from soak.driver import Driver

Rows = list[tuple[Any, ...]]

_TABLES: Final = """
CREATE TABLE orders (
    id int PRIMARY KEY, price numeric(12,3), weight numeric, note text, doc jsonb, tags text[], parts numeric(8,2)[],
    at timestamptz, made timestamp, day date, paid boolean
);
CREATE TABLE lines (order_id int, line smallint, quantity bigint, amount numeric(10,2), PRIMARY KEY (order_id, line));
CREATE TABLE notes (note text);
"""
#: What is done to the tables, and how often beside the others. ``%(a)s`` and ``%(b)s`` are random keys.
_CHANGES: Final = (
    (40, "INSERT INTO orders VALUES (%(a)s, %(n)s / 7.0, %(n)s / 3.0, md5(%(n)s::text), jsonb_build_object('n', %(n)s),"
         " ARRAY[md5(%(a)s::text), NULL], ARRAY[%(n)s / 9.0], clock_timestamp(), clock_timestamp(), current_date, true)"
         " ON CONFLICT DO NOTHING"),
    (25, "UPDATE orders SET price = %(n)s / 11.0, note = note || '!', paid = NOT paid WHERE id = %(a)s"),
    (5, "UPDATE orders SET weight = NULL, doc = NULL, tags = NULL, at = NULL, made = NULL, day = NULL"
        " WHERE id = %(a)s"),
    (15, "DELETE FROM orders WHERE id = %(a)s"),
    (10, "UPDATE orders SET id = %(b)s WHERE id = %(a)s AND NOT EXISTS (SELECT FROM orders WHERE id = %(b)s)"),
    (30, "INSERT INTO lines VALUES (%(a)s, %(b)s %% 5, %(n)s, %(n)s / 13.0)"
         " ON CONFLICT (order_id, line) DO UPDATE SET quantity = excluded.quantity"),
    (10, "DELETE FROM lines WHERE order_id = %(a)s"),
    (3, "UPDATE lines SET line = line + 10 WHERE order_id = %(a)s AND line < 5 AND NOT EXISTS"
        " (SELECT FROM lines l WHERE l.order_id = %(a)s AND l.line >= 10)"),
    (5, "INSERT INTO notes VALUES (md5(%(n)s::text))"),
    (0.2, "TRUNCATE orders"),
    (0.2, "TRUNCATE lines"),
)  # fmt: skip
_KEYS: Final = 400
_PATIENCE_S: Final = 300.0
_PREFIX: Final = "shop"

_FILE: Final = """
[pipeline]
name = "{table}"
trigger = "200ms"

[spark]
master = "local[1]"
conf."spark.ui.enabled" = "false"
conf."spark.driver.memory" = "512m"

[source]
"kafka.bootstrap.servers" = "{kafka}"
subscribe = "{topic}"
startingOffsets = "earliest"
"kafka.default.api.timeout.ms" = "60000"

[source.value]
format = "debezium-json"
schema = "{schema}"

[transform]
sql = "SELECT value.*, CAST(position AS BIGINT) AS position, offset, deleted, op FROM source WHERE op IS NOT NULL"
"""
_SINK: Final = """
[[sink]]
{place}
mode = "upsert"
key = [{key}]
order = ["offset"]
delete = "deleted"
truncate = true
"""


@dataclass(frozen=True, slots=True)
class Copied:
    """A table that is copied.

    Attributes:
        name: of it.
        schema: the columns of its rows, as Spark's DDL.
        key: of the copy.
        compared: what is read of the source, and of the copies in Postgres, in a file and in a Delta table.
    """

    name: str
    schema: str
    key: tuple[str, ...]
    compared: tuple[str, str, str, str]


_MOMENTS: Final = "(extract(epoch FROM at) * 1000000)::bigint, (extract(epoch FROM made) * 1000000)::bigint"
#: Nothing says which of its rows a change is about.
WITHOUT_KEY: Final = Copied("notes", "note STRING", (), ("note",) * 4)
COPIED: Final = (
    Copied(
        "orders",
        "id INT, price DECIMAL(12,3), weight DOUBLE, note STRING, doc STRING, tags ARRAY<STRING>, "
        "parts ARRAY<DECIMAL(8,2)>, at TIMESTAMP, made TIMESTAMP_NTZ, day DATE, paid BOOLEAN",
        ("id",),
        (
            f"id, price, weight::double precision, note, doc::text, tags, parts, {_MOMENTS}, day, paid",
            f"id, price, weight, note, doc, tags, parts, {_MOMENTS}, day, paid",
            'id, price, weight, note, doc, tags, parts, epoch_us("at"), epoch_us(made), day, paid',
            'id, price, weight, note, doc, tags, parts, epoch_us("at"), epoch_us(made), day, paid',
        ),
    ),
    Copied(
        "lines",
        "order_id INT, line SMALLINT, quantity BIGINT, amount DECIMAL(10,2)",
        ("order_id", "line"),
        (
            "order_id, line, quantity, amount::text",
            "order_id, line, quantity, amount::text",
            "order_id, line, quantity, amount",
            "order_id, line, quantity, amount::text",
        ),
    ),
)


def main(
    minutes: Annotated[float, typer.Option(help="How long the tables are changed.")] = 10.0,
    kills: Annotated[int, typer.Option(help="How many processes are killed meanwhile.")] = 30,
    seed: Annotated[int, typer.Option(help="The same makes the same changes and the same kills.")] = 1,
) -> None:
    """Copy tables under load and kills; a difference ends it with 1."""
    with tempfile.TemporaryDirectory(prefix="directkafka-soak-") as folder, running(Path(folder)) as world:
        told = world.run(minutes * 60, kills, random.Random(seed))
    print(told)
    sys.exit(0 if told.endswith("equal") else 1)


@dataclass
class World:
    """Source, Debezium, broker, pipelines and copies.

    Attributes:
        source, copy: connection strings.
        folder: for files.
        kills: how many processes of each kind were killed.
    """

    source: str
    copy: str
    kafka: KafkaBroker
    debezium: DebeziumWorker
    folder: Path
    kills: Counter[str] = field(default_factory=Counter)
    drivers: dict[str, Driver] = field(default_factory=dict)
    _lives: int = 0

    def run(self, duration_s: float, kills: int, chance: random.Random) -> str:
        """Change, kill, and compare; what was found, in one sentence."""
        stop = threading.Event()
        load = threading.Thread(target=self._change, args=(stop, random.Random(chance.random())), daemon=True)
        load.start()
        end = time.monotonic() + duration_s
        for number in range(kills):
            pause_s = (end - time.monotonic()) / (kills - number)
            self._go_on_until(time.monotonic() + pause_s * chance.uniform(0.8, 1.0))
            self._kill(chance)
        self._go_on_until(end)
        stop.set()
        load.join()
        differences = self._wait_until_equal()
        differences += self._copy_without_key()
        rows = {table.name: len(self.rows_of_source(table)) for table in COPIED}
        told = f"{sum(self.kills.values())} kills ({dict(self.kills)}), rows {rows}: "
        return told + ("; ".join(differences) or "source and copies are equal")

    def _go_on_until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0:
            self._start_what_ended()
            time.sleep(min(0.2, left))

    def _start_what_ended(self) -> None:
        if not self.debezium.is_running:
            self.debezium.start()
        for table in COPIED:
            driver = self.drivers.get(table.name)
            if driver is None or not driver.is_running:
                if driver is not None:
                    driver.close()
                self._lives += 1
                self.drivers[table.name] = Driver(self.folder / f"{table.name}.toml", self.folder, number=self._lives)

    def _kill(self, chance: random.Random) -> None:
        self._start_what_ended()
        victim = chance.choice(["connect", "broker", *self.drivers])
        self.kills[victim] += 1
        match victim:
            case "connect":
                self.debezium.kill()
            case "broker":
                self.kafka.kill()
                time.sleep(chance.uniform(0, 3))
                self.kafka.restart()
            case _:
                self.drivers[victim].kill()

    def _change(self, stop: threading.Event, chance: random.Random) -> None:
        weights, statements = zip(*_CHANGES, strict=True)
        with psycopg.connect(self.source) as connection:
            while not stop.is_set():
                for statement in chance.choices(statements, weights, k=chance.randint(1, 6)):
                    keys = {"a": chance.randrange(_KEYS), "b": chance.randrange(_KEYS), "n": chance.randrange(10**6)}
                    connection.execute(statement, keys)
                (connection.rollback if chance.random() < 0.05 else connection.commit)()
                stop.wait(0.01)

    def _wait_until_equal(self) -> list[str]:
        deadline = time.monotonic() + _PATIENCE_S
        while differences := [text for table in COPIED for text in self._differences(table)]:
            if time.monotonic() > deadline:
                return differences
            self._go_on_until(time.monotonic() + 2)
        return []

    def _copy_without_key(self) -> list[str]:
        """What is wrong with the answer to somebody who wants a copy of a table that has no key."""
        file = self.folder / f"{WITHOUT_KEY.name}.toml"
        file.write_text(_file(self, WITHOUT_KEY))
        completed = subprocess.run(
            [sys.executable, "-m", "directkafka", "check", str(file)], capture_output=True, text=True, check=False
        )
        is_refused = completed.returncode == 2 and "upsert needs key" in completed.stderr
        return [] if is_refused else [f"a copy without a key ended with {completed.returncode}: {completed.stderr}"]

    def _differences(self, table: Copied) -> Iterator[str]:
        source = self.rows_of_source(table)
        for store, read in self._copies(table).items():
            try:
                copy = read()
            except (psycopg.Error, duckdb.Error, sqlite3.Error, DeltaError) as error:
                yield f"{table.name} in {store} cannot be read: {str(error).strip()}"
                continue
            if copy != source:
                missing = [row for row in source if row not in copy]
                more = [row for row in copy if row not in source]
                yield f"{table.name} in {store}: {len(missing)} rows are missing, {len(more)} are too many: " + str(
                    [*missing[:2], *more[:2]]
                )

    def rows_of_source(self, table: Copied) -> Rows:
        """The rows as they are."""
        return _of_postgres(self.source, f"SELECT {table.compared[0]} FROM {table.name}")

    def _copies(self, table: Copied) -> dict[str, Callable[[], Rows]]:
        path, delta = self.folder / f"{table.name}.db", self.folder / f"{table.name}.delta"
        connect: Any = duckdb.connect if table.name == "orders" else sqlite3.connect
        return {
            "Delta": lambda: _of_delta(delta, f"SELECT {table.compared[3]} FROM held"),
            "Postgres": lambda: _of_postgres(self.copy, f"SELECT {table.compared[1]} FROM {table.name}"),
            "a file": lambda: _of_file(connect, path, f"SELECT {table.compared[2]} FROM {table.name}"),
        }


@contextmanager
def running(folder: Path) -> Iterator[World]:
    """All of it at work, before anything is changed or killed."""
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedPostgres(settings={"wal_level": "logical"}))
        kafka = stack.enter_context(KafkaBroker())
        source, copy = server.create_database("source"), server.create_database("copy")
        with psycopg.connect(source, autocommit=True) as connection:
            connection.execute(_TABLES)
        debezium = stack.enter_context(DebeziumWorker(kafka.bootstrap_servers, source, prefix=_PREFIX, schemas=True))
        world = World(source, copy, kafka, debezium, folder)
        for table in COPIED:
            world.folder.joinpath(f"{table.name}.toml").write_text(_file(world, table))
        try:
            yield world
        finally:
            for driver in world.drivers.values():
                driver.close()


def _file(world: World, table: Copied) -> str:
    kind, path = ("duckdb" if table.name == "orders" else "sqlite"), world.folder / f"{table.name}.db"
    places = (
        f'type = "postgres"\ndsn = "{world.copy}"\ntable = "{table.name}"',
        f'type = "{kind}"\npath = "{path}"\ntable = "{table.name}"',
        f'type = "delta"\npath = "{path.with_suffix(".delta")}"',
    )
    head = _FILE.format(
        table=table.name,
        kafka=world.kafka.bootstrap_servers,
        topic=f"{_PREFIX}.public.{table.name}",
        schema=table.schema,
    )
    key = ", ".join(f'"{name}"' for name in table.key)
    return head + "".join(_SINK.format(place=settings, key=key) for settings in places)


def _of_postgres(dsn: str, query: str) -> Rows:
    with psycopg.connect(dsn) as connection:
        return sorted(connection.execute(query).fetchall(), key=repr)


def _of_delta(folder: Path, query: str) -> Rows:
    with duckdb.connect() as connection:
        connection.register("held", DeltaTable(folder).to_pyarrow_table())
        return sorted(connection.execute(query).fetchall(), key=repr)


def _of_file(connect: Any, path: Path, query: str) -> Rows:
    with closing(connect(str(path))) as connection:
        return sorted((tuple(row) for row in connection.execute(query).fetchall()), key=repr)


if __name__ == "__main__":
    typer.run(main)
