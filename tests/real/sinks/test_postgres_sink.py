"""The Postgres sink against a real server: tables, types, rights, names, staging."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import conninfo, sql
from tests.real.sinks.batches import problems_of, run

from directkafka.errors import (
    OptionError,
    RowRejectedError,
    SchemaMismatchError,
    StoreAccessError,
    StoreUnavailableError,
)
from directkafka.sinks.api import BatchAttempt
from directkafka.sinks.postgres.sink import PostgresSink
from directkafka.sinks.postgres.store import PostgresStore
from directkafka.sinks.staging import stale_staging_pattern
from directkafka.sinks.write_modes import Mode
from directkafka.testing.store_driver import Job, run_together

pytestmark = pytest.mark.real

SECRET = "ge'heim-1234"


ALL_TYPES = {
    "i8": (pa.array([-128, None], pa.int8()), "smallint"),
    "i16": (pa.array([1, None], pa.int16()), "smallint"),
    "i32": (pa.array([2, None], pa.int32()), "integer"),
    "i64": (pa.array([2**40, None]), "bigint"),
    "f32": (pa.array([0.5, None], pa.float32()), "real"),
    "f64": (pa.array([0.1, None]), "double precision"),
    "flag": (pa.array([True, None]), "boolean"),
    "word": (pa.array(["Zürich \U0001f6eb", None]), "text"),
    "raw": (pa.array([b"\x00\xff", None]), "bytea"),
    "fare": (pa.array([Decimal("-1234567.89"), None], pa.decimal128(20, 2)), "numeric(20,2)"),
    "day": (pa.array([date(1969, 12, 31), None]), "date"),
    "instant": (pa.array([datetime(2013, 1, 1, 5, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
                "timestamp with time zone"),
    "local": (pa.array([datetime(1999, 12, 31, 23), None], pa.timestamp("us")), "timestamp without time zone"),
    "at": (pa.array([time(23, 59, 59, 5), None], pa.time64("us")), "time without time zone"),
    "took": (pa.array([timedelta(hours=30, microseconds=7), None], pa.duration("us")), "interval"),
    "codes": (pa.array([["AA", None], []]), "text[]"),
    "fares": (pa.array([[Decimal("1.50")], None], pa.list_(pa.decimal128(9, 2))), "numeric(9,2)[]"),
}  # fmt: skip


@pytest.mark.parametrize("inline_bytes_max", [1 << 20, 0], ids=["inline", "staged"])
def test_a_table_is_made_from_the_schema_and_every_type_comes_back(
    database: str, connection: psycopg.Connection[Any], job: Job, inline_bytes_max: int
) -> None:
    table = pa.table({name: array for name, (array, _) in ALL_TYPES.items()})
    run(job, PostgresSink(database, "flights", inline_bytes_max=inline_bytes_max), table)
    types = connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = 'flights'::regclass AND attnum > 0"
    ).fetchall()
    assert dict(types) == {name: kind for name, (_, kind) in ALL_TYPES.items()}
    connection.execute("SET timezone TO 'UTC'")
    rows = connection.execute("SELECT * FROM flights").fetchall()
    assert rows == [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("inline_bytes_max", [1 << 20, 0], ids=["inline", "staged"])
def test_what_is_no_finite_number_comes_back(
    database: str, connection: psycopg.Connection[Any], job: Job, inline_bytes_max: int
) -> None:
    odd = [math.nan, math.inf, -math.inf, -0.0, None]
    table = pa.table({"f32": pa.array(odd, pa.float32()), "f64": pa.array(odd), "many": [[number] for number in odd]})
    run(job, PostgresSink(database, "flights", inline_bytes_max=inline_bytes_max), table)
    rows = connection.execute("SELECT f32, f64, many[1] FROM flights").fetchall()
    assert repr(rows) == repr([(number, number, number) for number in odd])


@pytest.mark.parametrize("inline_bytes_max", [1 << 20, 0], ids=["inline", "staged"])
@pytest.mark.parametrize(
    ("kind", "values"), [("text", ["a", "b\0"]), ("text[]", [["a"], ["b", "\0"]]), ("jsonb", ["{}", '["\\u0000"]'])]
)
def test_a_nul_is_refused_with_the_record_it_came_in(
    database: str, connection: psycopg.Connection[Any], job: Job, kind: str, values: list[Any], inline_bytes_max: int
) -> None:
    connection.execute(
        sql.SQL("CREATE TABLE flights (topic text, partition int, {} bigint, carrier {})").format(
            sql.Identifier("offset"), sql.SQL(kind)
        )
    )
    table = pa.table(
        {"topic": ["t"] * 2, "partition": pa.array([3, 3], pa.int32()), "offset": [8, 9], "carrier": values}
    )
    with pytest.raises(RowRejectedError, match=r"column 'carrier'.* NUL .*topic t, partition 3, offset 9"):
        run(job, PostgresSink(database, "flights", inline_bytes_max=inline_bytes_max), table)
    assert connection.execute("SELECT count(*) FROM flights").fetchone() == (0,)


def test_values_are_widened_into_an_existing_table(
    database: str, connection: psycopg.Connection[Any], job: Job
) -> None:
    connection.execute("CREATE DOMAIN code AS varchar(3); CREATE TYPE kind AS ENUM ('jet', 'prop')")
    connection.execute(
        "CREATE TABLE flights (a bigint, b numeric, c double precision, d code, e kind, f uuid, g json, h jsonb, "
        "i bigint[], j kind[])"
    )
    identifier = uuid.uuid4()
    table = pa.table(
        {
            "a": pa.array([1], pa.int16()), "b": pa.array([2], pa.int64()), "c": pa.array([3], pa.int32()),
            "d": ["EWR"], "e": ["jet"], "f": [str(identifier)], "g": ['{"x": 1}'],
            "h": ['{"x": [1.5]}'], "i": pa.array([[7, None]], pa.list_(pa.int16())), "j": [["jet", "prop"]],
        }
    )  # fmt: skip
    run(job, PostgresSink(database, "flights"), table)
    assert connection.execute("SELECT * FROM flights").fetchall() == [
        (1, Decimal(2), 3.0, "EWR", "jet", identifier, {"x": 1}, {"x": [1.5]}, [7, None], "{jet,prop}")
    ]


@pytest.mark.parametrize("inline_bytes_max", [0, 1 << 20], ids=["staged", "through the driver"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        # Of the same width: COPY's bytes would be another number.
        ("ALTER n TYPE double precision", "'n' was changed while the pipeline ran, and is double precision now"),
        ("ALTER fare TYPE numeric(10,1)", "'fare' was changed while the pipeline ran, and is numeric"),
    ],
)
def test_a_column_that_is_changed_while_the_pipeline_runs_stops_it(
    change: str, words: str, inline_bytes_max: int, database: str, connection: psycopg.Connection[Any], job: Job
) -> None:
    connection.execute("CREATE TABLE flights (n bigint, fare numeric(12,4))")
    sink = PostgresSink(database, "flights", inline_bytes_max=inline_bytes_max)
    rows = pa.table({"n": [5], "fare": pa.array([Decimal("1.2345")], pa.decimal128(12, 4))})
    run(job, sink, rows)
    connection.execute(f"ALTER TABLE flights {change}")
    entry = job.next_entry()
    batch = job.batch(entry)
    reports = [sink.task_writer(batch, rows.schema)(iter(rows.to_batches()))]
    with pytest.raises(SchemaMismatchError, match=words):
        job.store.commit(entry, previous=job.last, writes=[(sink, batch, reports)])
    assert connection.execute("SELECT count(*) FROM flights").fetchone() == (1,)


def test_all_that_does_not_fit_is_told_at_once(database: str, connection: psycopg.Connection[Any]) -> None:
    connection.execute(
        "CREATE TABLE flights (small smallint, fare numeric(6,2), at timestamptz, tags text[], body xml, "
        "must integer NOT NULL, twice integer GENERATED ALWAYS AS (small * 2) STORED, carrier text)"
    )
    told = problems_of(
        PostgresSink(database, "flights"),
        small=pa.int32(), fare=pa.decimal128(8, 2), at=pa.timestamp("us"), tags=pa.list_(pa.int32()),
        body=pa.string(), twice=pa.int32(), Carrier=pa.string(), extra=pa.int8(),
    )  # fmt: skip
    for name in ("small", "fare", "at", "tags", "body"):
        assert f"column '{name}' of type" in told
    assert "column 'twice' is generated" in told
    assert "'must' is NOT NULL without a default" in told
    assert "no column 'Carrier' of type string (it has 'carrier': rename the DataFrame's)" in told
    assert "no column 'extra'" in told


def test_generated_columns_and_defaults_are_the_databases(
    database: str, connection: psycopg.Connection[Any], job: Job
) -> None:
    connection.execute(
        "CREATE TABLE flights (id bigint GENERATED ALWAYS AS IDENTITY, n integer, "
        "twice integer GENERATED ALWAYS AS (n * 2) STORED, source text NOT NULL DEFAULT 'kafka')"
    )
    for staged in (False, True):
        run(job, PostgresSink(database, "flights", inline_bytes_max=0 if staged else 1 << 20),
            pa.table({"n": pa.array([7], pa.int32())}))  # fmt: skip
    assert connection.execute("SELECT * FROM flights ORDER BY id").fetchall() == [
        (1, 7, 14, "kafka"), (2, 7, 14, "kafka"),
    ]  # fmt: skip


def test_a_type_without_a_column_type_is_refused_when_the_table_is_made(
    database: str, connection: psycopg.Connection[Any]
) -> None:
    told = problems_of(PostgresSink(database, "flights"), tags=pa.struct({"x": pa.string()}))
    assert "'tags'" in told
    assert "to_json" in told
    assert connection.execute("SELECT to_regclass('flights')").fetchone() == (None,)


@pytest.mark.parametrize("inline_bytes_max", [1 << 20, 0], ids=["inline", "staged"])
def test_names_are_quoted_wherever_they_stand(
    database: str, connection: psycopg.Connection[Any], job: Job, inline_bytes_max: int
) -> None:
    connection.execute('CREATE SCHEMA "My ""S"".x"')
    sink = PostgresSink(
        database, '"My ""S"".x"."Sel{}ect %s"', "merge", ['k"ey'], ["a{0}%d"], inline_bytes_max=inline_bytes_max
    )
    run(job, sink, pa.table({'k"ey': [1, 1], "a{0}%d": [2, 3]}))
    run(job, sink, pa.table({'k"ey': [1], "a{0}%d": [4]}))
    target = sql.Identifier('My "S".x', "Sel{}ect %s")
    assert connection.execute(sql.SQL("SELECT * FROM {}").format(target)).fetchall() == [(1, 9)]


def test_add_columns_gives_the_table_what_it_lacks(
    database: str, connection: psycopg.Connection[Any], job: Job
) -> None:
    run(job, PostgresSink(database, "flights"), pa.table({"id": [1]}))
    wider = pa.table({"id": [2], "carrier": ["AA"]})
    assert "carrier" in problems_of(PostgresSink(database, "flights"), id=pa.int64(), carrier=pa.string())
    run(job, PostgresSink(database, "flights", schema_policy="add-columns"), wider)
    assert connection.execute("SELECT * FROM flights ORDER BY id").fetchall() == [(1, None), (2, "AA")]


def test_two_drivers_may_make_table_and_ledger_at_once(database: str) -> None:
    schema = pa.schema({"id": pa.int64()})
    for attempt in range(5):
        sinks = [PostgresSink(database, f"flights_{attempt}") for _ in range(4)]
        results = run_together(*(lambda sink=sink: sink.prepare(schema) for sink in sinks))
        assert results == [None] * 4


# Keys.


def test_a_key_needs_a_unique_index_that_on_conflict_can_use(
    database: str, connection: psycopg.Connection[Any]
) -> None:
    connection.execute(
        "CREATE TABLE flights (id bigint, flights bigint); "
        "CREATE UNIQUE INDEX ON flights (id) WHERE id > 0; CREATE UNIQUE INDEX ON flights (id, flights)"
    )
    for mode, add in (("ignore", None), ("merge", ["flights"])):
        told = problems_of(PostgresSink(database, "flights", mode, ["id"], add), id=pa.int64(), flights=pa.int64())
        assert "CREATE UNIQUE INDEX ON flights (id)" in told
    connection.execute("CREATE UNIQUE INDEX ON flights (id) INCLUDE (flights)")
    PostgresSink(database, "flights", "merge", ["id"], ["flights"]).prepare(
        pa.schema({"id": pa.int64(), "flights": pa.int64()})
    )


def test_merge_refuses_what_it_cannot_add(database: str, connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE TABLE flights (id bigint UNIQUE, name text, other bigint)")
    told = problems_of(
        PostgresSink(database, "flights", "merge", ["id"], ["name"]),
        id=pa.int64(), name=pa.string(), other=pa.int64(),
    )  # fmt: skip
    assert "'name' of type text is to be added to, and is no number" in told
    assert "'other' is neither key nor add" in told


@pytest.mark.parametrize("inline_bytes_max", [1 << 20, 0], ids=["inline", "staged"])
@pytest.mark.parametrize("mode", ["ignore", "merge"])
def test_null_keys_are_refused_unless_the_index_sees_them_as_equal(
    database: str, connection: psycopg.Connection[Any], job: Job, mode: Any, inline_bytes_max: int
) -> None:
    connection.execute("CREATE TABLE flights (id bigint UNIQUE, flights bigint)")
    rows = pa.table({"id": pa.array([1, None, None], pa.int64()), "flights": [1, 2, 3]})
    add = ["flights"] if mode == "merge" else None
    with pytest.raises(RowRejectedError, match="null in the key id"):
        run(job, PostgresSink(database, "flights", mode, ["id"], add, inline_bytes_max=inline_bytes_max), rows)
    connection.execute("CREATE UNIQUE INDEX ON flights (id) NULLS NOT DISTINCT")
    run(job, PostgresSink(database, "flights", mode, ["id"], add, inline_bytes_max=inline_bytes_max), rows)
    null_rows = connection.execute("SELECT flights FROM flights WHERE id IS NULL").fetchall()
    assert null_rows in ([(2,)], [(3,)]) if mode == "ignore" else null_rows == [(5,)]


def test_a_sum_that_leaves_the_type_is_refused_not_wrapped(
    database: str, connection: psycopg.Connection[Any], job: Job
) -> None:
    sink = PostgresSink(database, "flights", "merge", ["id"], ["n"])
    with pytest.raises(RowRejectedError, match="out of range"):
        run(job, sink, pa.table({"id": [1, 1], "n": [2**62, 2**62]}))
    assert connection.execute("SELECT count(*) FROM flights").fetchone() == (0,)


def test_sums_of_decimals_and_doubles_are_exact_as_postgres_adds(
    database: str, connection: psycopg.Connection[Any], job: Job
) -> None:
    sink = PostgresSink(database, "flights", "merge", ["id"], ["fare", "hours"])
    fares = pa.array([Decimal("0.10"), Decimal("0.20")], pa.decimal128(5, 2))
    for _ in range(2):
        run(job, sink, pa.table({"id": [1, 1], "fare": fares, "hours": [0.5, 0.25]}))
    assert connection.execute("SELECT * FROM flights").fetchall() == [(1, Decimal("0.60"), 1.5)]


def test_the_database_refuses_a_row_and_the_batch_rolls_back(
    database: str, connection: psycopg.Connection[Any], job: Job
) -> None:
    connection.execute("CREATE TABLE flights (code varchar(2))")
    for inline_bytes_max in (1 << 20, 0):
        with pytest.raises(RowRejectedError, match=r"flights.*value too long.*line 2, column"):
            run(job, PostgresSink(database, "flights", inline_bytes_max=inline_bytes_max),
                pa.table({"code": ["AA", "LONG"]}))  # fmt: skip
    assert connection.execute("SELECT count(*) FROM flights").fetchone() == (0,)


def test_a_recount_finds_records_that_are_there_twice(database: str, job: Job) -> None:
    sink = PostgresSink(database, "flights")
    offsets = [1, 2, 2, 2, 3]
    run(job, sink, pa.table({"topic": ["t"] * 5, "partition": [0] * 5, "offset": offsets}))
    assert (sink.recount().rows, sink.recount().doubled) == (5, 2)


# Rights and secrets.


@pytest.fixture
def plain_dsn(database: str, connection: psycopg.Connection[Any]) -> Iterator[str]:
    """A user without rights, and with a password that must not be shown."""
    user = f"plain_{uuid.uuid4().hex[:8]}"
    connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(user), SECRET))
    yield conninfo.make_conninfo(database, user=user, password=SECRET)
    connection.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(user)))


def test_missing_rights_are_named_with_their_grant(plain_dsn: str, connection: psycopg.Connection[Any]) -> None:
    user = str(conninfo.conninfo_to_dict(plain_dsn)["user"])
    who = sql.Identifier(user)
    schema = pa.schema({"id": pa.int64(), "n": pa.int64()})
    sink = PostgresSink(plain_dsn, "flights", "merge", ["id"], ["n"])
    with pytest.raises(StoreAccessError, match=rf'GRANT USAGE, CREATE ON SCHEMA public TO "{user}"'):
        sink.prepare(schema)
    with (
        closing(PostgresStore(plain_dsn)) as store,
        pytest.raises(StoreAccessError, match="GRANT USAGE, CREATE ON SCHEMA public"),
    ):
        store.fence("flights")
    connection.execute("CREATE TABLE flights (id bigint UNIQUE, n bigint)")
    grants = {
        "INSERT": 'INSERT ON "public"."flights"',
        "SELECT": 'SELECT ON "public"."flights"',
        "UPDATE": 'UPDATE ON "public"."flights"',
        "CREATE": 'CREATE ON SCHEMA "public"',
    }
    for grant in grants.values():
        with pytest.raises(StoreAccessError) as caught:
            sink.prepare(schema)
        assert caught.value.remedy == f'Run GRANT {grant} TO "{user}".'
        assert SECRET not in str(caught.value)
        connection.execute(sql.SQL("GRANT {} TO {}").format(sql.SQL(grant), who))
    sink.prepare(schema)


def test_a_user_with_just_the_documented_rights_can_run(plain_dsn: str, connection: psycopg.Connection[Any]) -> None:
    user = sql.Identifier(str(conninfo.conninfo_to_dict(plain_dsn)["user"]))
    connection.execute(sql.SQL("GRANT CREATE ON SCHEMA public TO {}").format(user))
    modes: dict[Mode, tuple[Any, Any]] = {
        "append": (None, None), "ignore": (["id"], None), "upsert": (["id"], None), "merge": (["id"], ["n"]),
        "replace": (None, None),
    }  # fmt: skip
    for mode, (key, add) in modes.items():
        for inline_bytes_max in (1 << 20, 0):
            name = f"{mode}_{inline_bytes_max}"
            sink = PostgresSink(plain_dsn, name, mode, key, add, inline_bytes_max=inline_bytes_max)
            job = Job(PostgresStore(plain_dsn), pipeline=name).start()
            run(job, sink, pa.table({"id": [1], "n": [1]}))
            job.store.close()
            written = connection.execute(sql.SQL("SELECT id, n FROM {}").format(sql.Identifier(name))).fetchall()
            assert written == [(1, 1)], name


def test_a_wrong_password_is_told_without_the_password(plain_dsn: str, connection: psycopg.Connection[Any]) -> None:
    user = str(conninfo.conninfo_to_dict(plain_dsn)["user"])
    connection.execute(sql.SQL("ALTER ROLE {} PASSWORD 'another'").format(sql.Identifier(user)))
    sink = PostgresSink(plain_dsn, "flights")
    with pytest.raises(StoreAccessError) as caught:
        sink.prepare(pa.schema({"id": pa.int64()}))
    shown = " ".join([str(caught.value), repr(caught.value), repr(sink), repr(sink.store), sink.store.address.label])
    assert SECRET not in shown
    assert f'password authentication failed for user "{user}"' in shown


def test_a_server_that_is_not_there_is_named_by_host_port_and_database() -> None:
    store = PostgresStore(f"host=127.0.0.1 port=1 dbname=somewhere user=u password='{SECRET[:2]}x'")
    with pytest.raises(StoreUnavailableError, match=r"postgres 127\.0\.0\.1:1/somewhere"):
        store.fence("flights")


def test_a_malformed_dsn_is_refused_without_quoting_it() -> None:
    with pytest.raises(OptionError) as caught:
        PostgresSink("host=a password", "flights")
    assert "password" not in str(caught.value)


def test_a_database_is_one_store_however_its_dsn_is_spelt(database: str, postgres: Any) -> None:
    address, names = conninfo.conninfo_to_dict(database), ("port", "user", "password", "dbname")
    spelt = conninfo.make_conninfo(host="localhost", hostaddr="127.0.0.1", **{name: address[name] for name in names})
    assert PostgresStore(database).identity == PostgresStore(spelt).identity
    assert PostgresStore(database).identity != PostgresStore(postgres.dsn).identity


# Staging.


def test_a_large_task_streams_in_bounded_memory(database: str, connection: psycopg.Connection[Any], job: Job) -> None:
    """Held batches are let go of as they are written; never more than the inline limit and one batch live."""
    schema = pa.schema({"id": pa.int64(), "body": pa.string()})
    sink = PostgresSink(database, "flights", inline_bytes_max=200_000)
    sink.prepare(schema)
    entry = job.next_entry()
    batch = job.batch(entry)
    idle = pa.total_allocated_bytes()
    peaks: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(100):
            peaks.append(pa.total_allocated_bytes() - idle)
            ids = pa.array(range(number * 1000, (number + 1) * 1000))
            yield pa.record_batch([ids, pa.array(["x" * 100] * 1000)], schema=schema)

    report = sink.task_writer(batch, schema)(batches())
    assert (report.rows, report.staged, report.inline) == (100_000, True, ())
    assert max(peaks) < 1_500_000
    job.store.commit(entry, previous=None, writes=[(sink, batch, [report])])
    counts = connection.execute("SELECT count(*), count(DISTINCT id) FROM flights").fetchone()
    assert counts == (100_000, 100_000)


def staging_tables(connection: psycopg.Connection[Any]) -> list[str]:
    cursor = connection.execute("SELECT relname FROM pg_class WHERE relname LIKE 'directkafka\\_stage\\_%'")
    return [name for (name,) in cursor.fetchall()]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_rows_may_be_staged_in_another_schema_than_the_table_s(
    database: str, connection: psycopg.Connection[Any], plain_dsn: str, mode: Mode
) -> None:
    """For a user who may not make tables beside the target."""
    user = sql.Identifier(str(conninfo.conninfo_to_dict(plain_dsn)["user"]))
    connection.execute(
        'CREATE SCHEMA "Of %s{}"; CREATE SCHEMA apart; CREATE TABLE "Of %s{}".flights (id bigint UNIQUE)'
    )
    grants = "GRANT CREATE ON SCHEMA public TO {0}; GRANT USAGE, CREATE ON SCHEMA apart TO {0}; GRANT USAGE ON SCHEMA "
    connection.execute(sql.SQL(grants + '"Of %s{{}}" TO {0}').format(user))
    connection.execute(sql.SQL('GRANT INSERT, SELECT, UPDATE ON "Of %s{{}}".flights TO {0}').format(user))
    key = ["id"] if mode == "upsert" else None
    table = '"Of %s{}".flights'
    with pytest.raises(StoreAccessError, match=re.escape('CREATE ON SCHEMA "Of %s{}"')):
        PostgresSink(plain_dsn, table, mode, key).check(pa.schema({"id": pa.int64()}))
    sink = PostgresSink(plain_dsn, table, mode, key, inline_bytes_max=0, staging_schema="apart")
    with closing(PostgresStore(plain_dsn)) as store:
        run(Job(store).start(), sink, pa.table({"id": [1, 2]}))
    assert connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.SQL(table))).fetchone() == (2,)
    assert staging_tables(connection) == []


def test_a_zombie_task_does_not_hold_up_the_commit(
    database: str, connection: psycopg.Connection[Any], job: Job
) -> None:
    """Its table is left, and dropped with the next batch, once the zombie is gone."""
    schema = pa.schema({"id": pa.int64()})
    sink = PostgresSink(database, "flights", inline_bytes_max=0)
    sink.prepare(schema)
    entry = job.next_entry()
    batch = job.batch(entry)
    report = sink.task_writer(batch, schema)(iter(pa.table({"id": [1]}).to_batches()))
    (staging,) = staging_tables(connection)
    with psycopg.connect(database) as zombie:
        zombie.execute(sql.SQL("INSERT INTO {} VALUES (9, gen_random_uuid())").format(sql.Identifier(staging)))
        job.last = job.store.commit(entry, previous=None, writes=[(sink, batch, [report])])
        assert staging_tables(connection) == [staging]
        zombie.rollback()
    run(job, sink, pa.table({"id": [2]}))
    assert connection.execute("SELECT id FROM flights ORDER BY id").fetchall() == [(1,), (2,)]
    assert staging_tables(connection) == []


def test_a_fence_drops_what_dead_drivers_staged_and_nothing_else(
    database: str, connection: psycopg.Connection[Any], job: Job
) -> None:
    schema = pa.schema({"id": pa.int64()})
    rows = pa.table({"id": [1]})
    for pipeline, generation in (("flights", job.generation), ("flights", 10**6), ("weather", 1)):
        sink = PostgresSink(database, "flights", inline_bytes_max=0)
        sink.prepare(schema)
        batch = BatchAttempt(pipeline=pipeline, generation=generation, batch_id=0, attempt=uuid.uuid4().hex)
        sink.task_writer(batch, schema)(iter(rows.to_batches()))
    before = set(staging_tables(connection))
    assert len(before) == 3
    new = Job(PostgresStore(database)).start()
    pattern = stale_staging_pattern("flights", "public")
    dropped = before - set(staging_tables(connection))
    assert [re.findall(pattern, name) for name in dropped] == [[str(job.generation)]]
    new.store.close()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"mode": "upsurt"}, "mode"),
        ({"mode": "merge", "key": ["id"]}, "mode"),
        ({"mode": "append", "key": ["id"]}, "key"),
        ({"mode": "ignore", "add": ["n"]}, "add"),
        ({"mode": "merge", "key": ["id"], "add": ["id"]}, "add"),
        ({"connections_max": 0}, "connections_max"),
        ({"schema_policy": "guess"}, "schema_policy"),
        ({"table": "a.b.c"}, "table"),
        ({"table": '"open'}, "table"),
        ({"table": ""}, "table"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionError) as caught:
        PostgresSink(**({"dsn": "host=nowhere", "table": "flights"} | options))
    assert caught.value.option == named
