"""The Delta sink and its store without Spark: what a table keeps, what it is refused for, who wins."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType

from directkafka.errors import FencedError, OptionError, SchemaMismatchError, StoreUnavailableError
from directkafka.operations.drop import drop
from directkafka.sinks.delta import table as delta_table
from directkafka.sinks.delta.sink import DeltaSink
from directkafka.sinks.delta.store import LEDGER_FOLDER, DeltaStore
from directkafka.testing.store_driver import SCHEMA, Job


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "flights"


def start(folder: Path, pipeline: str = "flights", **options: Any) -> tuple[DeltaSink, Job]:
    sink = DeltaSink(folder, durable=False, **options)
    sink.check(SCHEMA)
    return sink, Job(sink.store, pipeline=pipeline).start()


def ids(folder: Path) -> list[int]:
    return sorted(DeltaTable(folder).to_pyarrow_table().column("id").to_pylist())


def forget_log(folder: Path) -> None:
    """As a year of checkpoints and log cleanups does."""
    table = DeltaTable(folder)
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    table.create_checkpoint()
    table.cleanup_metadata()


@pytest.mark.parametrize(
    ("options", "option", "words"),
    [
        ({"path": "s3://bucket/x"}, "path", "scheme 's3'"),
        ({"mode": "upsert"}, "mode", "upsert needs key"),
        ({"mode": "ignore"}, "key", "has no unique index that ignore could go by"),
        ({"mode": "upsert", "key": ["id"], "truncate": True}, "truncate", "is for a sink with delete"),
        ({"compression": "brotli"}, "compression", "zstd"),
        ({"schema_policy": "guess"}, "schema_policy", "add-columns"),
        ({"row_group_bytes": 0}, "row_group_bytes", "greater than or equal to 1"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, Any], option: str, words: str) -> None:
    with pytest.raises(OptionError, match=words) as caught:
        DeltaSink(**({"path": "/data"} | options))
    assert caught.value.option == option


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(OptionError, match=r"pip install '\.\[delta\]' in a checkout"):
        DeltaSink("/data")


def test_a_check_makes_nothing_and_a_fence_makes_the_table(folder: Path) -> None:
    sink = DeltaSink(folder)
    sink.check(SCHEMA)
    assert not folder.exists()
    sink.store.fence("flights")
    assert pa.schema(DeltaTable(folder).schema()) == SCHEMA


def test_a_store_that_no_sink_has_told_of_columns_makes_no_table(folder: Path) -> None:
    with pytest.raises(SchemaMismatchError, match="no such table"):
        DeltaStore(folder).fence("flights")
    assert not folder.exists()


def test_the_ledger_outlives_the_log_and_vacuum(folder: Path) -> None:
    sink, job = start(folder)
    for number in range(3):
        committed = job.run((sink, [[(number, 1)]]))
    forget_log(folder)
    DeltaTable(folder).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
    assert len(list((folder / "_delta_log").glob("*.json"))) < 3
    _, newer = start(folder)
    assert (newer.last, newer.generation) == (committed, 2)


def test_a_driver_starts_where_others_have_compacted_its_files_and_removed_them(folder: Path) -> None:
    sink, job = start(folder)
    for number in range(2):
        job.run((sink, [[(number, 1)]]))
    DeltaTable(folder).optimize.compact()
    DeltaTable(folder).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    durable = DeltaSink(folder)
    durable.check(SCHEMA)
    newer = Job(durable.store).start()
    newer.run((durable, [[(2, 1)]]))
    assert (ids(folder), newer.generation) == ([0, 1, 2], 2)


def test_older_versions_can_be_read_after_the_pipeline_was_dropped_and_started_again(folder: Path) -> None:
    sink, job = start(folder)
    for number in range(2):
        job.run((sink, [[(number, 1)]]))
    version = DeltaTable(folder).version()
    drop([sink.store], "flights")
    write_deltalake(folder, pa.table({"id": [7], "flights": [1]}, schema=SCHEMA), mode="overwrite")
    for _ in range(2):
        assert start(folder)[1].last is None
    assert sorted(DeltaTable(folder, version=version).to_pyarrow_table().column("id").to_pylist()) == [0, 1]


def test_versions_of_others_below_a_batch_are_synced_with_it_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them nobody can read the batch's version after a power cut."""
    start(folder)
    synced: list[str] = []
    monkeypatch.setattr(delta_table, "sync_file", lambda path: synced.append(path.name))
    durable = DeltaSink(folder)
    durable.check(SCHEMA)
    job = Job(durable.store).start()
    for number in range(2):
        write_deltalake(folder, pa.table({"id": [7], "flights": [1]}, schema=SCHEMA), mode="append")
        job.run((durable, [[(number, 1)]]))
    versions = [name for name in synced if name.endswith(".json") and name[:-5].isdecimal() and len(name) == 25]
    assert sorted(versions) == [f"{version:020d}.json" for version in range(DeltaTable(folder).version() + 1)]


def test_of_what_lies_below_a_checkpoint_the_checkpoint_is_synced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, job = start(folder)
    for number in range(3):
        job.run((sink, [[(number, 1)]]))
    table = DeltaTable(folder)
    table.create_checkpoint()
    job.run((sink, [[(9, 1)]]))
    synced: list[str] = []
    monkeypatch.setattr(delta_table, "sync_file", lambda path: synced.append(path.name))
    durable = DeltaSink(folder)
    durable.check(SCHEMA)
    Job(durable.store).start()
    versions = {int(name[:20]) for name in synced if name.endswith(".json")}
    assert versions == {table.version() + 1, table.version() + 2}
    assert f"{table.version():020d}.checkpoint.parquet" in synced


@pytest.mark.parametrize("stopped", ["before delta-rs looks at the log", "after it has looked"])
def test_a_driver_whose_versions_log_was_cleaned_up_lands_nothing(
    stopped: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands still in its commit, which then finds the name of its version free."""
    sink, older = start(folder)
    older.run((sink, [[(1, 1)]]))
    at = DeltaTable(folder).version()
    commit = DeltaTable.create_write_transaction

    def meanwhile(table: DeltaTable, *arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(DeltaTable, "create_write_transaction", commit)
        newer_sink, newer = start(folder)
        newer.run((newer_sink, [[(3, 1)]]))
        forget_log(folder)
        assert not (folder / "_delta_log" / f"{at + 1:020d}.json").exists()
        if stopped == "after it has looked":
            # What delta-rs does then: it puts its version, and nobody ever reads that.
            (folder / "_delta_log" / f"{at + 1:020d}.json").touch()
        else:
            commit(table, *arguments, **options)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", meanwhile)
    with pytest.raises(FencedError):
        older.run((sink, [[(2, 1)]]))
    assert ids(folder) == [1, 3]


def test_a_commit_whose_answer_was_lost_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fence's, then the batch's: delta-rs raises after it has committed, for example when a checkpoint fails."""
    commit = DeltaTable.create_write_transaction

    def lose_the_answer(table: DeltaTable, *arguments: Any, **options: Any) -> None:
        commit(table, *arguments, **options)
        raise DeltaError("the disk is full")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", lose_the_answer)
    sink, job = start(folder)
    assert job.run((sink, [[(1, 1)]])).row_counts == {"flights": 1}
    assert (job.generation, ids(folder)) == (1, [1])
    assert DeltaTable(folder).version() == 2


def test_a_batch_is_one_commit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files alone, and no rows at all."""
    sink, job = start(folder)
    commit, asked = DeltaTable.create_write_transaction, []

    def counted(table: DeltaTable, *arguments: Any, **options: Any) -> None:
        asked.append(table.version())
        commit(table, *arguments, **options)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", counted)
    job.run((sink, [[(1, 1)]]))
    job.run((sink, [[]]))
    assert len(asked) == 2


def test_a_commit_that_failed_is_a_definite_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, job = start(folder)

    def fail(*_: Any, **__: Any) -> None:
        raise DeltaError("the disk is full")

    with monkeypatch.context() as full:
        full.setattr(DeltaTable, "create_write_transaction", fail)
        with pytest.raises(StoreUnavailableError, match="the disk is full"):
            job.run((sink, [[(1, 1)]]))
        with pytest.raises(StoreUnavailableError, match="the disk is full"):
            start(folder, "weather")
    job.run((sink, [[(1, 1)]]))
    assert ids(folder) == [1]


def test_a_strangers_append_in_between_disturbs_nobody(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, job = start(folder)
    apply = sink.apply

    def meanwhile(*arguments: Any) -> int:
        write_deltalake(folder, pa.table({"id": [100], "flights": [1]}, schema=SCHEMA), mode="append")
        return apply(*arguments)

    monkeypatch.setattr(sink, "apply", meanwhile)
    job.run((sink, [[(1, 1)]]))
    job.run((sink, [[(2, 1)]]))
    assert ids(folder) == [1, 2, 100, 100]


def test_columns_that_a_stranger_dropped_meanwhile_stop_the_commit(folder: Path) -> None:
    sink, job = start(folder)
    job.run((sink, [[(1, 1)]]))
    narrow = pa.table({"id": [1]})
    write_deltalake(folder, narrow, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(SchemaMismatchError, match="no column 'flights'"):
        job.run((sink, [[(2, 1)]]))
    assert ids(folder) == [1]


def test_only_the_last_entries_are_kept(folder: Path) -> None:
    sink, job = start(folder)
    for number in range(5):
        job.run((sink, [[(number, 1)]]))
    assert len(list((folder / LEDGER_FOLDER / "flights").iterdir())) == 2
    start(folder)
    assert len(list((folder / LEDGER_FOLDER / "flights").iterdir())) == 1


def test_a_lost_entry_is_said_and_not_taken_for_a_new_pipeline(folder: Path) -> None:
    sink, job = start(folder)
    job.run((sink, [[(1, 1)]]))
    for path in (folder / LEDGER_FOLDER / "flights").iterdir():
        path.unlink()
    with pytest.raises(SchemaMismatchError, match="restore it from a backup"):
        DeltaStore(folder).read("flights")


def test_rows_are_what_another_reader_of_delta_finds_in_the_log(folder: Path) -> None:
    """DuckDB reads the files that the log itself names; the two have no code in common."""
    sink, job = start(folder, compression="snappy")
    job.run((sink, [[(1, 5), (2, 6)], [(3, 7)]]))
    job.run((sink, [[(4, 8)]]))
    rows = duckdb.sql(
        f"""WITH log AS (FROM read_json('{folder}/_delta_log/*.json', format = 'newline_delimited'))
        SELECT id, flights FROM read_parquet('{folder}/part-*.parquet', filename = true)
        WHERE parse_filename(filename) IN (SELECT add.path FROM log WHERE add IS NOT NULL) ORDER BY 1"""
    ).fetchall()
    assert rows == [(1, 5), (2, 6), (3, 7), (4, 8)]
    assert [(row["num_records"]) for row in pa.table(DeltaTable(folder).get_add_actions()).to_pylist()].count(1) == 2


def test_history_tells_of_the_batches(folder: Path) -> None:
    sink, job = start(folder)
    job.run((sink, [[(1, 1)]]))
    assert '"batch_id": 0' in DeltaTable(folder).history(1)[0]["directkafka"]
    assert DeltaTable(folder).transaction_version("directkafka/flights") == 0


def test_columns_are_added_where_asked_for(folder: Path) -> None:
    sink, job = start(folder, schema_policy="add-columns")
    job.run((sink, [[(1, 1)]]))
    wide = pa.schema([*SCHEMA, ("more", pa.list_(pa.string()))])
    sink.prepare(wide)
    assert pa.schema(DeltaTable(folder).schema()) == wide
    job.run((sink, [[(2, 1)]]))
    assert ids(folder) == [1, 2]
    with pytest.raises(SchemaMismatchError, match="'more' of type int8 does not go into"):
        sink.prepare(pa.schema([("more", pa.int8())]))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        ({"partition_by": ["id"]}, "partitioned by id"),
        ({"configuration": {"delta.setTransactionRetentionDuration": "interval 30 days"}}, "TransactionRetention"),
    ],
)
def test_a_table_that_asks_for_more_is_refused(folder: Path, make: dict[str, Any], words: str) -> None:
    DeltaTable.create(folder, Schema.from_arrow(SCHEMA), **make)
    with pytest.raises(SchemaMismatchError, match=words):
        DeltaSink(folder).check(SCHEMA)


def test_constraints_and_columns_that_must_not_be_null_are_refused(folder: Path) -> None:
    columns = [Field("id", PrimitiveType("long"), nullable=False), Field("flights", PrimitiveType("long"))]
    table = DeltaTable.create(folder, Schema(columns))
    table.alter.add_constraint({"positive": "flights > 0"})
    with pytest.raises(SchemaMismatchError) as caught:
        DeltaSink(folder).check(SCHEMA)
    assert "delta.constraints.positive is set" in str(caught.value)
    assert "'id' is NOT NULL" in str(caught.value)


def test_records_that_two_rows_name_are_counted(folder: Path) -> None:
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
    rows = pa.table([["t"] * 3, pa.array([0, 0, 0], pa.int32()), [5, 6, 5]], schema=schema)
    write_deltalake(folder, rows)
    counted = DeltaSink(folder).recount()
    assert (counted.rows, counted.doubled) == (3, 1)
