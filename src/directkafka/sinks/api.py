"""The ledger contract: what a place must do to be a store.

A store is a place that can commit atomically. It keeps one :class:`LedgerEntry` per pipeline, and changes the
entry and the rows of all its sinks in one transaction. The steps are those of ``docs/DESIGN.md``:

1. **fence**: take the pipeline over with a higher generation; committed by itself. From its return on, nothing
   of an older driver can be committed, even if that driver is stopped in the middle of its own commit.
2. **read** the entry, only after every store of the pipeline is fenced.
3. the tasks write rows where no reader sees them.
4. **commit** rows and entry in one transaction, which checks generation, batch id and stored ends first.

A call has three outcomes: it returned (done), it raised (not done), or the answer did not come. The store
turns the third into one of the first two by reading its own ledger; only when it cannot even do that it raises
:class:`~directkafka.errors.CommitUnknownError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, Self

from directkafka.errors import DirectKafkaError
from directkafka.offsets import PartitionProgress, TopicPartition
from directkafka.sinks.capabilities import SinkCapabilities, TableCount

if TYPE_CHECKING:
    import pyarrow as pa

    from directkafka.sinks.dead_letters.table import DeadLetterTable

#: Version of the ledger's format. A reader refuses a higher one.
FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """The state of one pipeline in one store, as of its last committed batch.

    Attributes:
        pipeline: the pipeline's name.
        generation: number of the driver that committed the batch; a higher one wins.
        lineage: what the batch ids count in: a UUID made with batch 0 (direct engine), or the checkpoint's id.
        batch_id: number of the batch, from 0. The direct engine's batch 0 has no rows.
        progress: one item per partition that the pipeline has ever read, sorted; not of topics that are deleted for
            good, of which ``total_rows`` has the number of offsets under :data:`directkafka.sinks.ledger.FORGOTTEN`.
        row_counts: rows of this batch by sink name; beside them the ids of the schemas that it was read with, under
            the keys :data:`directkafka.sinks.ledger.SCHEMA_IDS`, and the records that were set apart.
        total_rows: rows of all batches by sink name.
        committed_at_ms: when, in milliseconds since 1970 (the driver's clock).
        format_version: :data:`FORMAT_VERSION` of the program that wrote it.
    """

    pipeline: str
    generation: int
    lineage: str
    batch_id: int
    progress: tuple[PartitionProgress, ...]
    row_counts: Mapping[str, int] = field(default_factory=dict)
    total_rows: Mapping[str, int] = field(default_factory=dict)
    committed_at_ms: int = 0
    format_version: int = FORMAT_VERSION

    def ends(self) -> dict[TopicPartition, int]:
        """Where the next batch starts, by partition."""
        return {partition.topic_partition: partition.end for partition in self.progress}

    def by_partition(self) -> dict[TopicPartition, PartitionProgress]:
        """The progress by partition."""
        return {partition.topic_partition: partition for partition in self.progress}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAttempt:
    """Which try of which batch rows belong to; travels to the executors.

    Attributes:
        pipeline, generation, batch_id: as in :class:`LedgerEntry`.
        attempt: a UUID of this try of the batch, as hex; a redone batch has another one.
    """

    pipeline: str
    generation: int
    batch_id: int
    attempt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRows:
    """Rows in the bytes in which a store takes them, for example as data of Postgres' COPY.

    Attributes:
        row_count: how many they are.
        chunks: the bytes, in order. A commit that is tried again goes through them once more.
    """

    row_count: int
    chunks: Collection[bytes] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What one task attempt wrote, as told to the driver. Only a winning attempt's report arrives.

    Attributes:
        rows: number of rows the task's input had.
        attempt: a UUID of the task attempt, as hex; keys its rows in a staging area.
        staged: whether rows lie in the staging area.
        folded: how many of the rows a merge has added to others of the task; they are in neither place.
        inline: the rows themselves when they were few; the driver writes them. They can be gone through more than once,
            and may be unpacked anew each time.
        encoded: the same in the store's own bytes, so that the driver has only to send them; then ``inline`` is empty.
        payload: what the sink's ``apply`` needs beside, such as the names of the files that rows are in.
    """

    rows: int
    attempt: str
    staged: bool
    folded: int = 0
    inline: Collection[pa.RecordBatch] = ()
    encoded: EncodedRows | None = None
    payload: bytes = b""

    @property
    def held_count(self) -> int:
        """How many rows travel in the report."""
        return sum(int(batch.num_rows) for batch in self.inline) + (self.encoded.row_count if self.encoded else 0)


#: Consumes one task's rows, returns its report: on an executor, or on the driver where all rows of an output have come
#: to it. Must be picklable, must not import pyspark.
TaskWriter = Callable[[Iterator["pa.RecordBatch"]], TaskReport]

#: The column that a :class:`SecondPhase` adds to the rows: the number of the target that a row goes to.
TARGET = "directkafka_target"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondPhase:
    """How the rows of a large batch are written inside the store's transaction, once that is open.

    Each target has exactly one writing task: the rows of target t go to task ``t % writer_count``.

    Attributes:
        router: runs where the rows are, before they are shuffled: adds the column :data:`TARGET` (int32).
        claim_routing: runs at the end of a routing task, with the number of the partition it dealt, where Spark may
            run single tasks again while others of the same stage have written: it raises for every attempt but one.
        writer: runs after the shuffle, once per task: **a second attempt of a task must not run it**.
        writer_count: how many tasks.
        limit_ms: how long all of it may take, in milliseconds; then it is cancelled.
        too_slow: makes the error for that, on the driver.
    """

    router: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    claim_routing: Callable[[int], None]
    writer: TaskWriter
    writer_count: int
    limit_ms: int
    too_slow: Callable[[], DirectKafkaError]


class Store(ABC):
    """One place that can commit atomically, as held by one driver.

    Methods raise :class:`~directkafka.errors.StoreUnavailableError` when the store cannot be reached (the
    caller retries with backoff), :class:`~directkafka.errors.FencedError` when a newer driver owns the
    pipeline.
    """

    @property
    @abstractmethod
    def identity(self) -> str:
        """Server identity and database, however the address is spelt; without secrets."""

    @abstractmethod
    def fence(self, pipeline: str, *, generation: int | None = None) -> int:
        """Step 1. Take the pipeline over and return the generation held from now on.

        Args:
            pipeline: the pipeline's name.
            generation: the one to take, handed out by the pipeline's first store; None to be handed the next.

        Raises:
            FencedError: the ledger already has a generation >= the one given.
        """

    @abstractmethod
    def read(self, pipeline: str) -> LedgerEntry | None:
        """Step 2. The entry of the last committed batch; None when no batch was ever committed."""

    @abstractmethod
    def commit(
        self,
        entry: LedgerEntry,
        *,
        previous: LedgerEntry | None,
        writes: Sequence[tuple[Sink, BatchAttempt, Sequence[TaskReport]]] = (),
    ) -> LedgerEntry:
        """Step 4. Move the reported rows into place and set the entry, both or neither.

        Args:
            entry: the new entry; the store fills in the rows in ``row_counts`` and ``total_rows``.
            previous: the entry that must still stand: None when this is the pipeline's first batch.
            writes: per sink of this store, the batch's name and the reports of all its tasks.

        Returns:
            The entry as committed.

        Raises:
            FencedError, OffsetMismatchError: the ledger is not at ``previous`` under this generation.
            RowCountError: rows and reports differ; rolled back.
            RowRejectedError, SchemaMismatchError: the store refuses the rows; rolled back.
            CommitUnknownError: no answer came and the ledger could not be read since.
        """

    def rehearse(
        self,
        entry: LedgerEntry,
        *,
        previous: LedgerEntry | None,
        writes: Sequence[tuple[Sink, BatchAttempt, Sequence[TaskReport]]] = (),
    ) -> None:
        """Do all of :meth:`commit` but its end, and take it back: to find out which rows are refused.

        Raises:
            DirectKafkaError: what :meth:`commit` would raise.
            NotImplementedError: this store has no way to do that.
        """
        raise NotImplementedError(f"{self.identity} cannot take rows back")

    def pipelines(self) -> tuple[str, ...]:
        """Names of the pipelines that have committed here, sorted; no fence is needed, and nothing is changed."""
        raise NotImplementedError(f"{self.identity} cannot tell which pipelines it has")

    def force_durable(self) -> None:
        """Make every commit from now on survive a crash of the store once it is answered.

        Called before the fence when the pipeline has several stores: one that is ahead pins the ranges of the
        others, and what it lost in a crash, it could not pin. By default nothing: every commit does.
        """

    def heed(self, stop: Event) -> None:
        """Once this is set, end what waits for somebody else, such as an application's lock.

        What waits raises :class:`~directkafka.errors.StoreUnavailableError` then; what makes progress goes on, and
        nothing is left half done. By default nothing: no call waits for long.
        """

    @abstractmethod
    def close(self) -> None:
        """Give connections back. The fence stays."""


class Sink(ABC):
    """Rows of one output into one table (topic, directory) of one store.

    Methods that are not abstract have defaults: a sink overrides those that it has more to say about.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Unique within the store, for example ``public.flights``; the key of ``row_counts``."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The store whose transaction this sink writes in. Sinks whose stores have one identity share it."""

    @property
    def capabilities(self) -> SinkCapabilities:
        """What a pipeline may do with the sink; the same in every batch."""
        return SinkCapabilities()

    @property
    def target(self) -> str:
        """The table with server and database, the same however they are spelt; two sinks of a pipeline have two.

        Raises:
            StoreUnavailableError, StoreAccessError: the store must be asked, and does not answer.
        """
        return f"{self.store.identity}/{self.name}"

    def clone(self) -> Self | None:
        """Another sink with the same settings and a store object of its own; None where that cannot be made.

        See :class:`directkafka.sinks.wrapped_sink.Clonable`.
        """
        return None

    def dead_letters(self) -> DeadLetterTable | None:
        """The table, for a replay of the dead letters in it; None where rows cannot leave it in a transaction."""
        return None

    def json_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        """Names of nested columns for which the store has no type; they come as JSON texts, marked in the schema."""
        return ()

    def leave_alone(self, is_read: Callable[[str, Callable[[], str]], bool], *, pipeline: str) -> None:
        """Refuse from now on to write to topics that the pipeline reads; for sinks of topics.

        Args:
            is_read: whether it reads a topic; asked with the topic, and with what finds Kafka's id of its cluster.
            pipeline: the pipeline's name.
        """

    @abstractmethod
    def check(self, schema: pa.Schema) -> None:
        """Find what :meth:`prepare` would refuse, making and changing nothing.

        Raises:
            SchemaMismatchError, StoreAccessError: as :meth:`prepare`.
        """

    @abstractmethod
    def prepare(self, schema: pa.Schema) -> None:
        """Before the first batch: create the table if it is not there, and check columns, keys and rights.

        Raises:
            SchemaMismatchError: columns do not fit, or the mode's key lacks its unique index.
        """

    @abstractmethod
    def task_writer(self, batch: BatchAttempt, schema: pa.Schema, *, task_count: int = 1) -> TaskWriter:
        """What each task of this batch runs on its rows.

        Args:
            batch: which try of which batch.
            schema: of the rows, the one the sink was prepared with.
            task_count: about how many tasks will run it, so that a limit on the batch can be shared.
        """

    @abstractmethod
    def apply(self, transaction: Any, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        """Inside the store's transaction: move the reported rows into place; returns the number of rows.

        The number is that of the rows the tasks reported and the store has seen, before ``ignore`` or
        ``merge`` folded any into existing rows.
        """

    @abstractmethod
    def recount(self) -> TableCount:
        """What the table has now, outside any batch."""

    def needs_second_phase(self, reports: Sequence[TaskReport]) -> bool:
        """Whether the first job's reports leave rows to be written, by :meth:`second_phase`."""
        return False

    def second_phase(
        self, transaction: Any, batch: BatchAttempt, reports: Sequence[TaskReport], *, writers_max: int
    ) -> SecondPhase:
        """How to write the rows of a large batch in a second job, inside the store's transaction.

        The first job runs :meth:`task_writer` over the output, as for every sink. If its reports leave rows to be
        written, the store's transaction is opened, and the same rows go through this, whose reports take the place of
        the first ones. For sinks whose capabilities say so; their store is a :class:`TransactionalStore`.

        Args:
            transaction: from :meth:`TransactionalStore.begin`.
            batch: which try of which batch.
            reports: of the first job.
            writers_max: how many tasks can run at a time, at least 1; more than these are never run.

        Raises:
            SchemaMismatchError: a target is not there.
        """
        raise NotImplementedError(f"{self.name} writes no second phase")


class TransactionalStore(Store):
    """A store whose transaction can be open while tasks write into it."""

    @abstractmethod
    def begin(self, batch: BatchAttempt, sink: Sink) -> Any:
        """Open the transaction of this try of the batch, or join it; :meth:`commit` of the same try ends it.

        Called again for a sink that has begun in it, it aborts that transaction and opens another one: what was written
        counts for nothing.

        Raises:
            FencedError, StoreUnavailableError: nothing is open.
        """

    @abstractmethod
    def abort_with_cause(self, batch: BatchAttempt, cause: BaseException) -> None:
        """Abort the transaction after a failure, and say what the failure meant if that is more than ``cause`` says.

        Raises:
            FencedError: a newer driver's doing.
            StoreUnavailableError: the batch may be tried again.
        """

    @abstractmethod
    def abort(self, batch: BatchAttempt) -> None:
        """Abort the transaction of this try of the batch if it is open still, whatever ended the try.

        Never raises for a store that does not answer: it ends the transaction by itself after its timeout.
        """
