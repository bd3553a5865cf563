"""A direct stream: each interval the driver asks for the latest offsets, and a batch is an RDD of exact ranges.

Spark had this for Scala only (``KafkaUtils.createDirectStream``, SPARK-16534). Without a receiver and without a
write-ahead log, records are read once, by executors, from Kafka.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pyspark import SparkContext
from pyspark.streaming import StreamingContext
from pyspark.streaming.dstream import TransformedDStream

from directkafka.errors import OptionError
from directkafka.offsets import OffsetRange
from directkafka.options.consumer import (
    Assign,
    ConsumerOptions,
    ConsumerStrategy,
    GivenStrategy,
    Subscribe,
    SubscribePattern,
)
from directkafka.options.limits import RatePolicy
from directkafka.options.texts import check_type, list_of
from directkafka.payloads.reader_schemas import topics_of, with_reader_schemas
from directkafka.planning.placement import LocationStrategy, PreferConsistent
from directkafka.planning.trigger import AvailableNow, GivenTrigger, Trigger, parse_trigger
from directkafka.spark.dstream.fail_stop import FailStopDStream
from directkafka.spark.dstream.offset_commits import CommitCallback, Queued
from directkafka.spark.dstream.planner import DirectPlanner, PlannerHandle
from directkafka.spark.dstream.state import PerPartitionConfig, Program, StreamPlan, StreamState, tick_folder
from directkafka.spark.rdd.rdd import check_handlers, check_location, check_payloads, read_policy
from directkafka.spark.rdd.tasks import ArrowHandler, MessageHandler, ReadRecords


class DirectStream(FailStopDStream):
    """The stream that :func:`create_direct_stream` gives: a DStream whose RDDs have offset ranges.

    It may be used inside the functions that are given to it: a checkpoint keeps the stream's name, not the stream.
    """

    def commit_async(self, offset_ranges: Iterable[OffsetRange], callback: CommitCallback | None = None) -> None:
        """Commit the ends of these ranges to the stream's group, once the batch that they are of has succeeded.

        Args:
            offset_ranges: of the batch, as :func:`directkafka.offset_ranges` gives them.
            callback: called with the offsets by partition, and with None or the error that came of it.

        Raises:
            OptionError: the stream has no ``group.id``.
        """
        commit(self._planner, offset_ranges, callback)

    def waiting_batches(self) -> int:
        """How many batches wait or run: more than one means that batches take longer than the interval."""
        return waiting_batches(self._planner)

    @property
    def _planner(self) -> DirectPlanner:
        [planner] = self._planners
        return planner

    def __reduce__(self) -> tuple[Any, ...]:
        return _Committer, (self._planner.handle,)


class _Committer:
    """What is left of a stream in a function that a checkpoint has kept."""

    def __init__(self, handle: PlannerHandle) -> None:
        self._handle = handle

    def commit_async(self, offset_ranges: Iterable[OffsetRange], callback: CommitCallback | None = None) -> None:
        commit(self._handle(), offset_ranges, callback)

    def waiting_batches(self) -> int:
        return waiting_batches(self._handle())


def create_direct_stream(
    ssc: StreamingContext,
    consumer_strategy: GivenStrategy,
    location_strategy: LocationStrategy | None = None,
    *,
    per_partition_config: PerPartitionConfig | None = None,
    message_handler: MessageHandler | None = None,
    arrow_handler: ArrowHandler | None = None,
    waiting_batches_max: int | None = None,
    trigger: GivenTrigger | None = None,
) -> DirectStream:
    """A DStream of Kafka records whose batches are exact offset ranges.

    It starts at the strategy's offsets, else at those that its group has committed, else where ``auto.offset.reset``
    says. Rates follow Spark's settings: ``spark.streaming.kafka.maxRatePerPartition``,
    ``spark.streaming.backpressure.enabled`` and so on.

    Args:
        ssc: a context that has not started.
        consumer_strategy: what is read, and Kafka's settings.
        location_strategy: where tasks run if they may choose; :class:`PreferConsistent` when not given.
        per_partition_config: rates of single partitions.
        message_handler: makes an item of each :class:`ConsumerRecord`, on executors.
        arrow_handler: makes items of each Arrow batch of records, in place of the other: no Python object for each.
            Keys and values may be decoded, as for :func:`~directkafka.create_rdd`.
        waiting_batches_max: when so many batches wait or run, the next one is empty and leaves its records to a later
            one. None: batches queue up, as in Spark.
        trigger: which of Spark's batches have records; the others are empty, and leave them to a later one:
            ``{"delay": "10s"}`` after the end of the last one that had some, ``{"records": 100000, "at_most": "1m"}``
            once so many wait, ``"10s"`` from start to start, or a function of a :class:`Moment` that says how many
            milliseconds to wait. None: each batch has what there is.

    Raises:
        OptionError: a setting that is wrong.
    """
    _check_context(ssc)
    check_type(
        consumer_strategy,
        (Subscribe, SubscribePattern, Assign, ConsumerStrategy),
        option="consumer_strategy",
        wanted="Subscribe(...), SubscribePattern(...), Assign(...) or a ConsumerStrategy of your own",
    )
    check_location(location_strategy)
    check_handlers(message_handler, arrow_handler)
    if per_partition_config is not None:
        check_type(
            per_partition_config, PerPartitionConfig, option="per_partition_config", wanted="a PerPartitionConfig"
        )
    _check_waiting(waiting_batches_max)
    policy = read_policy(ssc.sparkContext)
    options = _read_options(consumer_strategy, arrow_handler)
    plan = StreamPlan(
        stream_id=uuid.uuid4().hex,
        options=options,
        rates=rate_policy(ssc.sparkContext),
        partition_config=per_partition_config,
        location=location_strategy or PreferConsistent(),
        read=ReadRecords(
            message_handler=message_handler, arrow_handler=arrow_handler, is_strict=not policy.may_have_gaps
        ),
        poll_timeout_ms=policy.poll_timeout_ms,
        interval_ms=ssc._jssc.ssc().graph().batchDuration().milliseconds(),
        waiting_batches_max=waiting_batches_max,
        program=Program.running(),
        trigger=_read_trigger(trigger),
    )
    planner = DirectPlanner(plan, StreamState())
    planner.bind(ssc)
    return DirectStream(TransformedDStream(ssc.textFileStream(tick_folder().as_uri()), planner), (planner,))


def _check_context(ssc: StreamingContext) -> None:
    check_type(ssc, StreamingContext, option="ssc", wanted="a StreamingContext")
    if not ssc._jssc.getState().toString() == "INITIALIZED":
        raise OptionError(option="ssc", reason="has started already: make all streams and their outputs before start()")


def _check_waiting(waiting_batches_max: int | None) -> None:
    if waiting_batches_max is None:
        return
    check_type(waiting_batches_max, int, option="waiting_batches_max", wanted="a number from 1")
    if waiting_batches_max < 1:
        reason = f"expected a number from 1, found {waiting_batches_max}"
        raise OptionError(option="waiting_batches_max", reason=reason)


def _read_options(strategy: GivenStrategy, arrow_handler: object) -> ConsumerOptions:
    options = ConsumerOptions.read(strategy)
    check_payloads(options.payloads, arrow_handler)
    return replace(options, payloads=with_reader_schemas(options.payloads, topics_of(options.strategy)))


def _read_trigger(trigger: GivenTrigger | None) -> Trigger | None:
    read = None if trigger is None else parse_trigger(trigger)
    if isinstance(read, AvailableNow):
        raise OptionError(option="trigger", reason="a direct stream has no end; give an interval, a delay or a backlog")
    return read


def waiting_batches(planner: DirectPlanner) -> int:
    """See :meth:`DirectStream.waiting_batches`."""
    return len(planner.batches.pending())


def rate_policy(sc: SparkContext) -> RatePolicy:
    """The rates that the context's settings say."""
    return RatePolicy.from_spark_conf(dict(sc.getConf().getAll()))


def commit(planner: DirectPlanner, offset_ranges: Iterable[OffsetRange], callback: CommitCallback | None) -> None:
    """Queue offsets of a stream; see :meth:`DirectStream.commit_async`."""
    if planner.plan.options.group_id is None:
        raise OptionError(option="group.id", reason="is needed in kafka_params for offsets to be committed")
    ends: dict[Any, int] = {}
    for offset_range in list_of(
        OffsetRange, offset_ranges, option="offset_ranges", wanted="what offset_ranges(rdd) gives"
    ):
        ends[offset_range.topic_partition] = max(offset_range.until_offset, ends.get(offset_range.topic_partition, 0))
    if ends:
        planner.commits.add(Queued(ends, callback, planner.batch_of(ends)))
