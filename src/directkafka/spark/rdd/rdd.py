"""Exact offset ranges as an RDD: partition ``i`` is range ``i``, and computing it again gives the same records.

Spark had this for Scala only (``KafkaUtils.createRDD``, SPARK-16534).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pyspark import RDD, SparkContext
from pyspark.core.rdd import PipelinedRDD

from directkafka.errors import OptionError
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.offsets import OffsetRange, OffsetRangeTuple, TopicPartition, total_count
from directkafka.options.payloads import Payloads, payload_params
from directkafka.options.read_policy import HEADERS, RECORD_COLUMNS, ReadPolicy
from directkafka.options.spec import shown
from directkafka.options.texts import check_type
from directkafka.payloads.reader_schemas import with_reader_schemas
from directkafka.planning.placement import LocationStrategy, Placement, PreferConsistent, place
from directkafka.planning.starts import checked_ranges
from directkafka.snapshot import ClusterSnapshot
from directkafka.spark.rdd.executors import executors, placed_rdd
from directkafka.spark.rdd.tasks import ArrowHandler, CountRecords, MessageHandler, ReadRecords
from directkafka.spark.source_cluster import tasks_of_ranges

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

log = logging.getLogger("directkafka.source")

#: What a few records may take in a fetch, at least and for each.
_TAKEN_BYTES_MIN, _TAKEN_BYTES_EACH = 65_536, 1_024

#: ``host:port`` of a leader.
_LEADER: Final = re.compile(r"(.+):([0-9]{1,5})")
_PORT_MAX: Final = 65_535

#: An RDD of the JVM: the application's id, and the RDD's number, which begins anew in each application.
RDDKey = tuple[str, int]

#: RDDs that only the JVM still knows, by its number of the RDD that holds their ranges.
_REMEMBERED: dict[RDDKey, KafkaRDD] = {}


class KafkaRDD(PipelinedRDD[Any, Any]):
    """The records of offset ranges; made by :func:`create_rdd` and by direct streams.

    Args:
        sc: where it lives.
        tasks: the ranges, in the order of the RDD's partitions.
        read: what a task makes of its range.
        locations: where each task prefers to run, as Spark writes it; empty for anywhere.

    Attributes:
        offset_ranges: range ``i`` is partition ``i``.
    """

    def __init__(
        self, sc: SparkContext, tasks: Sequence[RangeTask], read: ReadRecords, locations: Sequence[str] = ()
    ) -> None:
        super().__init__(placed_rdd(sc, tasks, locations), read)
        self._tasks, self._read, self._locations = tuple(tasks), read, tuple(locations)
        self.offset_ranges = tuple(task.range for task in tasks)

    def isEmpty(self) -> bool:  # noqa: N802 - Spark's name
        """Whether there is no record; nothing is read where the ranges say so."""
        has_offsets = any(offset_range.count() for offset_range in self.offset_ranges)
        if not self._is_kept and self._read.arrow_handler is None and (self._read.is_strict or not has_offsets):
            return not has_offsets
        return super().isEmpty()

    def count(self) -> int:
        """The number of items.

        Ranges may have gaps, so records are read and counted, on executors; only where the program says that there
        are none (``spark.streaming.kafka.allowNonConsecutiveOffsets = false``) the ranges are believed.
        """
        if self._is_kept or self._read.arrow_handler is not None:
            return super().count()
        if self._read.is_strict:
            return total_count(self.offset_ranges)
        return sum(self.record_counts())

    def record_counts(self) -> tuple[int, ...]:
        """How many records each range has: its offsets less the gaps that compaction and transactions leave.

        They are read and counted on executors; no record becomes a Python object.
        """
        tasks = [replace(task, columns=("offset",)) for task in self._tasks if task.range.count()]
        counting = KafkaRDD(self.ctx, tasks, self._read, self._locations_of(tasks))
        counts: RDD[int] = PipelinedRDD(counting.prev, CountRecords(self._read.is_strict))
        counted = dict(zip((task.range for task in tasks), counts.collect(), strict=True))
        return tuple(counted.get(offset_range, 0) for offset_range in self.offset_ranges)

    def take(self, num: int) -> list[Any]:
        """The first items: ranges are read one after the other, a little of each, until there are enough.

        Args:
            num: how many at most.
        """
        if self._is_kept:
            return super().take(num)
        items: list[Any] = []
        waiting = [task for task in self._tasks if task.range.count()]
        step = 1
        while waiting and len(items) < num:
            chosen, waiting = waiting[:step], waiting[step:]
            missing = num - len(items)
            few = [_with_small_fetches(task, missing) for task in chosen]
            part = KafkaRDD(self.ctx, few, self._read, self._locations_of(chosen))
            items += part.mapPartitions(partial(_first, missing)).collect()
            step *= 4
        return items[:num]

    @property
    def _is_kept(self) -> bool:
        """Whether Spark keeps the items: then they are not read from Kafka again, and an action fills the cache."""
        return self.is_cached or self.is_checkpointed

    def _locations_of(self, tasks: Sequence[RangeTask]) -> list[str]:
        by_range = dict(zip(self.offset_ranges, self._locations, strict=bool(self._locations)))
        return [by_range[task.range] for task in tasks] if by_range else []


def _first(count: int, items: Iterable[Any]) -> Iterator[Any]:
    return islice(items, count)


def create_rdd(
    sc: SparkContext,
    kafka_params: Mapping[str, object],
    offset_ranges: Sequence[OffsetRange],
    location_strategy: LocationStrategy | None = None,
    *,
    leaders: Mapping[TopicPartition, str] | None = None,
    message_handler: MessageHandler | None = None,
    arrow_handler: ArrowHandler | None = None,
) -> KafkaRDD:
    """Exactly these ranges as an RDD: every action on it reads the same records.

    Nothing is read before an action; only the cluster is asked whether the ranges are in its logs. A retried task
    reads its range again. ``count``, ``isEmpty``, ``take`` and ``first`` read no more than they need.

    Args:
        sc: an existing SparkContext.
        kafka_params: Kafka's dotted client names, as for a consumer.
        offset_ranges: what to read; partition ``i`` of the RDD is ``offset_ranges[i]``.
        location_strategy: where tasks run if they may choose; :class:`PreferConsistent` when not given.
        leaders: ``host:port`` of leaders that are known already. A task that finds another one there asks the cluster.
        message_handler: makes an item of each :class:`ConsumerRecord`, on executors; without it the records are the
            items.
        arrow_handler: makes any number of items of each Arrow batch of records, in place of ``message_handler``:
            no Python object for each. Columns: key, value, topic, partition, offset, timestamp, timestampType, headers.
            With ``value.format`` and its like among ``kafka_params``, keys and values are decoded, and there is
            ``value_error`` or ``key_error`` where that is asked for, and ``value_schema_id`` or ``key_schema_id`` under
            a registry; timestamps without a zone are UTC's.

    Returns:
        The RDD; its ranges are :func:`offset_ranges` of it.

    Raises:
        OptionError: ranges that overlap, two handlers, or a client setting that is wrong.
        RegistryError: the schema registry does not answer, refuses, or does not have what is asked for.
        DataLossError: a range that is not, or not as a whole, in its log; names it with the log's own bounds.
        TopicNotFoundError: a topic that is not there.
    """
    _check_context(sc)
    check_location(location_strategy)
    check_handlers(message_handler, arrow_handler)
    check_type(leaders or {}, Mapping, option="leaders", wanted="host:port by TopicPartition")
    ranges = checked_ranges(offset_ranges, option="offset_ranges")
    policy = read_policy(sc)
    payloads, client_params = payload_params(kafka_params)
    check_payloads(payloads, arrow_handler)
    payloads = with_reader_schemas(payloads, (offset_range.topic for offset_range in ranges))
    range_tasks, snapshot = tasks_of_ranges(
        client_params,
        ranges,
        columns=record_fields(payloads),
        payloads=payloads,
        poll_timeout_ms=policy.poll_timeout_ms,
    )
    tasks = [_led(task, leaders or {}) for task in range_tasks]
    read = ReadRecords(message_handler=message_handler, arrow_handler=arrow_handler, is_strict=not policy.may_have_gaps)
    strategy = location_strategy or PreferConsistent()
    placement = located(sc, tasks, strategy, snapshot)
    tell_missing_hosts(placement, strategy)
    return KafkaRDD(sc, tasks, read, placement.locations)


def offset_ranges(rdd: RDD[Any]) -> OffsetRangeTuple:
    """The ranges of an RDD that comes from Kafka: range ``i`` is what partition ``i`` was read from.

    That holds for the RDD itself and for what is made of it partition by partition (``map``, ``filter``,
    ``mapPartitions``, ...). A shuffle deals the records out anew: ask before it.

    Raises:
        OptionError: the RDD is not, or not any more, partitioned as Kafka is.
    """
    return OffsetRangeTuple(_origin(rdd).offset_ranges)


def record_counts(rdd: RDD[Any]) -> tuple[int, ...]:
    """How many records each range of an RDD has: its offsets less the gaps that compaction and transactions leave.

    They are read and counted on executors, once more; no record becomes a Python object.

    Args:
        rdd: of :func:`create_rdd` or of a direct stream, or what is made of it partition by partition.

    Raises:
        OptionError: the RDD is not, or not any more, partitioned as Kafka is.
    """
    return _origin(rdd).record_counts()


def _origin(rdd: RDD[Any]) -> KafkaRDD:
    check_type(rdd, RDD, option="rdd", wanted="an RDD")
    while isinstance(rdd, PipelinedRDD):
        if isinstance(rdd, KafkaRDD):
            return rdd
        rdd = rdd.prev
    application, lineage = str(rdd.ctx.applicationId), rdd._jrdd.rdd()
    while (application, lineage.id()) not in _REMEMBERED:
        parents = lineage.dependencies()
        names = [parents.apply(number).getClass().getSimpleName() for number in range(parents.size())]
        if names != ["OneToOneDependency"]:
            raise OptionError(option="rdd", reason=_why_lost(lineage, names))
        lineage = parents.apply(0).rdd()
    return _REMEMBERED[application, lineage.id()]


def remember_ranges(rdd: KafkaRDD) -> RDDKey:
    """Let :func:`offset_ranges` find the ranges of what is made of an RDD in the JVM.

    Returns:
        The RDD of ranges, for :func:`forget_ranges`. PySpark makes one RDD of this one and of the functions that
        follow, so that the RDD of ranges is the only one which the lineage is sure to have.
    """
    key = (str(rdd.ctx.applicationId), rdd.prev.id())
    _REMEMBERED[key] = rdd
    return key


def forget_ranges(key: RDDKey) -> None:
    """This RDD is not used any more."""
    _REMEMBERED.pop(key, None)


def read_policy(sc: SparkContext) -> ReadPolicy:
    """What the context's settings say about reads."""
    return ReadPolicy.from_spark_conf(dict(sc.getConf().getAll()))


def located(
    sc: SparkContext, tasks: Sequence[RangeTask], strategy: LocationStrategy, snapshot: ClusterSnapshot
) -> Placement:
    """Where each task prefers to run, if anywhere."""
    if not tasks:
        return Placement()
    leader_hosts = {partition: seen.leader_host for partition, seen in snapshot.partitions.items()}
    return place([task.range for task in tasks], strategy, executors(sc), leader_hosts)


def tell_missing_hosts(placement: Placement, strategy: LocationStrategy) -> None:
    """Say which hosts a strategy asks for that have no executors: their tasks run anywhere."""
    if placement.hosts_without_executors:
        log.warning(
            "no executor on %s, which %s asks for: those partitions are read anywhere",
            ", ".join(placement.hosts_without_executors),
            type(strategy).__name__,
        )


def check_location(strategy: object) -> None:
    """Refuse what is no location strategy, as ``PreferBrokers`` without its parentheses.

    Raises:
        OptionError: says what it is.
    """
    if strategy is not None and not isinstance(strategy, LocationStrategy):
        reason = f"expected PreferConsistent(), PreferBrokers() or PreferFixed(hosts), found {strategy!r}"
        raise OptionError(option="location_strategy", reason=reason)


def check_handlers(message_handler: object, arrow_handler: object) -> None:
    """Refuse two handlers, or one that cannot be called.

    Raises:
        OptionError: says which.
    """
    for option, handler in (("message_handler", message_handler), ("arrow_handler", arrow_handler)):
        if handler is not None and not callable(handler):
            raise OptionError(option=option, reason=f"expected a function, found {type(handler).__name__}")
    if message_handler is not None and arrow_handler is not None:
        raise OptionError(option="arrow_handler", reason="takes the place of message_handler: give one of them")


def check_payloads(payloads: Payloads, arrow_handler: object) -> None:
    """Refuse decoded values where records are Python objects.

    Raises:
        OptionError: there is no handler that would be given them.
    """
    if payloads and arrow_handler is None:
        reason = "needs an arrow_handler; values and keys of single records are bytes"
        raise OptionError(option=f"{payloads[0].column}.format", where="kafka_params", reason=reason)


def record_fields(payloads: Payloads) -> tuple[str, ...]:
    """What a record of the direct API has."""
    return (*RECORD_COLUMNS, HEADERS, *(name for payload in payloads for name in payload.added_columns))


def _check_context(sc: object) -> None:
    if not isinstance(sc, SparkContext):
        reason = f"must be a SparkContext, found {type(sc).__name__}; Spark Connect has no RDDs: use create_dataframe"
        raise OptionError(option="sc", reason=reason)


def _led(task: RangeTask, leaders: Mapping[TopicPartition, str]) -> RangeTask:
    address = leaders.get(task.range.topic_partition)
    if address is None:
        return task
    match = _LEADER.fullmatch(address) if isinstance(address, str) else None
    if match is None or not 0 < int(match[2]) <= _PORT_MAX:
        raise OptionError(option="leaders", reason=f"expected host:port, found {shown(address)}")
    return replace(task, host=match[1], port=int(match[2]))


def _with_small_fetches(task: RangeTask, records: int) -> RangeTask:
    """The same range, read with fetches that are just large enough for a few records."""
    most = min(task.client.max_partition_fetch_bytes, max(_TAKEN_BYTES_MIN, records * _TAKEN_BYTES_EACH))
    return replace(task, client=replace(task.client, max_partition_fetch_bytes=most))


def _why_lost(lineage: JavaObject, dependencies: Sequence[str]) -> str:
    what = lineage.toString()
    if not dependencies:
        return f"has no offset ranges: {what} does not come from create_rdd or a direct stream, or its batch is over"
    kinds = ", ".join(sorted(set(dependencies)))
    return (
        f"has no offset ranges any more: {what} ({kinds}) deals records out anew, so that its partitions are no "
        "ranges. Ask for them before: in the first transform or foreachRDD of the stream, or on the RDD of create_rdd"
    )
