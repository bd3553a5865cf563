"""The state of a directory's log, as values. Pure: no I/O.

An **entry** is one line of history: a fence, a table's columns, or a batch with the files it adds. The **state** is
all entries up to a slot, folded: :func:`applied` is the only place that says what an entry means. The state has no
list of files, which grows with every batch; drivers do not need it, and readers fold the entries' files themselves.

The JSON forms are the log's format (:data:`LOG_FORMAT_VERSION`); a newer format is refused.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from directkafka.errors import SchemaMismatchError
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.ledger import (
    PipelineState,
    check_fields,
    check_format,
    entry_from_json,
    entry_to_json,
    state_from_json,
    state_to_json,
    unless_dropped,
)

#: Version of the log's format. A reader refuses a higher one.
LOG_FORMAT_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One file of rows.

    Attributes:
        name: relative to the table's folder.
        rows, bytes: what it holds, and its size.
    """

    name: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """The columns of one table and the format of its files.

    Attributes:
        format: ``parquet``, ``json`` or ``text``.
        schema: every column that a file may have; a file made earlier lacks those that were added later.
    """

    format: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """All entries before ``next_slot``, folded."""

    next_slot: int = 0
    pipelines: Mapping[str, PipelineState] = field(default_factory=dict)
    tables: Mapping[str, TableState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A driver takes a pipeline over."""

    pipeline: str
    generation: int
    driver: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumns:
    """A table is made, or gets more columns."""

    table: str
    columns: TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAdded:
    """A batch: the ledger entry, and the files of each table that are part of it."""

    commit_id: str
    entry: LedgerEntry
    files: Mapping[str, tuple[DataFile, ...]] = field(default_factory=dict)


Entry = Fence | TableColumns | BatchAdded


def applied(state: LogState, entry: Entry) -> LogState:
    """The state after one more entry; whoever put it has made the checks."""
    pipelines, tables = dict(state.pipelines), dict(state.tables)
    match entry:
        case Fence():
            before = pipelines.get(entry.pipeline) or PipelineState()
            pipelines[entry.pipeline] = replace(before, generation=entry.generation, driver=entry.driver)
        case TableColumns():
            tables[entry.table] = entry.columns
        case BatchAdded():
            name = entry.entry.pipeline
            standing = unless_dropped(entry.entry)
            pipelines[name] = replace(pipelines[name], entry=standing, commit_id=entry.commit_id)
    return LogState(next_slot=state.next_slot + 1, pipelines=pipelines, tables=tables)


# JSON.


def entry_to_bytes(entry: Entry) -> bytes:
    """One line of JSON."""
    document: dict[str, Any]
    match entry:
        case Fence():
            document = {"pipeline": entry.pipeline, "generation": entry.generation, "driver": entry.driver}
        case TableColumns():
            document = {"table": entry.table, "columns": _table_to_json(entry.columns)}
        case BatchAdded():
            files = {
                table: [[file.name, file.rows, file.bytes] for file in added] for table, added in entry.files.items()
            }
            document = {"commit_id": entry.commit_id, "entry": entry_to_json(entry.entry), "files": files}
    return _line({"format_version": LOG_FORMAT_VERSION, "kind": _KINDS[type(entry)]} | document)


def entry_from_bytes(content: bytes, *, store: str) -> Entry:
    """The reverse of :func:`entry_to_bytes`.

    Raises:
        SchemaMismatchError: the entry is of a newer format, or is no entry.
    """
    with _readable(store):
        document = _document(content, store=store)
        match document["kind"]:
            case "fence":
                values = {name: document[name] for name in ("pipeline", "generation", "driver")}
                return check_fields(Fence(**values))
            case "columns":
                return check_fields(
                    TableColumns(table=document["table"], columns=_table_from_json(document["columns"]))
                )
            case "batch":
                files = {
                    table: tuple(check_fields(DataFile(name=name, rows=rows, bytes=size)) for name, rows, size in added)
                    for table, added in document["files"].items()
                }
                entry = check_format(entry_from_json(document["entry"]), store=store)
                return check_fields(BatchAdded(commit_id=document["commit_id"], entry=entry, files=files))
    raise SchemaMismatchError(store=store, sink="the log", detail=f"unknown kind of entry {document['kind']!r}")


def state_to_bytes(state: LogState) -> bytes:
    """A checkpoint: one line of JSON, the same for everyone who folds the same entries."""
    pipelines = {name: state_to_json(pipeline) for name, pipeline in state.pipelines.items()}
    tables = {name: _table_to_json(table) for name, table in state.tables.items()}
    return _line(
        {
            "format_version": LOG_FORMAT_VERSION,
            "kind": "state",
            "next_slot": state.next_slot,
            "pipelines": pipelines,
            "tables": tables,
        }
    )


def state_from_bytes(content: bytes, *, store: str) -> LogState:
    """The reverse of :func:`state_to_bytes`.

    Raises:
        SchemaMismatchError: the checkpoint is of a newer format.
    """
    with _readable(store):
        document = _document(content, store=store)
        pipelines = {name: state_from_json(state, store=store) for name, state in document["pipelines"].items()}
        tables = {name: _table_from_json(table) for name, table in document["tables"].items()}
        return check_fields(LogState(next_slot=document["next_slot"], pipelines=pipelines, tables=tables))


@contextmanager
def _readable(store: str) -> Iterator[None]:
    """Whatever is wrong with a document is an error that says so: another program may have written the file."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        detail = f"an entry cannot be read ({type(error).__name__}: {error}); restore it from a backup"
        raise SchemaMismatchError(store=store, sink="the log", detail=detail) from error


_KINDS: Final[dict[type, str]] = {Fence: "fence", TableColumns: "columns", BatchAdded: "batch"}


def _line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def _document(content: bytes, *, store: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(content)
    version = document["format_version"]
    if version > LOG_FORMAT_VERSION:
        raise SchemaMismatchError(
            store=store,
            sink="the log",
            detail=f"format version {version} is newer than this program's {LOG_FORMAT_VERSION}; run the version of "
            "directkafka that wrote it, or a later one",
        )
    return document


def _table_to_json(table: TableState) -> dict[str, Any]:
    """The schema as Arrow writes it; names and types beside it are for people."""
    return {
        "format": table.format,
        "schema": base64.b64encode(table.schema.serialize().to_pybytes()).decode(),
        "described": {field.name: str(field.type) for field in table.schema},
    }


def _table_from_json(document: Mapping[str, Any]) -> TableState:
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(document["schema"])))
    except OSError as error:  # Arrow's word for bytes that end too early
        raise ValueError(f"its schema cannot be read: {error}") from error
    return check_fields(TableState(format=document["format"], schema=schema))
