"""A reset of a pipeline to other offsets, as numbered steps, without Spark.

::

    0. plan, changing nothing: where it would go on, and what that loses or doubles; refuse what cannot be right
    1. fence all stores, in the order listed: a driver that is at work can commit nothing any more
    2. read the ledgers, only after all are fenced
       a store lacks a reset that another has:   finish it, and do nothing else
       plan again: the driver may have gone on meanwhile
    4. commit store by store, each in one transaction: an entry that says where to go on, and, where that was asked for,
       the deletion of the rows of all records that will be read again

(Step 3 is a batch's: a reset writes no rows.) Killed before the first commit it has changed nothing but the generation.
Killed between two commits it is finished by the next driver, or by the next reset.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Final

from directkafka.errors import LineageError, OptionError
from directkafka.fault_points import fault_point
from directkafka.offsets import OffsetRange, PartitionProgress, TopicPartition
from directkafka.operations.offsets import until_current
from directkafka.operations.pipelines import has_driver
from directkafka.operations.positions import next_offsets
from directkafka.operations.records_in_log import RecordsInLog, records_in_log
from directkafka.operations.reset_changes import StoreChange, check_topics, topics_made_again
from directkafka.operations.reset_effects import Effect, TableEffect, effects_of
from directkafka.options.source import SourceOptions
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.file import replay_name
from directkafka.pipeline.ledger.commit_session import CommitSession
from directkafka.pipeline.ledger.reconcile import Recovery
from directkafka.pipeline.ledger.reset_entry import reset_entry
from directkafka.pipeline.ledger.store_group import Ledger, Ledgers
from directkafka.planning.plan import PlanPolicy, plan_origin
from directkafka.planning.reset_target import ResetTo, RowsPolicy, TopicChoice, chosen_partitions, only, reset_positions
from directkafka.sinks.api import LedgerEntry, Sink
from directkafka.sinks.record_rows import RecordRows
from directkafka.snapshot import ClusterSnapshot
from directkafka.spark.source_cluster import SourceCluster

#: Seconds between the two looks at the cluster.
_SECOND_LOOK_S: Final = 1.0

_HALF_DONE: Final = (
    "an earlier reset was ended between two stores. This command only finishes that one; what it asks for is not done: "
    "run it again afterwards"
)


def _made_again(topic: str) -> str:
    return (
        f"topic {topic} was made again since the pipeline has read it. The rows of its former records stay, and a sink "
        "whose key is topic, partition and offset takes new records for the former ones of the same offsets: ignore "
        "leaves them out, upsert and merge change the former ones' rows"
    )


def checkpoint_remark(checkpoint: str, file: str) -> str:
    """What is left to be done under the structured engine, whose checkpoint has the offsets too.

    Args:
        checkpoint: its folder.
        file: the pipeline file.
    """
    return (
        f"the checkpoint {checkpoint} will still say where the pipeline was: name an empty folder in "
        f"its place in {file}, then run directkafka restart {file} --from ledger --yes; windows begin anew"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRequest:
    """What is asked for.

    Attributes:
        to: where the pipeline is to go on.
        topics: which partitions; empty for all.
        rows: what becomes of the rows of records that are read again. None: they are kept; or, if a half-done reset is
            finished, what that one does.
    """

    to: ResetTo
    topics: tuple[TopicChoice, ...] = ()
    rows: RowsPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOutcome:
    """A reset, planned or done.

    Attributes:
        offsets: the next offset of each partition that is reset.
        effects: what becomes of each partition in each table.
        remarks: what the user should know beside.
        changes_something: False if the pipeline is at these offsets already.
    """

    offsets: Mapping[TopicPartition, int]
    effects: tuple[TableEffect, ...]
    remarks: tuple[str, ...]
    changes_something: bool


class Reset:
    """One reset of one pipeline.

    Args:
        pipeline: its name.
        source: its source.
        routes: its sinks.
        request: what is asked for.
        only_known_topics: refuse topics that are not those which the pipeline has read, by Kafka's ids. For a source
            that its user did not write: the brokers may be those of another cluster, with topics of the same names.
    """

    def __init__(
        self,
        pipeline: str,
        source: SourceOptions,
        routes: Sequence[Route],
        request: ResetRequest,
        *,
        only_known_topics: bool = False,
    ) -> None:
        self._pipeline = pipeline
        self._source = source
        self._routes = tuple(routes)
        self._request = request
        self._only_known_topics = only_known_topics

    def plan(self) -> ResetOutcome:
        """Step 0 alone; safe while the pipeline runs.

        Raises:
            OptionError: the reset cannot be right; says what to do instead.
            LineageError: the pipeline has never run, or its stores have no common history.
            DirectKafkaError: Kafka or a store does not answer.
        """
        with self._opened() as (cluster, ledgers):
            ledgers.connect()
            return until_current(lambda: self._planned(cluster, ledgers, ledgers.peek())).outcome

    def run(self) -> ResetOutcome:
        """All steps. Does nothing if nothing would change. If a reset is half done, it only finishes that one.

        Raises:
            FencedError: a newer driver, or another reset, came in between. Either nothing is changed, or the first
                stores are reset and the newer one resets the others.
            DirectKafkaError: as :meth:`plan`; or a store failed in its commit, and then the next start of the pipeline,
                or another reset, finishes what the first stores have.
        """
        with self._opened() as (cluster, ledgers):
            ledgers.claim()
            ledgers.connect()
            before = until_current(lambda: self._planned(cluster, ledgers, ledgers.peek()))
            if not before.outcome.changes_something:
                return before.outcome
            fault_point("fence.before")
            ledgers.fence()
            self._fence_replays(ledgers)
            fault_point("fence.done")
            session = CommitSession(self._pipeline, ledgers)
            recovery = ledgers.read()
            after = until_current(lambda: self._planned(cluster, ledgers, recovery, known=before.in_log))
            if recovery.lacking_reset:
                session.finish_reset(replace(recovery, rows=self._request.rows or recovery.rows))
                return after.outcome
            if recovery.behind and not before.stores_differ:
                raise OptionError(
                    option="--yes",
                    reason="the fence has stopped a driver after some stores had its last batch and others not; "
                    "nothing is reset. Start the pipeline, let it finish that batch, stop it, then reset it",
                )
            fault_point("reset.planned")
            entry = after.entry
            session.reset(
                session.entry(entry.batch_id, entry.lineage, entry.progress, not_before_ms=entry.committed_at_ms),
                self._request.rows or RowsPolicy.KEEP,
            )
            return after.outcome

    @contextmanager
    def _opened(self) -> Iterator[tuple[SourceCluster, Ledgers]]:
        """The cluster, and the stores that have an entry; one without joins when the pipeline runs next.

        Raises:
            LineageError: there is none.
        """
        with ExitStack() as ending:
            for route in self._routes:
                ending.callback(route.sink.store.close)
            known = [route for route in self._routes if route.sink.store.read(self._pipeline) is not None]
            if not known:
                raise self._no_entry()
            for route in known:
                # A right that is missing is told before the fence, which stops the pipeline.
                route.sink.store.read(replay_name(self._pipeline))
            cluster = ending.enter_context(closing(SourceCluster(self._source)))
            yield cluster, ending.enter_context(closing(Ledgers(self._pipeline, known)))

    def _no_entry(self) -> LineageError:
        return LineageError(
            store=", ".join({route.sink.store.identity: None for route in self._routes}),
            pipeline=self._pipeline,
            expected="an entry",
            found="none",
            remedy="The pipeline never ran, or was dropped: where it begins is what startingOffsets says.",
        )

    def _fence_replays(self, ledgers: Ledgers) -> None:
        """End a replay that is at work: it would write rows of dead letters whose records are read again.

        The first one of a pipeline may have fenced its stores, and have committed nothing yet.
        """
        name = replay_name(self._pipeline)
        for ledger, _ in ledgers.known():
            if has_driver(ledger.store, name):
                ledger.store.fence(name)

    def _planned(
        self,
        cluster: SourceCluster,
        ledgers: Ledgers,
        recovery: Recovery,
        *,
        known: Mapping[OffsetRange, RecordsInLog] | None = None,
    ) -> _Plan:
        """What would be done now; ``known`` is from the plan before."""
        ahead, ledgers_and_entries = recovery.ahead, ledgers.known()
        if ahead is None:
            # Dropped since it was looked at.
            raise self._no_entry()
        entries = [own for _, own in ledgers_and_entries]
        snapshot = self._snapshot(cluster, entries)
        if self._only_known_topics:
            check_topics(entries, snapshot)
        if recovery.lacking_reset:
            starts, entry, rows = ahead.by_partition(), ahead, self._request.rows or recovery.rows
            remarks = [_HALF_DONE]
        else:
            starts, remarks = self._starts(cluster, snapshot, entries)
            rows = self._request.rows or RowsPolicy.KEEP
            entry = reset_entry(ahead, starts, rows)
            self._check_same_ends(ledgers_and_entries, recovery, starts)
        missing = sorted({partition for own in entries for partition in own.ends()} - snapshot.partitions.keys())
        remarks += [f"{partition}: Kafka has no such partition now; its offset is not changed" for partition in missing]
        made_again = topics_made_again(entries, starts, snapshot)
        remarks += [_made_again(topic) for topic in made_again]
        changes = [StoreChange.of(ledger, own, entry, starts, snapshot) for ledger, own in ledgers_and_entries]
        in_log: dict[OffsetRange, RecordsInLog] = {}
        # Of one store after the other, each of which has one range of a partition at most.
        for change in changes:
            in_log |= records_in_log(cluster, snapshot, [each for each in change.ranges if each not in in_log], known)
        effects = [
            effect
            for change in changes
            for sink in ledgers.sinks_of(change.ledger)
            for effect in self._effects(change, sink, rows, in_log)
        ]
        offsets = {partition: progress.end for partition, progress in sorted(starts.items())}
        changes_something = (
            bool(recovery.lacking_reset or recovery.behind)
            or any(own.ends().get(partition) != end for own in entries for partition, end in offsets.items())
            or any(change.ranges for change in changes)
            or bool(made_again)
        )
        outcome = ResetOutcome(
            offsets=offsets, effects=tuple(effects), remarks=tuple(remarks), changes_something=changes_something
        )
        return _Plan(outcome=outcome, entry=entry, in_log=in_log, stores_differ=bool(recovery.behind))

    def _snapshot(self, cluster: SourceCluster, entries: Sequence[LedgerEntry]) -> ClusterSnapshot:
        """The cluster now; asked again if it shows less than was read, since the first answer may be an old one."""
        snapshot = cluster.snapshot(fresh=True)
        lasts = {partition: end for own in entries for partition, end in own.ends().items()}
        seen = {partition: snapshot.partitions.get(partition) for partition in lasts}
        if any(
            partition_snapshot is None or partition_snapshot.latest < lasts[partition]
            for partition, partition_snapshot in seen.items()
        ):
            time.sleep(_SECOND_LOOK_S)
            snapshot = cluster.snapshot(fresh=True)
        return snapshot

    def _starts(
        self, cluster: SourceCluster, snapshot: ClusterSnapshot, entries: Sequence[LedgerEntry]
    ) -> tuple[dict[TopicPartition, PartitionProgress], list[str]]:
        """Where the partitions that are reset go on, and what could not be had as it was asked for."""
        chosen = chosen_partitions(self._request.topics, self._request.to, snapshot)
        of_chosen = only(snapshot, chosen)
        positions = reset_positions(self._request.to, chosen, next_offsets(entries, snapshot), of_chosen)
        policy = replace(PlanPolicy.of(self._source), fail_on_data_loss=False)
        origin = plan_origin(positions, of_chosen, cluster.lookups(positions, of_chosen), policy)
        return (
            {progress.topic_partition: progress for progress in origin.progress},
            [f"{loss.topic_partition}: {loss.detail}; the nearest offset is taken" for loss in origin.losses],
        )

    def _check_same_ends(
        self,
        ledgers_and_entries: Sequence[tuple[Ledger, LedgerEntry]],
        recovery: Recovery,
        starts: Mapping[TopicPartition, PartitionProgress],
    ) -> None:
        """Refuse a partial reset of stores that are one batch apart, unless it is of all in which they differ."""
        if not recovery.behind:
            return
        ends = [own.ends() for _, own in ledgers_and_entries]
        differing = sorted(
            partition
            for partition in {*ends[0]}.union(*ends)
            if partition not in starts and len({own.get(partition) for own in ends}) > 1
        )
        if differing:
            raise OptionError(
                option="--topic",
                reason=f"the pipeline's stores are one batch apart in {', '.join(map(str, differing[:5]))}: start the "
                "pipeline once, so that it does the batch again where it is missing, or reset these partitions as well",
            )

    def _effects(
        self, change: StoreChange, sink: Sink, rows: RowsPolicy, in_log: Mapping[OffsetRange, RecordsInLog]
    ) -> list[TableEffect]:
        table = RecordRows.of(sink)
        effect = Effect.of(sink, table, rows, is_rewound=bool(change.again))
        effects = effects_of(sink, table, effect, skipped=change.skipped, again=change.again, in_log=in_log)
        deleted = sum(each.rows or 0 for each in effects if each.effect is Effect.DELETED)
        if deleted:
            replayed = change.ledger.store.read(replay_name(self._pipeline))
            entries = [change.own] if replayed is None else [change.own, replayed]
            written = sum(entry.total_rows.get(sink.name, 0) for entry in entries)
            if deleted > written:
                raise OptionError(
                    option="--rows",
                    reason=f"{sink.name} has {deleted:,} rows of these records, and the pipeline has written "
                    f"{written:,} in all: others write to the table too, and their rows would be deleted",
                )
        return effects


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """A reset as it would be done now.

    Attributes:
        outcome: for the user.
        entry: for the stores.
        in_log: what the log has of the ranges.
        stores_differ: whether they are one batch apart.
    """

    outcome: ResetOutcome
    entry: LedgerEntry
    in_log: Mapping[OffsetRange, RecordsInLog]
    stores_differ: bool
