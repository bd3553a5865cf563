"""A store of one JSON file, the "book": the ledger, and a page of rows for each sink. A commit is one rename."""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field

from directkafka.errors import FencedError, SchemaMismatchError
from directkafka.sinks.api import BatchAttempt, LedgerEntry, TaskReport, TaskWriter
from directkafka.sinks.commit import LedgerStore, Write
from directkafka.sinks.config import SinkConfig, sink_config
from directkafka.sinks.ledger import PipelineState, TableCount, check_stands, state_from_json, state_to_json
from directkafka.sinks.staging import report_inline
from directkafka.sinks.wrapped_sink import Clonable


class JsonBookStore(LedgerStore[dict[str, Any]]):
    """The file. A transaction is what the file will hold."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = Path(path).resolve()
        self.label = f"json-book {self.path}"

    @property
    def identity(self) -> str:
        """Which book this is, however its path is spelt."""
        return self.label

    def read_book(self) -> dict[str, Any]:
        """What the file holds."""
        return dict(json.loads(self.path.read_text())) if self.path.exists() else {"ledger": {}, "pages": {}}

    @contextlib.contextmanager
    def locked(self) -> Iterator[dict[str, Any]]:
        """The same, while nobody else can replace it."""
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self.read_book()

    def write_book(self, book: dict[str, Any]) -> None:
        """All of it, or nothing."""
        self.path.with_suffix(".draft").write_text(json.dumps(book, default=str))
        self.path.with_suffix(".draft").rename(self.path)

    def state(self, pipeline: str, book: dict[str, Any] | None = None) -> PipelineState:
        """Step 2: who owns the pipeline, and its last batch."""
        stored_state = (book or self.read_book())["ledger"].get(pipeline)
        return state_from_json(stored_state, store=self.label) if stored_state else PipelineState()

    def fence(self, pipeline: str, *, generation: int | None = None) -> int:
        """Step 1."""
        with self.locked() as book:
            old = self.state(pipeline, book)
            taken = old.generation + 1 if generation is None else generation
            if taken < old.generation or (taken == old.generation and old.driver != self._driver):
                raise FencedError(store=self.label, pipeline=pipeline, held=taken, found=old.generation)
            book["ledger"][pipeline] = state_to_json(replace(old, generation=taken, driver=self._driver))
            self.write_book(book)
        self._held[pipeline] = taken
        return taken

    @contextlib.contextmanager
    def transaction(
        self, entry: LedgerEntry, previous: LedgerEntry | None, commit_id: str, writes: Sequence[Write]
    ) -> Iterator[dict[str, Any]]:
        """Begin."""
        with self.locked() as book:
            yield book | {"commit_id": commit_id}

    def advance(self, transaction: dict[str, Any], entry: LedgerEntry, previous: LedgerEntry | None) -> None:
        """The ledger must stand where this batch goes on."""
        check_stands(entry, previous, self.state(entry.pipeline, transaction), store=self.label)

    def end(self, transaction: dict[str, Any], committed: LedgerEntry) -> None:
        """Rows and entry at once."""
        commit_id, state = transaction.pop("commit_id"), self.state(committed.pipeline, transaction)
        transaction["ledger"][committed.pipeline] = state_to_json(replace(state, entry=committed, commit_id=commit_id))
        self.write_book(transaction)

    def close(self) -> None:
        """Nothing is open between two calls."""


@sink_config
class JsonBookConfig(SinkConfig):
    """A page of a book."""

    path: Annotated[str, Field(min_length=1, description="The file.")]
    page: Annotated[str, Field(min_length=1, description="The page that the rows are added to.")]


class JsonBookSink(JsonBookConfig, Clonable):
    """Rows as objects on one page of the book. They travel in the tasks' reports, so a batch must fit the driver."""

    def __post_init__(self) -> None:
        self._store = JsonBookStore(self.path)

    @property
    def name(self) -> str:
        """The page."""
        return self.page

    @property
    def store(self) -> JsonBookStore:
        """The book."""
        return self._store

    def check(self, schema: pa.Schema) -> None:
        """Rows of one page have the same columns."""
        given = dict(zip(schema.names, map(str, schema.types), strict=True))
        columns = self.store.read_book()["pages"].get(self.page, {"columns": given})["columns"]
        if other := dict(given.items() ^ columns.items()):
            raise SchemaMismatchError(store=self.store.label, sink=self.page, detail=f"page and DataFrame: {other}")

    def prepare(self, schema: pa.Schema) -> None:
        """Make the page."""
        self.check(schema)
        with self.store.locked() as book:
            columns = dict(zip(schema.names, map(str, schema.types), strict=True))
            book["pages"].setdefault(self.page, {"columns": columns, "rows": []})
            self.store.write_book(book)

    def task_writer(self, batch: BatchAttempt, schema: pa.Schema, *, task_count: int = 1) -> TaskWriter:
        """Must be picklable."""
        return hand_over

    def apply(self, transaction: dict[str, Any], batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        """Step 4's middle."""
        rows = [row for report in reports for rows in report.inline for row in rows.to_pylist()]
        transaction["pages"][self.page]["rows"] += rows
        return len(rows)

    def recount(self) -> TableCount:
        """For ``directkafka verify``."""
        return TableCount(rows=len(self.store.read_book()["pages"][self.page]["rows"]))


def hand_over(batches: Iterator[pa.RecordBatch]) -> TaskReport:
    """Consume a task's rows."""
    return report_inline(tuple(batch for batch in batches if batch.num_rows))
