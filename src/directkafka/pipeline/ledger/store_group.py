"""A pipeline's stores in the order in which they commit, with the entry each stands at; a sink belongs to one run.

A sink and its store are a driver's: they hold a fence, connections and perhaps an open transaction. Sequence of events
where two pipelines of a process have one sink object between them: the first begins its transaction, the second begins
its own on the same connection, which makes it a part of the first; the first commits, the second rolls back, and a
batch that was told to be committed has rows missing.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Final

from directkafka.errors import FencedError, LineageError, OffsetMismatchError, OptionError, StoreAccessError
from directkafka.fault_points import fault_point
from directkafka.pipeline.execution.rejection import DEAD_LETTERS
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.ledger.pause import paused_at_ms
from directkafka.pipeline.ledger.reconcile import Recovery, reconcile
from directkafka.pipeline.progress import TableRows
from directkafka.sinks.api import BatchAttempt, LedgerEntry, Sink, Store
from directkafka.sinks.ledger import sink_rows

if TYPE_CHECKING:
    from directkafka.pipeline.execution.batch_writer import RangesWriter

_released: Final = threading.Condition()

#: How long a pipeline waits for its own last run to end, in seconds. A query that has ended is told to its user before
#: its connections are given back, and he may start it again at once.
_OWN_RUN_S: Final = 10.0

#: How often stores that differ are looked at without a fence, and how far apart, in seconds.
_LOOKS_MAX: Final = 5
_LOOK_AGAIN_S: Final = 0.5

#: Who has which object, by its address. A claim that nobody holds any more is none; one that is held keeps its objects
#: alive, so that no other object gets their address.
_taken: Final[weakref.WeakValueDictionary[int, Claim]] = weakref.WeakValueDictionary()


class Claim:
    """What one run of a pipeline has for itself.

    Args:
        pipeline: its name.
    """

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._objects: list[object] = []

    def take(self, objects: Iterable[object]) -> None:
        """Claim all of them, or none. What this claim has already, it keeps.

        Raises:
            OptionError: another run has one of them.
        """
        wanted = list(objects)
        with _released:
            _released.wait_for(lambda: not self._own_run_has(wanted), timeout=_OWN_RUN_S)
            for member in wanted:
                other = self._other(member)
                if other is not None:
                    raise OptionError(
                        option="sinks",
                        where=f"pipeline {self._pipeline!r}",
                        reason=f"{member!r} is in use by pipeline {other._pipeline!r} of this process, and a sink "
                        "belongs to one pipeline; make another one with the same arguments, or stop that one first",
                    )
            for member in wanted:
                _taken[id(member)] = self
            self._objects += wanted

    def release(self) -> None:
        """Let others have them."""
        with _released:
            for member in self._objects:
                if _taken.get(id(member)) is self:
                    del _taken[id(member)]
            self._objects.clear()
            _released.notify_all()

    def _other(self, member: object) -> Claim | None:
        """The run that has it, if it is not this one."""
        other = _taken.get(id(member))
        return None if other is self else other

    def _own_run_has(self, wanted: Iterable[object]) -> bool:
        """Whether what is wanted is with another run of the same pipeline."""
        others = [self._other(member) for member in wanted]
        return any(other is not None and other._pipeline == self._pipeline for other in others)


log = logging.getLogger("directkafka.pipeline")


@dataclass(slots=True)
class Ledger:
    """One store, what this driver holds of it, and the entry it stands at."""

    store: Store
    generation: int | None = None
    entry: LedgerEntry | None = None
    sinks: set[str] = field(default_factory=set)


class Ledgers:
    """Fences and reads all stores of one pipeline.

    Args:
        pipeline: the pipeline's name.
        routes: the sinks; those whose stores have one identity share the first one's transaction.
        stop: once it is set, a store that waits for somebody else's lock gives up.
    """

    def __init__(self, pipeline: str, routes: Sequence[Route], *, stop: Event | None = None) -> None:
        self._pipeline = pipeline
        self._routes = routes
        self._stop = stop
        self._ledgers: list[Ledger] = []
        #: All store objects that were asked for anything. Of those for one place only the first one commits.
        self._opened: dict[int, Store] = {}
        self._claim = Claim(pipeline)

    @property
    def generation(self) -> int:
        """The generation held, once :meth:`fence` returned."""
        generation = self._ledgers[0].generation
        assert generation is not None, "fence() comes first"
        return generation

    @property
    def entry(self) -> LedgerEntry:
        """The entry that all stores stand at."""
        entry = self._ledgers[0].entry
        assert entry is not None, "batch 0 is committed before anything is planned"
        return entry

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """All sinks of the pipeline."""
        return tuple(route.sink for route in self._routes)

    @property
    def identities(self) -> tuple[str, ...]:
        """The stores' identities, in the order in which they commit."""
        return tuple(ledger.store.identity for ledger in self._ledgers)

    def sinks_of(self, ledger: Ledger) -> tuple[Sink, ...]:
        """The pipeline's sinks that commit with this store."""
        return tuple(sink for sink in self.sinks if sink.store.identity == ledger.store.identity)

    @property
    def first(self) -> Store:
        """The store that commits first."""
        return self._ledgers[0].store

    def identities_of(self, indexes: Iterable[int]) -> tuple[str, ...]:
        """The identities of these stores."""
        return tuple(self._ledgers[index].store.identity for index in sorted(indexes))

    @property
    def entries(self) -> tuple[LedgerEntry | None, ...]:
        """What each store stands at, as it was last read or committed."""
        return tuple(ledger.entry for ledger in self._ledgers)

    def one_has(self, batch: BatchAttempt) -> bool:
        """Whether a store has committed the batch, by this try or another one."""
        return any(entry is not None and entry.batch_id == batch.batch_id for entry in self.entries)

    def row_counts(self) -> dict[str, int]:
        """Rows of the last batch by sink name."""
        counts: dict[str, int] = {}
        for ledger in self._ledgers:
            if ledger.entry is not None:
                for sink, rows in sink_rows(ledger.entry).items():
                    counts[sink] = counts.get(sink, 0) + rows
        return counts

    def table_rows(self) -> tuple[TableRows, ...]:
        """Rows of the last batch by store and table."""
        places = [route.sink for route in self._routes if route.output == DEAD_LETTERS]
        dead_letters = {(sink.store.identity, sink.name) for sink in places}
        return tuple(
            TableRows(
                store=ledger.store.identity,
                table=table,
                row_count=rows,
                is_of_dead_letters=(ledger.store.identity, table) in dead_letters,
            )
            for ledger in self._ledgers
            if ledger.entry is not None
            for table, rows in sink_rows(ledger.entry).items()
        )

    def take_over(self, writer: RangesWriter) -> tuple[str, ...]:
        """Steps 0 and 1 of every engine: whoever cannot run ends before he fences, and disturbs no older driver.

        Args:
            writer: compiles the transform and looks at the tables, and makes what is not there once it may.

        Returns:
            Remarks on the transform for the user.

        Raises:
            FencedError: a newer driver owns the pipeline.
            DirectKafkaError: what is wrong with transform, tables or stores.
        """
        self.claim()
        self.connect()
        remarks = writer.check()
        fault_point("fence.before")
        self.fence()
        fault_point("fence.done")
        writer.prepare()
        return remarks

    def claim(self) -> None:
        """Have the sinks and their stores for this run alone, until :meth:`close`.

        Raises:
            OptionError: another run in this process has one of them.
        """
        self._claim.take(member for route in self._routes for member in (route.sink, route.sink.store))

    def connect(self) -> None:
        """Ask the stores who they are, and make one of those that are the same. Once; a second call does nothing.

        Raises:
            StoreUnavailableError, StoreAccessError: a store does not answer.
            OptionError: two sinks write one table.
        """
        if self._ledgers:
            return
        try:
            self._ledgers = self._connected()
        except BaseException:
            # Its server may have been started again, and has another identity then: at the next try all are asked.
            self._close_stores()
            raise

    def _connected(self) -> list[Ledger]:
        ledgers: dict[str, Ledger] = {}
        targets: dict[str, str] = {}
        for route in self._routes:
            store, sink = route.sink.store, route.sink.name
            self._opened[id(store)] = store
            if self._stop is not None:
                store.heed(self._stop)
            ledger = ledgers.setdefault(store.identity, Ledger(store))
            # Counts of rows are kept by name; and two names may stand for one table, here or in two stores.
            target = route.sink.target
            if sink in ledger.sinks or target in targets:
                raise OptionError(option="sink", reason=_collision(sink, targets.get(target, sink), store))
            ledger.sinks.add(sink)
            targets[target] = sink
        if len(ledgers) > 1:
            for ledger in ledgers.values():
                ledger.store.force_durable()
        return list(ledgers.values())

    def fence(self) -> None:
        """Step 1. Take over every store, in the order listed; the first hands out the generation.

        A store that is fenced already is not fenced again when the step is tried again after a failure: that
        would take a higher generation, and the pipeline from a newer driver that came in between.

        Raises:
            FencedError: a newer driver owns the pipeline.
            OptionError: another run in this process has one of the sinks.
        """
        self.claim()
        first, *others = self._ledgers
        if first.generation is None:
            first.generation = self._fence_first(first.store, [ledger.store for ledger in others])
        # Each store can raise the generation once; more than that is another driver's doing.
        fenced: FencedError | None = None
        for _ in self._ledgers:
            try:
                for ledger in others:
                    if ledger.generation is None:
                        ledger.generation = ledger.store.fence(self._pipeline, generation=first.generation)
                return
            except FencedError as error:
                fenced = error
                # A store may have seen higher generations than the first one: that was made anew, restored, or put
                # before it. Only if nobody else owns the first one, since then a newer driver is at work.
                first.store.read(self._pipeline)
                first.generation = first.store.fence(self._pipeline, generation=error.found + 1)
                for ledger in others:
                    ledger.generation = None
        assert fenced is not None, "a round without an error returns"
        raise fenced

    def _fence_first(self, first: Store, others: Sequence[Store]) -> int:
        """A generation above what every store has seen, even if the first one is new to the pipeline."""
        entries = [store.read(self._pipeline) for store in others]
        known = max((entry.generation for entry in entries if entry is not None), default=0)
        generation = first.fence(self._pipeline)
        return generation if generation > known else first.fence(self._pipeline, generation=known + 1)

    def peek(self) -> Recovery:
        """What :meth:`read` would find, without a fence: for a look that must not disturb a running driver.

        A running driver commits to one store after the other, and they are read here one after the other. So they may
        differ for a moment. Then all are read again: until they agree, until two reads are the same, or five times.

        Raises:
            LineageError, OffsetMismatchError: as for :meth:`read`.
        """
        looks_left, before = _LOOKS_MAX if len(self._ledgers) > 1 else 1, None
        while True:
            self.read_each()
            looks_left -= 1
            stands = looks_left == 0 or self.entries == before
            try:
                recovery = self._reconciled()
                if stands or not (recovery.behind or recovery.lacking_reset):
                    return recovery
            except (LineageError, OffsetMismatchError):
                if stands:
                    raise
            before = self.entries
            time.sleep(_LOOK_AGAIN_S)

    def waiting(self) -> tuple[str, ...]:
        """Remarks for the user on what the next start will meet; looked at without a fence, as by :meth:`peek`.

        Raises:
            LineageError, OffsetMismatchError: as for :meth:`read`.
        """
        remarks = []
        if self.peek().lacking_reset:
            remarks.append("a reset was ended between two stores: the next start, or directkafka reset, finishes it")
        # In Kafka a pause is a topic, which a user may have no right to look at.
        with suppress(StoreAccessError):
            if paused_at_ms(self.first, self._pipeline) is not None:
                remarks.append("the pipeline is paused: it begins no batch before directkafka resume")
        return tuple(remarks)

    def read(self) -> Recovery:
        """Step 2. Read every store, and compare them.

        Raises:
            FencedError: a newer driver has fenced a store since.
            LineageError, OffsetMismatchError: the stores have no common history.
        """
        self.read_each()
        fault_point("ledger.read")
        return self._reconciled()

    def read_each(self) -> None:
        """Read every store, whatever the others say.

        Raises:
            FencedError: a newer driver has fenced a store since.
        """
        for ledger in self._ledgers:
            ledger.entry = ledger.store.read(self._pipeline)

    def known(self) -> list[tuple[Ledger, LedgerEntry]]:
        """Each store that has an entry, with the entry, as it was last read or committed."""
        return [(ledger, ledger.entry) for ledger in self._ledgers if ledger.entry is not None]

    def _reconciled(self) -> Recovery:
        return reconcile([(ledger.store.identity, ledger.entry) for ledger in self._ledgers])

    def lacking(self, only: Iterable[int] | None) -> list[Ledger]:
        """The stores with these indexes, in the order in which they commit; all of them for None."""
        return [self._ledgers[index] for index in (range(len(self._ledgers)) if only is None else sorted(only))]

    def close(self) -> None:
        """Give every connection back."""
        self._close_stores()
        self._claim.release()

    def _close_stores(self) -> None:
        """A store that cannot even be closed must not hide what ended the run."""
        for store in self._opened.values():
            try:
                store.close()
            except Exception as error:  # noqa: BLE001 - said, and of no consequence: the fence is in the store
                log.warning("%s: closing %r failed: %s", self._pipeline, store, error)
        self._opened.clear()


def _collision(sink: str, other: str, store: Store) -> str:
    named = sink if other == sink else f"{sink}, which is {other} under another name,"
    return f"two sinks write {named} of {store.identity}; make one output of the two, with UNION ALL"
