"""The state of a direct stream: what it is and where it stands, the two values that its checkpoint holds."""

from __future__ import annotations

import getpass
import hashlib
import logging
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from directkafka.errors import EnvironmentFaultError, OptionError
from directkafka.offsets import OffsetRange, Positions, TopicPartition
from directkafka.options.consumer import ConsumerOptions
from directkafka.options.limits import RatePolicy
from directkafka.options.source import SourceOptions
from directkafka.own_folders import refuse_foreign
from directkafka.planning.direct import Progress
from directkafka.planning.placement import LocationStrategy
from directkafka.planning.rates import Feedback, PartitionRates
from directkafka.planning.trigger import Trigger
from directkafka.spark.rdd.rdd import record_fields
from directkafka.spark.rdd.tasks import ReadRecords

log = logging.getLogger("directkafka.source")


class PerPartitionConfig:
    """Rates of single partitions: a base class. None leaves a partition to the settings."""

    def max_rate_per_partition(self, topic_partition: TopicPartition) -> int | None:
        """Most records a second, from 1."""
        return None

    def min_rate_per_partition(self, topic_partition: TopicPartition) -> int | None:
        """Fewest records a batch of a partition that has so many, from 1."""
        return None


@dataclass(frozen=True, slots=True)
class Program:
    """The main file of a program, to tell whether a checkpoint was made by the one that runs now.

    Attributes:
        path: the file; empty where there is none (a notebook, a shell).
        digest: SHA-256 of its text.
    """

    path: str
    digest: str

    @classmethod
    def running(cls) -> Program:
        """The program of this process."""
        path = getattr(sys.modules.get("__main__"), "__file__", None) or ""
        try:
            text = Path(path).read_bytes() if path else b""
        except OSError:
            path, text = "", b""
        return cls(path, hashlib.sha256(text).hexdigest())

    def warn_if_changed(self) -> None:
        """Say that a restored stream runs its old code, when the program has another now."""
        now = Program.running()
        if self.digest != now.digest:
            log.warning(
                "this stream comes from a checkpoint that another version of the program made (%s, %.8s; now %s, "
                "%.8s). Spark runs the functions that are in the checkpoint, not those of the program. To run the new "
                "ones, start without the checkpoint, at the offsets that the group or your own store has.",
                self.path or "no file", self.digest, now.path or "no file", now.digest,
            )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StreamPlan:
    """What a program decides about a stream.

    Attributes:
        stream_id: names the stream, also after a restart from its checkpoint.
        options: what is read, and where it starts.
        rates, partition_config: how fast.
        location: where tasks run if they may choose.
        read: what tasks make of records.
        poll_timeout_ms: longest time without progress of a task, in milliseconds.
        interval_ms: between two batches.
        waiting_batches_max: when so many batches wait or run, the next one is empty; None for no bound.
        program: what made the stream.
        trigger: which of the batches have records; None: each.
    """

    stream_id: str
    options: ConsumerOptions
    rates: RatePolicy
    partition_config: PerPartitionConfig | None
    location: LocationStrategy
    read: ReadRecords
    poll_timeout_ms: int
    interval_ms: int
    waiting_batches_max: int | None
    program: Program
    trigger: Trigger | None = None

    def source_options(self) -> SourceOptions:
        """What its connections need to know."""
        return SourceOptions(
            strategy=self.options.strategy,
            starting=Positions(),
            ending=None,
            client=self.options.client,
            group_id=self.options.group_id,
            columns=record_fields(self.options.payloads),
            payloads=self.options.payloads,
            poll_timeout_ms=self.poll_timeout_ms,
        )


@dataclass(kw_only=True)
class StreamState:
    """Where a stream is.

    Attributes:
        progress: of every partition that it has ever read.
        ranges: of each batch that Spark may ask for again, by its time in milliseconds since 1970.
        feedback: what the rate controller remembers.
        forgotten_ms: the ranges of batches before this time are not known any more.
    """

    progress: Progress = field(default_factory=dict)
    ranges: dict[int, tuple[OffsetRange, ...]] = field(default_factory=dict)
    feedback: Feedback = field(default_factory=Feedback)
    forgotten_ms: int = 0
    #: The same ranges as bytes. A checkpoint has those of minutes, and each batch is pickled once.
    _packed: dict[int, bytes] = field(default_factory=dict, repr=False, compare=False)

    def forget(self, before_ms: int) -> None:
        """Drop the ranges of batches that are older."""
        self.forgotten_ms = max(before_ms, self.forgotten_ms)
        for ms in [ms for ms in self.ranges if ms < before_ms]:
            del self.ranges[ms]
            self._packed.pop(ms, None)

    def __reduce__(self) -> tuple[Any, ...]:
        for ms in self.ranges.keys() - self._packed.keys():
            self._packed[ms] = pickle.dumps(self.ranges[ms], pickle.HIGHEST_PROTOCOL)
        packed = {ms: self._packed[ms] for ms in self.ranges}
        return _state, (self.progress, packed, self.feedback, self.forgotten_ms)


def _state(progress: Progress, packed: dict[int, bytes], feedback: Feedback, forgotten_ms: int) -> StreamState:
    """What unpickling a state gives."""
    ranges = {ms: pickle.loads(ranges) for ms, ranges in packed.items()}
    return StreamState(
        progress=progress, ranges=ranges, feedback=feedback, forgotten_ms=forgotten_ms, _packed=dict(packed)
    )


def rates_of(config: PerPartitionConfig | None, partitions: Mapping[TopicPartition, object]) -> PartitionRates:
    """What the program says of single partitions.

    Raises:
        OptionError: a rate that is no whole number from 1.
    """
    if config is None:
        return PartitionRates()
    return PartitionRates(
        maxima=_rates("max_rate_per_partition", config.max_rate_per_partition, partitions),
        minima=_rates("min_rate_per_partition", config.min_rate_per_partition, partitions),
    )


def _rates(
    name: str, rate_of: Callable[[TopicPartition], int | None], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    rates = {partition: rate for partition in partitions if (rate := rate_of(partition)) is not None}
    for partition, rate in rates.items():
        if isinstance(rate, bool) or not isinstance(rate, int) or rate < 1:
            reason = f"expected a whole number from 1 for {partition}, or None, found {rate!r}"
            raise OptionError(option=name, where="per_partition_config", reason=reason)
    return rates


def tick_folder() -> Path:
    """A folder that stays empty: Spark's file stream over it gives an RDD each interval, and a checkpoint can hold it.

    (``queueStream`` gives RDDs as well, but cannot be restored.)

    Raises:
        EnvironmentFaultError: other users may write to it.
    """
    # A checkpoint has the path in it, so it is the same each time; whoever may put files there would feed the stream.
    folder = Path(tempfile.gettempdir()).resolve() / f"directkafka-ticks-{getpass.getuser()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        refuse_foreign(folder)
    except OSError as error:
        raise EnvironmentFaultError(
            what=f"the stream's folder {folder} is not this user's alone: {error}",
            remedy="Remove it, or set TMPDIR to a folder of your own.",
        ) from error
    return folder
