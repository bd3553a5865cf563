"""Lag of a pipeline of this process, looked up in Kafka when somebody asks for it and never in the pipeline's way.

The pipeline says where it is; a look asks Kafka where the partitions end, and when the first unread records were
written. A look runs in a thread of its own, with connections of its own. The caller waits up to a timeout for it. If
Kafka takes longer, the caller gets the result of the look before, if that is not too old.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from directkafka.errors import DirectKafkaError
from directkafka.offsets import TopicPartition
from directkafka.operations.positions import PartitionPosition, partition_positions, unread_ranges
from directkafka.options.source import SourceOptions
from directkafka.pipeline.status import PipelineStatus
from directkafka.spark.source_cluster import SourceCluster

log = logging.getLogger("directkafka.monitoring")

#: How long an answer is used again, in seconds.
_FRESH_S: Final = 1.0
#: How old an answer may be where Kafka does not give another one, in seconds. After that nothing is said of lag.
_STALE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LagView:
    """The positions of a pipeline as Kafka had them at one moment.

    Attributes:
        cluster_id: Kafka's id of the cluster.
        taken_s: when, in seconds on the monotonic clock.
        positions: one for each partition that the pipeline reads.
    """

    cluster_id: str
    taken_s: float
    positions: tuple[PartitionPosition, ...]

    def aged(self, now_s: float) -> tuple[PartitionPosition, ...]:
        """The positions, with the time since the look added to ``lag_seconds``.

        A lag of 0 s stays: nothing is unread, or the first unread record has a timestamp of the future.

        Args:
            now_s: seconds on the monotonic clock.
        """
        return tuple(
            replace(position, lag_seconds=position.lag_seconds + now_s - self.taken_s)
            if position.lag_seconds
            else position
            for position in self.positions
        )


def by_cluster(views: Iterable[LagView]) -> tuple[LagView, ...]:
    """The views of a pipeline's sources, one for each cluster. A partition that two sources read counts once."""
    merged: dict[str, LagView] = {}
    for view in views:
        earlier = merged.setdefault(view.cluster_id, view)
        known = {(position.topic, position.partition) for position in earlier.positions}
        more = tuple(position for position in view.positions if (position.topic, position.partition) not in known)
        merged[view.cluster_id] = replace(earlier, positions=earlier.positions + more)
    return tuple(merged.values())


class LagReader:
    """Looks up the lag of one pipeline.

    Args:
        status: the pipeline's.
    """

    def __init__(self, status: PipelineStatus) -> None:
        self._status = status
        self._lock = threading.Lock()
        self._look: threading.Thread | None = None
        self._views: tuple[LagView, ...] = ()

    def begin(self) -> None:
        """Begin a look if the last one is old; returns at once."""
        sources, ends = self._status.sources, self._status.view.ends
        if not sources or ends is None:
            return
        with self._lock:
            is_fresh = bool(self._views) and time.monotonic() - self._views[0].taken_s < _FRESH_S
            if is_fresh or (self._look is not None and self._look.is_alive()):
                return
            self._look = threading.Thread(
                target=self._run, args=(sources,), name=f"lag of {self._status.view.pipeline}", daemon=True
            )
            self._look.start()

    def finish(self, timeout_s: float) -> tuple[LagView, ...]:
        """Wait for the look, and return the newest complete one.

        Args:
            timeout_s: how long to wait, in seconds.

        Returns:
            One view for each cluster; an empty tuple if there is no complete look, or only one that is too old.
        """
        thread = self._look
        if thread is not None:
            thread.join(max(0.0, timeout_s))
        now_s = time.monotonic()
        return tuple(view for view in self._views if now_s - view.taken_s <= _STALE_S)

    def _run(self, sources: Sequence[SourceOptions]) -> None:
        try:
            self._views = by_cluster(map(self._look_at, sources))
        except DirectKafkaError as error:
            log.debug("the lag of %s is not known now: %s", self._status.view.pipeline, error)
        except Exception:
            log.warning("the lag of %s could not be looked up", self._status.view.pipeline, exc_info=True)

    def _look_at(self, source: SourceOptions) -> LagView:
        # Connections are made for each look, so an idle server holds none, and none can go stale.
        with closing(SourceCluster(source)) as cluster:
            taken_s = time.monotonic()
            cluster_id, positions = look_at_lag(cluster, self._status)
            return LagView(cluster_id=cluster_id, taken_s=taken_s, positions=positions)


def look_at_lag(cluster: SourceCluster, status: PipelineStatus) -> tuple[str, tuple[PartitionPosition, ...]]:
    """Kafka's id of the cluster, and where a pipeline is in each of its partitions.

    Args:
        cluster: is asked.
        status: the pipeline's. Its position is read after the ends of the partitions: read before them, it would show a
            lag for records that are done by now.

    Raises:
        BrokerUnreachableError, BrokerResponseError: after the options' retries.
    """
    snapshot = cluster.snapshot()
    current: Mapping[TopicPartition, int] = status.view.ends or {}
    shown = {partition: offset for partition, offset in current.items() if partition in snapshot.partitions}
    unread = unread_ranges(snapshot, shown)
    positions = partition_positions(snapshot, shown, unread, cluster.first_timestamps(unread))
    return snapshot.cluster_id, positions


def lags(readers: Sequence[LagReader], *, timeout_s: float) -> list[tuple[LagView, ...]]:
    """The lag of several pipelines, looked up side by side.

    Args:
        readers: one for each.
        timeout_s: how long to wait for all of them, in seconds.
    """
    until_s = time.monotonic() + timeout_s
    for reader in readers:
        reader.begin()
    return [reader.finish(until_s - time.monotonic()) for reader in readers]
