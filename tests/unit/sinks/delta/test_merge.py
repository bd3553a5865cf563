"""Merges into a Delta table without Spark: the commit that they make, what they leave, and who disturbs them."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from tests.real.sinks.batches import problems_of, run

from directkafka.errors import FencedError, RowCountError, RowRejectedError, SchemaMismatchError, StoreUnavailableError
from directkafka.sinks.delta import table as delta_table
from directkafka.sinks.delta.sink import DeltaSink
from directkafka.testing.store_driver import SCHEMA, Job


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "flights"


def start(folder: Path, schema: pa.Schema = SCHEMA, **options: Any) -> tuple[DeltaSink, Job]:
    sink = DeltaSink(folder, **{"mode": "upsert", "key": ["id"], "durable": False} | options)
    sink.check(schema)
    return sink, Job(sink.store).start()


def rows(folder: Path) -> list[tuple[Any, ...]]:
    table_rows = DeltaTable(folder).to_pyarrow_table().to_pylist()
    return sorted((tuple(row.values()) for row in table_rows), key=str)


def test_a_merge_that_changes_no_row_moves_the_ledger_all_the_same(folder: Path) -> None:
    """delta-rs makes no commit then."""
    sink, job = start(folder, order=["flights"])
    job.run((sink, [[(1, 50)]]))
    entry = job.run((sink, [[(1, 40)]]))
    assert rows(folder) == [(1, 50)]
    assert DeltaTable(folder).transaction_version("directkafka/flights") == entry.batch_id == 1
    assert job.store.read("flights") == entry


def test_a_batch_of_no_rows_moves_the_ledger(folder: Path) -> None:
    sink, job = start(folder)
    job.run((sink, [[(1, 50)]]))
    entry = job.run((sink, [[], []]))
    assert (rows(folder), job.store.read("flights")) == ([(1, 50)], entry)


def during_commit(monkeypatch: pytest.MonkeyPatch, sink: DeltaSink, meanwhile: Callable[[], object]) -> None:
    """Do something once, between the snapshot that a commit builds on and its end."""
    apply = sink.apply

    def first(*arguments: Any) -> int:
        monkeypatch.setattr(sink, "apply", apply)
        meanwhile()
        return apply(*arguments)

    monkeypatch.setattr(sink, "apply", first)


def test_a_strangers_row_in_between_is_met_by_another_try(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, job = start(folder)
    job.run((sink, [[(1, 10)]]))
    stranger = pa.table({"id": [2], "flights": [99]}, schema=SCHEMA)
    during_commit(monkeypatch, sink, lambda: write_deltalake(folder, stranger, mode="append"))
    with pytest.raises(StoreUnavailableError, match="concurrent transactions added new data"):
        job.run((sink, [[(2, 20)]]))
    job.run((sink, [[(2, 20)]]))
    assert rows(folder) == [(1, 10), (2, 20)]


def test_a_newer_driver_in_between_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, older = start(folder)
    older.run((sink, [[(1, 10)]]))

    def meanwhile() -> None:
        newer_sink, newer = start(folder)
        newer.run((newer_sink, [[(1, 11)]]))

    during_commit(monkeypatch, sink, meanwhile)
    with pytest.raises(FencedError):
        older.run((sink, [[(1, 12)]]))
    assert rows(folder) == [(1, 11)]


def test_staged_files_are_removed_after_the_commit_and_by_the_next_driver(folder: Path) -> None:
    sink, job = start(folder)
    staging = sink.store.staging
    job.write(sink, job.batch(job.next_entry()), [[(7, 70)]])
    assert len(list(staging.iterdir())) == 1
    newer_sink, newer = start(folder)
    assert list(staging.iterdir()) == []
    # What an older driver's tasks still write is removed with the newer one's next batch.
    job.write(sink, job.batch(job.next_entry()), [[(8, 80)]])
    newer.run((newer_sink, [[(1, 10)], [(2, 20)]]))
    assert list(staging.iterdir()) == []
    assert rows(folder) == [(1, 10), (2, 20)]


def test_a_lost_staged_file_is_missed(folder: Path) -> None:
    sink, job = start(folder)
    entry = job.next_entry()
    written = job.write(sink, job.batch(entry), [[(1, 10)], [(2, 20)]])
    next(iter(sink.store.staging.iterdir())).unlink()
    with pytest.raises(RowCountError):
        job.store.commit(entry, previous=None, writes=[written])
    assert rows(folder) == []


@pytest.mark.parametrize(
    ("kind", "held", "coming"),
    [
        (pa.int32(), 2**31 - 1, 1),
        (pa.int64(), -(2**63), -1),
        (pa.decimal128(4, 2), Decimal("99.99"), Decimal("0.01")),
        (pa.decimal128(38, 0), Decimal(10**38 - 1), Decimal(1)),
        (pa.decimal128(38, 38), Decimal("0.75"), Decimal("0.75")),
    ],
    ids=str,
)
def test_a_sum_that_the_column_cannot_hold_is_refused(folder: Path, kind: pa.DataType, held: Any, coming: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("n", kind)])
    sink, job = start(folder, schema, mode="merge", add=["n"])
    run(job, sink, pa.table([[1], pa.array([held], kind)], schema=schema))
    with pytest.raises(RowRejectedError, match=r"out of range|too large to store"):
        run(job, sink, pa.table([[1], pa.array([coming], kind)], schema=schema))
    assert rows(folder) == [(1, held)]


def test_the_files_of_a_merge_are_synced_before_its_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(delta_table, "sync_file", lambda path: synced.append(path.name))
    sink, job = start(folder, durable=True)
    job.run((sink, [[(1, 10)]]))
    job.run((sink, [[(1, 11)]]))
    (path,) = DeltaTable(folder).get_add_actions().column("path").to_pylist()
    version = f"{DeltaTable(folder).version():020d}.json"
    assert synced.index(path) < synced.index(version)


NOON = datetime.datetime(2026, 11, 26, 12, tzinfo=datetime.UTC)

ORDERS = [
    (pa.int8(), [1, 2, 3]),
    (pa.string(), ["a'", 'it\'s; "b"', "z"]),
    (pa.binary(), [b"\x00", b"'\xff", b"\xff\xff\xff"]),
    (pa.bool_(), [False, False, True]),
    (pa.date32(), [NOON.date() + datetime.timedelta(days=day) for day in range(3)]),
    (pa.timestamp("us", "UTC"), [NOON + datetime.timedelta(microseconds=microseconds) for microseconds in range(3)]),
    (pa.decimal128(38, 10), [Decimal(numerator) / 8 for numerator in range(3)]),
    (pa.decimal128(20, 12), [Decimal(numerator) / 10**10 for numerator in (1, 2, 3)]),
]


@pytest.mark.parametrize(
    ("kind", "places"), ORDERS, ids=lambda value: str(value) if isinstance(value, pa.DataType) else ""
)
@pytest.mark.parametrize("how", ["hard", "soft"])
def test_a_truncate_is_compared_by_an_order_of_any_type(
    folder: Path, how: str, kind: pa.DataType, places: list[Any]
) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", kind), ("gone", pa.bool_()), ("op", pa.string())])
    options = {"order": ["at"], "delete": "gone", "delete_how": how, "truncate": True}
    sink, job = start(folder, schema, **options)
    older, truncate, newer = places
    for ids, at, op in (([1, 2], [older, newer], "c"), ([None], [truncate], "t")):
        columns = [ids, at, [False] * len(ids), [op] * len(ids)]
        run(job, sink, pa.table(list(map(pa.array, columns, schema.types)), schema=schema))
    table = DeltaTable(folder).to_pyarrow_table()
    there = table if how == "hard" else table.filter(pa.compute.invert(table.column("gone")))
    assert there.column("id").to_pylist() == [2]
    assert how == "hard" or sorted(table.column("at").to_pylist()) == [truncate, newer]


def test_every_type_is_replaced_as_it_came(folder: Path) -> None:
    kinds = {
        "small": pa.int8(), "real": pa.float32(), "double": pa.float64(), "flag": pa.bool_(), "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"), "price": pa.decimal128(20, 4), "raw": pa.binary(), "text": pa.string(),
        "list": pa.list_(pa.int64()), "map": pa.map_(pa.string(), pa.int64()),
        "struct": pa.struct([("x", pa.int32()), ("y", pa.list_(pa.struct([("z", pa.string())])))]),
    }  # fmt: skip
    schema = pa.schema([("id", pa.int64()), *kinds.items()])
    row: dict[str, Any] = {
        "id": 1, "small": -3, "real": 1.5, "double": 0.1, "flag": True, "day": NOON.date(), "at": NOON,
        "price": Decimal("12.3400"), "raw": b"\x00'", "text": "it's", "list": [1, None], "map": [("a", 1)],
        "struct": {"x": 7, "y": [{"z": "ö"}, None]},
    }  # fmt: skip
    empty = dict.fromkeys(schema.names) | {"id": 1}
    sink, job = start(folder, schema)
    for coming in (empty, row):
        run(job, sink, pa.Table.from_pylist([coming, {"id": 2}], schema=schema))
    table = DeltaTable(folder).to_pyarrow_table().sort_by("id")
    assert table.to_pylist() == [row, dict.fromkeys(schema.names) | {"id": 2}]


def test_columns_that_the_rows_lack_keep_what_they_have(folder: Path) -> None:
    wide = pa.schema([*SCHEMA, ("note", pa.string())])
    write_deltalake(folder, pa.table([[1], [10], ["kept"]], schema=wide))
    sink, job = start(folder)
    job.run((sink, [[(1, 11), (2, 20)]]))
    assert rows(folder) == [(1, 11, "kept"), (2, 20, None)]


def test_columns_that_cannot_be_compared_or_added_are_refused(folder: Path) -> None:
    told = problems_of(DeltaSink(folder, "upsert", ["id"], order=["at"]), id=pa.float64(), at=pa.list_(pa.int64()))
    assert "column 'id' of type double is no key or order" in told
    assert "column 'at' of type list<item: int64> is no key or order" in told
    told = problems_of(DeltaSink(folder, "merge", ["id"], ["n"]), id=pa.int64(), n=pa.string())
    assert "column 'n' of type string is no number" in told
    told = problems_of(DeltaSink(folder, "upsert", ["id"]), n=pa.int64())
    assert "the DataFrame has no column 'id' (key, add, order)" in told


def test_a_table_that_is_only_appended_to_takes_what_adds_rows(folder: Path) -> None:
    DeltaTable.create(folder, Schema.from_arrow(SCHEMA), configuration={"delta.appendOnly": "true"})
    for mode, key in (("upsert", ["id"]), ("replace", None)):
        with pytest.raises(SchemaMismatchError, match=f"appendOnly is set, and {mode} takes rows out"):
            DeltaSink(folder, mode, key).check(SCHEMA)  # type: ignore[arg-type]
    sink, job = start(folder, mode="ignore")
    job.run((sink, [[(1, 10)]]))
    job.run((sink, [[(1, 11), (2, 20)]]))
    assert rows(folder) == [(1, 10), (2, 20)]


@pytest.mark.parametrize("compression", ["zstd", "snappy", "lz4", "gzip", "none"])
def test_the_files_of_a_merge_are_compressed_as_they_are_told(folder: Path, compression: str) -> None:
    sink, job = start(folder, compression=compression)
    job.run((sink, [[(1, 10)]]))
    (name,) = DeltaTable(folder).get_add_actions().column("path").to_pylist()
    codec = pq.read_metadata(folder / name).row_group(0).column(0).compression
    assert codec.lower() == {"none": "uncompressed"}.get(compression, compression)


@pytest.mark.parametrize(
    ("kind", "number"), [(pa.timestamp("us", "UTC"), 400_000_000_000_000_000), (pa.date32(), 2_900_000)], ids=str
)
def test_a_truncate_may_be_far_in_the_future(folder: Path, kind: pa.DataType, number: int) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", kind), ("gone", pa.bool_()), ("op", pa.string())])
    sink, job = start(folder, schema, order=["at"], delete="gone", truncate=True)
    whole = pa.int32() if kind == pa.date32() else pa.int64()
    for ids, at, op in (([1, 2], [number - 1, number + 1], "c"), ([None], [number], "t")):
        places = pa.array(at, whole).cast(kind)
        columns = [pa.array(ids, pa.int64()), places, pa.array([False] * len(ids)), pa.array([op] * len(ids))]
        run(job, sink, pa.table(columns, schema=schema))
    assert DeltaTable(folder).to_pyarrow_dataset().to_table(columns=["id"]).to_pylist() == [{"id": 2}]


def test_a_missing_file_is_no_refused_row_whatever_the_folder_is_called(tmp_path: Path) -> None:
    folder = tmp_path / "stackoverflow, a Cast error"
    sink, job = start(folder)
    job.run((sink, [[(1, 10)]]))
    for path in folder.glob("*.parquet"):
        path.unlink()
    with pytest.raises(StoreUnavailableError):
        job.run((sink, [[(1, 11)]]))


def test_a_merge_whose_driver_was_killed_is_synced_by_the_next_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where somebody else has committed since."""
    sink, job = start(folder)
    job.run((sink, [[(1, 10)]]))
    at = DeltaTable(folder).version()
    (name,) = DeltaTable(folder).get_add_actions().column("path").to_pylist()
    stranger = pa.table({"id": [2], "flights": [99]}, schema=SCHEMA)
    write_deltalake(folder, stranger, mode="append")
    synced: list[str] = []
    monkeypatch.setattr(delta_table, "sync_file", lambda path: synced.append(path.name))
    start(folder, durable=True)
    assert {name, f"{at:020d}.json", f"{at + 1:020d}.json"} <= set(synced)


def test_equal_rows_below_a_mark_are_refused_as_in_a_database(folder: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("at", pa.int64()), ("gone", pa.bool_())])
    sink, job = start(folder, schema, order=["at"], delete="gone", delete_how="soft")
    rows = pa.table([[1, 1, 1], [10, 11, None], [5, 5, 9], [False, False, True]], schema=schema)
    with pytest.raises(RowRejectedError, match="2 rows of one batch have the key id = 1, equal in at"):
        run(job, sink, rows)
