"""A reset of a pipeline to other offsets, as numbered steps, without Spark.

::

    0. plan, changing nothing: where it would go on, and what that loses or doubles; refuse what cannot be right
    1. fence all stores, in the order listed: a driver that is at work can commit nothing any more
    2. read the ledgers, only after all are fenced
       one store has a reset that others lack:   that one is finished first
       plan again: the driver may have gone on meanwhile
    4. commit store by store, each in one transaction: an entry that says where to go on, and, where that was asked for,
       the deletion of the rows of all records that will be read again

(Step 3 is a batch's: a reset writes no rows.) Killed before the first commit it has changed nothing but the generation.
Killed between two commits it is finished by the next driver, or by the next reset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from directkafka.errors import LineageError, OptionError
from directkafka.fault_points import fault_point
from directkafka.offsets import OffsetRange, PartitionProgress, TopicPartition
from directkafka.operations.positions import next_offsets
from directkafka.operations.reset_effects import Effect, TableEffect, effects_of
from directkafka.options.source import SourceOptions
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.ledger.commit_session import CommitSession
from directkafka.pipeline.ledger.reconcile import Recovery
from directkafka.pipeline.ledger.reset import changed_ranges, entry_of_store, is_passed_over, reset_entry
from directkafka.pipeline.ledger.store_group import Ledger, Ledgers
from directkafka.planning.plan import PlanPolicy, plan_origin
from directkafka.planning.reset import ResetTo, RowsPolicy, TopicChoice, chosen_partitions, only, reset_positions
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.record_rows import RecordRows
from directkafka.snapshot import ClusterSnapshot
from directkafka.spark.source_cluster import SourceCluster

#: Timestamps of the first record of each range and of its last one.
TimesOf = Callable[[Sequence[OffsetRange]], Mapping[OffsetRange, tuple[int | None, int | None]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRequest:
    """What is asked for.

    Attributes:
        to: where the pipeline is to go on.
        topics: which partitions; all that it reads where it is empty.
        rows: what becomes of the rows of records that are read again.
    """

    to: ResetTo
    topics: tuple[TopicChoice, ...] = ()
    rows: RowsPolicy = RowsPolicy.KEEP


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOutcome:
    """A reset, planned or done.

    Attributes:
        offsets: the next offset of each partition that is reset.
        effects: what becomes of each partition in each table.
        remarks: what the user should know beside.
    """

    offsets: Mapping[TopicPartition, int]
    effects: tuple[TableEffect, ...]
    remarks: tuple[str, ...]


class Reset:
    """One reset of one pipeline.

    Args:
        pipeline: its name.
        source: its source.
        routes: its sinks.
        request: what is asked for.
    """

    def __init__(self, pipeline: str, source: SourceOptions, routes: Sequence[Route], request: ResetRequest) -> None:
        self._pipeline = pipeline
        self._source = source
        self._routes = tuple(routes)
        self._request = request

    def plan(self) -> ResetOutcome:
        """Step 0 alone; safe while the pipeline runs.

        Raises:
            OptionError: the reset cannot be right; says what to do instead.
            LineageError: the pipeline has never run, or its stores have no common history.
            DirectKafkaError: Kafka or a store does not answer.
        """
        with closing(SourceCluster(self._source)) as cluster, closing(Ledgers(self._pipeline, self._routes)) as ledgers:
            ledgers.connect()
            return self._planned(cluster, ledgers, ledgers.peek())[0]

    def run(self) -> ResetOutcome:
        """All steps.

        Raises:
            FencedError: a newer driver, or another reset, came in between: nothing is changed, or only what its
                first stores had committed, which that one finishes.
            DirectKafkaError: as :meth:`plan`; or a store failed in its commit, and then the next start of the pipeline,
                or another reset, finishes what the first stores have.
        """
        with closing(SourceCluster(self._source)) as cluster, closing(Ledgers(self._pipeline, self._routes)) as ledgers:
            ledgers.claim()
            ledgers.connect()
            self._planned(cluster, ledgers, ledgers.peek())
            fault_point("fence.before")
            ledgers.fence()
            fault_point("fence.done")
            session = CommitSession(self._pipeline, ledgers)
            recovery = ledgers.read()
            if recovery.not_reset:
                session.finish_reset(recovery)
                recovery = ledgers.read()
            outcome, entry = self._planned(cluster, ledgers, recovery)
            fault_point("reset.planned")
            session.reset(
                session.entry(entry.batch_id, entry.lineage, entry.progress, not_before_ms=entry.committed_at_ms),
                self._request.rows,
            )
            return outcome

    def _planned(
        self, cluster: SourceCluster, ledgers: Ledgers, recovery: Recovery
    ) -> tuple[ResetOutcome, LedgerEntry]:
        ahead = recovery.ahead
        if ahead is None:
            raise LineageError(
                store=", ".join(ledgers.identities),
                pipeline=self._pipeline,
                expected="an entry",
                found="none",
                remedy="The pipeline never ran: where it begins is what startingOffsets says.",
            )
        found = ledgers.each()
        snapshot = cluster.snapshot(fresh=True)
        starts, remarks = self._starts(cluster, snapshot, [entry for _, entry in found])
        entry = reset_entry(ahead, starts, self._request.rows)
        self._check_same_ends(found, recovery, starts)
        times_of = partial(_times, cluster, snapshot)
        effects = [effect for ledger, own in found for effect in self._effects(ledgers, ledger, own, entry, times_of)]
        if recovery.not_reset:
            remarks.append(
                "a reset that was ended between two stores is finished first; the numbers here are before it"
            )
        offsets = {place: progress.end for place, progress in sorted(starts.items())}
        return ResetOutcome(offsets=offsets, effects=tuple(effects), remarks=tuple(remarks)), entry

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
        found: Sequence[tuple[Ledger, LedgerEntry]],
        recovery: Recovery,
        starts: Mapping[TopicPartition, PartitionProgress],
    ) -> None:
        """Stores that are a batch apart have one history again only if all is reset in which they differ."""
        if not recovery.behind:
            return
        ends = [own.ends() for _, own in found]
        differing = sorted(
            place
            for place in {*ends[0]}.union(*ends)
            if place not in starts and len({own.get(place) for own in ends}) > 1
        )
        if differing:
            raise OptionError(
                option="--topic",
                reason=f"the pipeline's stores are one batch apart in {', '.join(map(str, differing[:5]))}: start the "
                "pipeline once, so that it does the batch again where it is missing, or reset these partitions as well",
            )

    def _effects(
        self, ledgers: Ledgers, ledger: Ledger, own: LedgerEntry, entry: LedgerEntry, times_of: TimesOf
    ) -> list[TableEffect]:
        changed = changed_ranges(own, entry_of_store(entry, own))
        passed_over = [each for each in changed if is_passed_over(own, each)]
        again = [each for each in changed if not is_passed_over(own, each)]
        times = times_of(changed)
        effects = []
        for sink in ledgers.sinks_of(ledger):
            table = RecordRows.of(sink)
            effect = Effect.of(sink, table, self._request.rows, is_rewound=bool(again))
            effects += effects_of(sink, table, effect, passed_over=passed_over, again=again, times=times)
        return effects


def _times(
    cluster: SourceCluster, snapshot: ClusterSnapshot, ranges: Sequence[OffsetRange]
) -> dict[OffsetRange, tuple[int | None, int | None]]:
    """Timestamps of each range's first record and of its last one, in milliseconds; None for what is not there."""
    there = {each: held for each in ranges if (held := _held(each, snapshot)).count()}
    firsts = cluster.first_timestamps(there.values())
    lasts = cluster.first_timestamps(replace(held, from_offset=held.until_offset - 1) for held in there.values())
    places = {each: each.topic_partition if each in there else None for each in ranges}
    return {each: (firsts.get(place), lasts.get(place)) if place else (None, None) for each, place in places.items()}


def _held(each: OffsetRange, snapshot: ClusterSnapshot) -> OffsetRange:
    """The part of a range that the log has; perhaps none."""
    seen = snapshot.partitions.get(each.topic_partition)
    low, high = (seen.earliest, seen.latest) if seen else (0, 0)
    start = min(max(each.from_offset, low), each.until_offset)
    return replace(each, from_offset=start, until_offset=max(min(each.until_offset, high), start))
