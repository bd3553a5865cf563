"""Rates and limits: how far a batch may go, and the feedback that sets the rate of a direct stream.

Names, constants and numbers of the rates are those of Spark's direct stream (``DirectKafkaInputDStream``,
``PIDRateEstimator``), and limits are those of Spark's Kafka source (``maxOffsetsPerTrigger``), so that settings mean
here what they mean there. Everything is a pure function over values; the settings are read in
:mod:`directkafka.options.limits`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from directkafka.offsets import TopicPartition
from directkafka.options.limits import FeedbackPolicy, OffsetLimits, RatePolicy

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class PartitionRates:
    """Bounds of single partitions that differ from the policy's.

    Attributes:
        maxima: records a second; 0 for no bound.
        minima: records a batch.
    """

    maxima: Mapping[TopicPartition, int] = field(default_factory=dict)
    minima: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTimes:
    """What is known of a batch that is done. Times are in milliseconds.

    Attributes:
        ended_ms: when its processing ended, since 1970.
        records: how many it had.
        processing_ms: how long they took.
        scheduling_ms: how long it waited for the batches before it.
    """

    ended_ms: int
    records: int
    processing_ms: int
    scheduling_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What the controller remembers.

    Attributes:
        rate: for the next batches, of all partitions together, in records a second; None until two batches counted.
        latest_rate: the rate set after the last batch that counted; after the first one, the rate that it reached.
        latest_error: of the last batch that counted, in records a second.
        latest_ms: when that batch ended, in milliseconds since 1970; None before the first.
    """

    rate: float | None = None
    latest_rate: float = 0.0
    latest_error: float = 0.0
    latest_ms: int | None = None


def observe(before: Feedback, batch: BatchTimes, *, interval_ms: int, policy: FeedbackPolicy) -> Feedback:
    """The controller's state after a batch, as Spark's ``PIDRateEstimator`` computes it.

    The first batch only says how fast records are processed. A batch says nothing if it has no records, took less than
    a millisecond, or did not end after the last one.

    Args:
        before: what is remembered.
        batch: the batch that is done.
        interval_ms: between the starts of two batches.
        policy: the constants.
    """
    is_late = before.latest_ms is not None and batch.ended_ms <= before.latest_ms
    if is_late or batch.records <= 0 or batch.processing_ms <= 0:
        return before
    reached = batch.records / batch.processing_ms * 1000
    if before.latest_ms is None:
        return Feedback(latest_rate=reached, latest_ms=batch.ended_ms)
    error = before.latest_rate - reached
    waiting = batch.scheduling_ms * reached / interval_ms
    change = (error - before.latest_error) / ((batch.ended_ms - before.latest_ms) / 1000)
    correction = policy.proportional * error + policy.integral * waiting + policy.derivative * change
    rate = max(before.latest_rate - correction, policy.rate_min)
    return replace(before, rate=rate, latest_rate=rate, latest_error=error, latest_ms=batch.ended_ms)


def rated_ends(
    starts: Offsets,
    latest: Offsets,
    policy: RatePolicy,
    *,
    interval_ms: int,
    rate: float | None = None,
    partitions: PartitionRates | None = None,
) -> dict[TopicPartition, int]:
    """The end of each partition's range.

    A rate for all partitions is shared among them by their lag, up to each one's own maximum; without such a rate, only
    the maxima count. If nothing is limited, every range ends at the latest offset. Else each partition gets at least
    its minimum, as far as its lag goes. (So, as in Spark, without a rate for all partitions, one without a maximum gets
    only its minimum if another one has a maximum.)

    Args:
        starts: where the batch starts in each partition.
        latest: one past the last offset of each of these partitions; a value below the start means no lag.
        policy: the user's bounds.
        interval_ms: length of a batch; rates are records a second.
        rate: the controller's, in records a second for all partitions together; None: the policy's initial rate counts.
            Ignored if the policy has no feedback.
        partitions: bounds of single partitions.
    """
    own = partitions or PartitionRates()
    lags = {partition: max(latest[partition] - start, 0) for partition, start in starts.items()}
    maxima = {partition: float(own.maxima.get(partition, policy.rate_max)) for partition in starts}
    total = 0.0 if policy.feedback is None else float(policy.initial_rate) if rate is None else rate
    rates = _shared(lags, total, maxima) if total > 0 else maxima
    if sum(rates.values()) <= 0:
        return {partition: start + lags[partition] for partition, start in starts.items()}
    counts = {
        partition: max(int(interval_ms / 1000 * rates[partition]), own.minima.get(partition, policy.rate_min), 0)
        for partition in starts
    }
    return {partition: start + min(counts[partition], lags[partition]) for partition, start in starts.items()}


def _shared(lags: Offsets, rate: float, maxima: Mapping[TopicPartition, float]) -> dict[TopicPartition, float]:
    total = sum(lags.values())
    shares = {partition: lag / total * rate if total else 0.0 for partition, lag in lags.items()}
    return {
        partition: min(share, maxima[partition]) if maxima[partition] > 0 else share
        for partition, share in shares.items()
    }


def limited_ends(starts: Offsets, latest: Offsets, limits: OffsetLimits) -> dict[TopicPartition, int]:
    """The end of each partition's range.

    The limits apply in turn: a partition's own, then its topic's, then that of all together. A limit for several
    partitions is shared by Spark's rule: a partition's share is ``limit * backlog / total backlog``, rounded up when it
    is under 1, so that small partitions are not starved, and down otherwise. All partitions together may therefore
    exceed a limit by less than their number. No end is below its start; none is past latest unless its start is.

    Args:
        starts: where the batch starts in each partition.
        latest: one past the last offset of each of these partitions. A value below the start means no backlog.
        limits: most offsets of the batch.
    """
    counts = {partition: max(latest[partition] - start, 0) for partition, start in starts.items()}
    counts = {partition: min(count, limits.partitions.get(partition, count)) for partition, count in counts.items()}
    by_topic: dict[str, dict[TopicPartition, int]] = defaultdict(dict)
    for partition, count in counts.items():
        by_topic[partition.topic][partition] = count
    for topic, limit in limits.topics.items():
        counts |= _shares(by_topic[topic], limit)
    if limits.total is not None:
        counts = _shares(counts, limits.total)
    return {partition: start + counts[partition] for partition, start in starts.items()}


def _shares(counts: Offsets, limit: int) -> dict[TopicPartition, int]:
    total = sum(counts.values())
    if total <= limit:
        return dict(counts)
    return {partition: _share(count, total, limit) for partition, count in counts.items()}


def _share(backlog: int, total: int, limit: int) -> int:
    # Floating point, and in this order, because Spark's shares are: 100 * (29 / 100) is 28 there, and
    # a query that moves over should cut its batches as before. Near 2**63 a float is coarse, so the
    # share is held to the backlog (SPARK-26718 is the same cut against overflow).
    share = limit * (backlog / total)
    return min(math.ceil(share) if share < 1 else math.floor(share), backlog)
