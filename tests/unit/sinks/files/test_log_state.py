"""Entries of a directory's log that another program has written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from directkafka.errors import SchemaMismatchError
from directkafka.offsets import PartitionProgress
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.files.log_state import (
    BatchAdded,
    DataFile,
    Entry,
    Fence,
    LogState,
    TableColumns,
    TableState,
    applied,
    entry_from_bytes,
    entry_to_bytes,
    state_from_bytes,
    state_to_bytes,
)

PROGRESS = PartitionProgress(topic="t", partition=0, topic_id="", start=0, end=1, leader_epoch=-1, origin=0)
ENTRIES: tuple[Entry, ...] = (
    Fence(pipeline="flights", generation=1, driver="me"),
    TableColumns(table="t", columns=TableState(format="parquet", schema=pa.schema([("id", pa.int64())]))),
    BatchAdded(
        commit_id="c",
        entry=LedgerEntry(pipeline="flights", generation=1, lineage="one", batch_id=0, progress=(PROGRESS,)),
        files={"t": (DataFile(name="file", rows=1, bytes=2),)},
    ),
)


def state() -> LogState:
    state = LogState()
    for entry in ENTRIES:
        state = applied(state, entry)
    return state


def spoilt(document: Any, *, beside: tuple[str, ...] = ()) -> Iterator[Any]:
    """The document with one value of another type, or one name less, at each place."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name in beside:
                continue
            yield {key: kept_value for key, kept_value in document.items() if key != name}
            for other in (["x"], 1.5, {"x": "y"}, *(() if isinstance(value, str) else ("x",))):
                if type(other) is not type(value):
                    yield document | {name: other}
            for other in spoilt(value, beside=beside):
                yield document | {name: other}
    elif isinstance(document, list):
        for number, value in enumerate(document):
            for other in spoilt(value, beside=beside):
                yield [*document[:number], other, *document[number + 1 :]]


#: For people, with a default, or not looked into when a log is read: its absence is no fault.
NOT_READ = ("described", "row_counts", "total_rows", "committed_at_ms")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda log_entry: type(log_entry).__name__)
def test_an_entry_with_a_wrong_field_is_told(entry: Entry) -> None:
    document = json.loads(entry_to_bytes(entry))
    assert entry_from_bytes(json.dumps(document).encode(), store="dir") == entry
    tries = [
        json.dumps(spoilt_document).encode()
        for spoilt_document in spoilt(document, beside=NOT_READ)
        if "format_version" in spoilt_document
    ]
    assert len(tries) > 10
    for content in (*tries, b"", b"[]", b"1", b"\xff", b"[" * 100_000, b'{"format_version": 1}'):
        try:
            read = entry_from_bytes(content, store="dir")
        except SchemaMismatchError:
            continue
        # A table that is called otherwise, or more of a mapping, is an entry too, and reads back as what it is.
        assert json.loads(entry_to_bytes(read)).keys() == document.keys()


def test_a_checkpoint_with_a_wrong_field_is_told() -> None:
    document = json.loads(state_to_bytes(state()))
    assert state_from_bytes(json.dumps(document).encode(), store="dir") == state()
    refused = 0
    for spoilt_document in spoilt(document, beside=NOT_READ):
        try:
            state_from_bytes(json.dumps(spoilt_document).encode(), store="dir")
        except SchemaMismatchError:
            refused += 1
    assert refused > 50


#: Of a table, as the log has them.
COLUMNS = json.loads(entry_to_bytes(ENTRIES[1]))["columns"]


@pytest.mark.parametrize(
    ("entry", "change", "message"),
    [
        (ENTRIES[0], {"generation": "1"}, "generation is of type str"),
        (ENTRIES[0], {"driver": 5}, "driver is of type int"),
        (ENTRIES[1], {"table": 5}, "table is of type int"),
        (ENTRIES[1], {"columns": COLUMNS | {"format": 5}}, "format is of type int"),
        (ENTRIES[2], {"commit_id": 5}, "commit_id is of type int"),
        (ENTRIES[2], {"files": {"t": [["file", "1", 2]]}}, "rows is of type str"),
        (ENTRIES[2], {"files": {"t": [["file", 1, None]]}}, "bytes is of type NoneType"),
        (ENTRIES[2], {"files": {"t": [[5, 1, 2]]}}, "name is of type int"),
    ],
)
def test_a_field_of_another_type_is_told_by_its_name(entry: Entry, change: dict[str, Any], message: str) -> None:
    document = json.loads(entry_to_bytes(entry)) | change
    with pytest.raises(SchemaMismatchError, match=rf"{message}.*restore it from a backup"):
        entry_from_bytes(json.dumps(document).encode(), store="dir")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"next_slot": "1"}, "next_slot is of type str"),
        ({"pipelines": {"p": {"generation": "1", "driver": "me", "commit_id": "", "entry": None}}}, "generation is of"),
        ({"tables": {"t": COLUMNS | {"format": 5}}}, "format is of type int"),
    ],
)
def test_a_field_of_another_type_in_a_checkpoint_is_told_by_its_name(change: dict[str, Any], message: str) -> None:
    document = json.loads(state_to_bytes(state())) | change
    with pytest.raises(SchemaMismatchError, match=rf"{message}.*restore it from a backup"):
        state_from_bytes(json.dumps(document).encode(), store="dir")
