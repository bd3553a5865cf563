"""Condition of a pipeline, decided from what was observed: whether it keeps up, and what has just happened. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from directkafka.offsets import TopicPartition
from directkafka.operations.positions import PartitionPosition
from directkafka.pipeline.status import FinishedBatch, Step

#: How old an unread record may be, unless it is said otherwise, in seconds.
BEHIND_AFTER_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Time limits that decide a pipeline's condition.

    Attributes:
        stalled_after_s: seconds after which a pipeline stands still: it has been at one step for longer, or has unread
            records and has committed nothing for longer.
        behind_after_s: seconds; a pipeline is behind if its oldest unread record is older.
    """

    stalled_after_s: float
    behind_after_s: float = BEHIND_AFTER_S


class Condition(StrEnum):
    """How a pipeline does, the worst first."""

    UNKNOWN = "unknown"
    FAILED = "failed"
    STANDS_STILL = "stands still"
    RETRYING = "retrying"
    BEHIND = "behind"
    PAUSED = "paused"
    ENDED = "ended"
    NEVER_RAN = "never ran"
    STARTING = "starting"
    RUNNING = "running"
    CAUGHT_UP = "caught up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A pipeline as it was found at one moment.

    Attributes:
        at_ms: when, in milliseconds since 1970.
        positions: where it is in each partition; empty where that is not known.
        batch_id: the last batch that is committed; None without one.
        generation: number of the driver that committed it, or that runs now.
        committed_at_ms: when that was.
        lineage: which history of the pipeline; a reset begins a new one.
        records: how many records the pipeline's process has read; None if that is another process than this one.
        rows: how many rows were written: by this process if the pipeline runs here, by all batches otherwise.
        dead_letters: how many dead letters, counted like ``rows``; None if they are not counted.
        is_paused: whether it waits for ``directkafka resume``.
        step: the current step; None if the pipeline runs in another process.
        step_s: for how many seconds it has been at that step.
        failure: type of the error that ended it.
        retries: steps that failed and were tried again.
        batches: its last batches with their times, the newest last; empty where they are not told.
        error: why nothing else is known.
    """

    at_ms: int
    positions: tuple[PartitionPosition, ...] = ()
    batch_id: int | None = None
    generation: int | None = None
    committed_at_ms: int | None = None
    lineage: str | None = None
    records: int | None = None
    rows: int = 0
    dead_letters: int | None = None
    is_paused: bool = False
    step: Step | None = None
    step_s: float = 0.0
    failure: str | None = None
    retries: int = 0
    batches: tuple[FinishedBatch, ...] = ()
    error: str | None = None

    def lag(self) -> int | None:
        """Unread offsets of all partitions; None where no partition is known."""
        known = [position.lag for position in self.positions if position.lag is not None]
        return sum(known) if known else None

    def lag_seconds(self) -> float | None:
        """Age of the oldest unread record; None where no partition is known."""
        known = [position.lag_seconds for position in self.positions if position.lag_seconds is not None]
        return max(known) if known else None

    def next_offsets(self) -> Mapping[TopicPartition, int]:
        """The next offset to read, by partition."""
        return {
            TopicPartition(position.topic, position.partition): position.current
            for position in self.positions
            if position.current is not None
        }


def records_between(before: Observation, after: Observation) -> int | None:
    """Records that were read from one observation to the next; None where that cannot be known.

    If a count is lower than before, a new process has started, and the result is 0. Without counts, the offsets of the
    partitions that are in both observations are compared. After a reset, offsets do not show what was read.
    """
    if before.error is not None or after.error is not None:
        return None
    if before.records is not None and after.records is not None:
        return max(0, after.records - before.records)
    if before.lineage != after.lineage:
        return None
    then = before.next_offsets()
    return sum(max(0, end - then[partition]) for partition, end in after.next_offsets().items() if partition in then)


def rows_between(before: Observation, after: Observation) -> int | None:
    """Rows that were written from one observation to the next; None where that cannot be known."""
    if before.error is not None or after.error is not None or before.lineage != after.lineage:
        return None
    return max(0, after.rows - before.rows)


def condition_of(observation: Observation, limits: Limits) -> tuple[Condition, str]:
    """How the pipeline does, and why that is said.

    Args:
        observation: what was observed.
        limits: the time limits.
    """
    if observation.error is not None:
        return Condition.UNKNOWN, observation.error
    if observation.failure is not None:
        return Condition.FAILED, f"{observation.failure}; its log says more"
    if observation.is_paused:
        return Condition.PAUSED, "until directkafka resume"
    if observation.step is not None:
        told = _condition_by_step(observation, observation.step, limits)
        if told is not None:
            return told
    elif observation.batch_id is None:
        return Condition.NEVER_RAN, "no batch is committed"
    return _condition_by_lag(observation, limits)


def _condition_by_step(observation: Observation, step: Step, limits: Limits) -> tuple[Condition, str] | None:
    if step is Step.ENDED:
        return Condition.ENDED, "the run is over"
    if step is not Step.WAITING and observation.step_s > limits.stalled_after_s:
        return Condition.STANDS_STILL, f"at the step {step} for {observation.step_s:,.0f} s"
    if step is Step.RETRYING:
        return Condition.RETRYING, "a step failed, and is tried again"
    return (Condition.STARTING, "no batch is planned yet") if step is Step.STARTING else None


def _condition_by_lag(observation: Observation, limits: Limits) -> tuple[Condition, str]:
    lag, lag_s = observation.lag(), observation.lag_seconds()
    if not lag:
        return (Condition.RUNNING, "") if lag is None else (Condition.CAUGHT_UP, "everything is read")
    uncommitted_s = (observation.at_ms - (observation.committed_at_ms or 0)) / 1000
    is_old = lag_s is None or lag_s > limits.stalled_after_s
    if observation.step is None and uncommitted_s > limits.stalled_after_s and is_old:
        return Condition.STANDS_STILL, f"records are unread, and nothing was committed for {uncommitted_s:,.0f} s"
    if lag_s is not None and lag_s > limits.behind_after_s:
        return Condition.BEHIND, f"the oldest unread record is {lag_s:,.0f} s old"
    return Condition.RUNNING, ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that has happened to a pipeline.

    Attributes:
        at_ms: when it was seen, in milliseconds since 1970.
        kind: ``takeover``, ``pause``, ``rewind`` or ``condition``.
        text: what, in words.
    """

    at_ms: int
    kind: str
    text: str


def events_between(before: Observation, after: Observation, conditions: tuple[Condition, Condition]) -> Iterator[Event]:
    """What has happened from one observation to the next.

    Args:
        before, after: the two.
        conditions: of the two.
    """
    if before.error is None and after.error is None:
        if before.generation is not None and after.generation is not None and before.generation != after.generation:
            text = f"generation {after.generation} took over from generation {before.generation}"
            yield Event(at_ms=after.at_ms, kind="takeover", text=text)
        if before.is_paused != after.is_paused:
            yield Event(at_ms=after.at_ms, kind="pause", text="paused" if after.is_paused else "resumed")
        then, now = before.next_offsets(), after.next_offsets()
        moved_back = sorted(partition for partition, end in now.items() if end < then.get(partition, 0))
        if moved_back:
            told = ", ".join(
                f"{partition} from {then[partition]:,} to {now[partition]:,}" for partition in moved_back[:3]
            )
            more = f", and {len(moved_back) - 3:,} more" if len(moved_back) > 3 else ""
            yield Event(at_ms=after.at_ms, kind="rewind", text=f"set back: {told}{more}")
    was, is_now = conditions
    if was is not is_now:
        yield Event(at_ms=after.at_ms, kind="condition", text=f"{was} → {is_now}")
