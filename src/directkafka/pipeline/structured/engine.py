"""A pipeline under Structured Streaming: its source, its query, and how it starts and stops."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from directkafka.errors import OptionError, TransformError
from directkafka.offsets import TopicPartition, to_nested
from directkafka.options.source import SourceOptions
from directkafka.pipeline.execution.batch_writer import BatchWriter
from directkafka.pipeline.execution.executor_errors import from_executor, spark_is_gone, told
from directkafka.pipeline.execution.native.arrow_transform import DEFAULT_OUTPUT
from directkafka.pipeline.execution.rejection import DEAD_LETTERS, no_dead_letter_sink
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.execution.transform import Transform, apply_transform
from directkafka.pipeline.ledger.reconcile import OPEN_LINEAGE
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.pipeline.retry import RetryPolicy, StopAsked
from directkafka.pipeline.status import PipelineStatus, Step
from directkafka.pipeline.structured.api import BatchFunction, cause_of, start_query
from directkafka.pipeline.structured.checkpoint import Checkpoint
from directkafka.pipeline.structured.hadoop_files import checkpoint_at
from directkafka.pipeline.structured.lineage import CheckpointBatch, decide
from directkafka.pipeline.structured.query_run import AS_IT_IS
from directkafka.planning.trigger import GivenTrigger
from directkafka.sinks.api import LedgerEntry
from directkafka.spark.source_cluster import SourceCluster

log = logging.getLogger("directkafka.pipeline")

#: How long one wait for the query takes, in seconds: the longest until a stop is noticed between two batches.
_LOOK_S = 0.2
#: How often an idle driver asks whether a newer one has taken its pipeline, in seconds.
_FENCE_LOOK_S = 5.0

_OURS = re.compile(r"^directkafka\.[\w.]+: ")

#: Spark's number for "earliest" in startingOffsets.
_EARLIEST = -2


class StructuredEngine:
    """Runs one pipeline as a streaming query until it is told to stop.

    If only the default output has sinks, the transform is given the stream: windows and deduplication have Spark's
    state. With named outputs or dead letters, it is given each batch, as under the direct engine, since a streaming
    query has only one output.

    Args:
        name: the pipeline's name in the ledgers.
        session: the pipeline's own session.
        source: options of the format ``directkafka``.
        transform: what becomes of the records.
        routes: which output goes where.
        checkpoint: the query's checkpoint.
        trigger: as :func:`~directkafka.pipeline.structured.api.start_query` takes it.
        output_mode: of the query.
        make_function: makes the function that writes the batches, with the ``transform`` that is left to it.
        stop: ends the run between two batches.
        retry_policy: how failures that may pass are met before the query starts.
        status: told what the pipeline does between two batches.
    """

    def __init__(
        self,
        name: str,
        *,
        session: SparkSession,
        source: Mapping[str, str],
        transform: Transform,
        routes: Sequence[Route],
        checkpoint: str,
        trigger: GivenTrigger,
        output_mode: str,
        make_function: Callable[..., BatchFunction],
        stop: threading.Event,
        retry_policy: RetryPolicy,
        status: PipelineStatus,
    ) -> None:
        self._name = name
        self._session = session
        self._source = dict(source)
        self._transform = transform
        self._routes = tuple(routes)
        self._checkpoint = checkpoint
        self._trigger = trigger
        self._output_mode = output_mode
        self._make_function = make_function
        self._stop = stop
        self._retry_policy = retry_policy
        self._status = status

    def check(self) -> tuple[str, ...]:
        """Compile the transform, have every sink look at its columns, compare checkpoint and ledgers; change nothing.

        Returns:
            Remarks on the plans for the user.

        Raises:
            DirectKafkaError: what is wrong.
        """
        stream, left = self._stream(self._source)
        empty = self._session.createDataFrame([], stream.schema)
        remarks = BatchWriter(empty, left, self._routes).check()
        with closing(Ledgers(self._name, self._routes)) as ledgers:
            ledgers.connect()
            recovery = ledgers.peek()
            expected = _expected_batch(checkpoint_at(self._session, self._checkpoint), recovery.ahead)
            decide(recovery, expected, pipeline=self._name, stores=ledgers.identities)
        return remarks

    def run(self) -> None:
        """Run the query until the trigger or the stop ends it.

        Raises:
            FencedError: a newer driver took over.
            LineageError: the checkpoint is not the one that the ledger follows.
            DirectKafkaError: whatever else ended the query.
        """
        try:
            options = self._source | self._retry_policy.until_done(self._continued_offsets)
        except StopAsked as asked:
            log.info("%s stops before it began: %s", self._name, asked)
            return
        stream, left = self._stream(options)
        function = self._make_function(transform=left)
        self._run_query(start_query(stream, function, trigger=self._trigger, output_mode=self._output_mode), function)

    def _run_query(self, query: StreamingQuery, function: BatchFunction) -> None:
        try:
            self._wait(query, function)
            # Let the batch in flight end first: stopping the query would cancel its jobs. The batch may still fail, and
            # after a stop only function.failure tells.
            function.end()
            if function.failure is not None:
                raise function.failure
        except StopAsked as asked:
            self._report_stop(asked, function)
        except StreamingQueryException as error:
            failure = function.failure or _failure_of(error)
            if not isinstance(failure, StopAsked):
                raise failure from None
            self._report_stop(failure, function)
        finally:
            function.end()
            query.stop()

    def _report_stop(self, asked: StopAsked, function: BatchFunction) -> None:
        if asked is function.failure:
            log.info("%s stops; what was being tried is rolled back: %s", self._name, asked)
        else:
            log.info("%s stops between two batches: %s", self._name, asked)

    def _wait(self, query: StreamingQuery, function: BatchFunction) -> None:
        looked_s = time.monotonic()
        while not self._stop.is_set():
            if query.awaitTermination(_LOOK_S):  # type: ignore[arg-type]  # annotated as int, taken as float
                return
            self._look_between_batches(query)
            if time.monotonic() - looked_s >= _FENCE_LOOK_S:
                function.check_fenced()
                looked_s = time.monotonic()

    def _look_between_batches(self, query: StreamingQuery) -> None:
        """Say what the query does while none of its batches is ours; with nothing to read, none ever is."""
        step = self._status.view.step
        if step not in {Step.STARTING, Step.WAITING, Step.PLAN}:
            return
        status = query.status
        if status["isTriggerActive"]:
            # Spark asks for offsets. If it has handed the batch over meanwhile, that is told by the function.
            self._status.moved(Step.WAITING, Step.PLAN)
        elif str(status["message"]).startswith("Waiting"):
            if not self._status.view.is_ready:
                self._status.ready()
            self._status.moved(step, Step.WAITING)

    def _stream(self, options: Mapping[str, str]) -> tuple[DataFrame, Transform]:
        """The streaming DataFrame to be written, and the part of the transform that is left for each batch."""
        # Not above: other pipelines have no use for Spark's data sources.
        from directkafka.spark.datasource.source import register

        register(self._session)
        source = self._session.readStream.format("directkafka").options(**options).load()
        used = {route.output for route in self._routes}
        if used != {DEFAULT_OUTPUT}:
            return source, self._transform
        outputs = apply_transform(self._transform, source, self._session)
        if DEFAULT_OUTPUT not in outputs:
            raise OptionError(
                option="sink.from",
                reason=f"the transform has no output {DEFAULT_OUTPUT!r}; it has {', '.join(sorted(outputs))}",
            )
        if DEAD_LETTERS in outputs:
            raise no_dead_letter_sink(DEAD_LETTERS)
        return outputs[DEFAULT_OUTPUT], AS_IT_IS

    def _continued_offsets(self) -> dict[str, str]:
        """``startingOffsets`` if the checkpoint is new and the ledger waits for a new one; else no option."""
        with closing(Ledgers(self._name, self._routes, stop=self._stop)) as ledgers:
            # Another pipeline that has these sinks must not meet this one's stop, or find its connections closed.
            ledgers.claim()
            ledgers.connect()
            entry = ledgers.peek().ahead
        if entry is not None:
            self._status.set_ends(entry.ends())
        is_new = checkpoint_at(self._session, self._checkpoint).last_planned() is None
        if entry is None or entry.lineage != OPEN_LINEAGE or not entry.progress or not is_new:
            return {}
        offsets = _every_partition(entry.ends(), self._partitions())
        log.info("%s goes on where its ledger ends: %s", self._name, to_nested(entry.ends()))
        return {"startingOffsets": json.dumps(to_nested(offsets))}

    def _partitions(self) -> list[TopicPartition]:
        with closing(SourceCluster(SourceOptions.parse(self._source, streaming=True))) as cluster:
            return sorted(cluster.snapshot(must_exist=True).partitions)


def _expected_batch(checkpoint: Checkpoint, entry: LedgerEntry | None) -> CheckpointBatch:
    """What Spark would hand over first if the query were started now, as far as its checkpoint tells."""
    last = checkpoint.last_planned()
    if last is None:
        # A new checkpoint: its query begins where a ledger that waits for it ends.
        ends = entry.ends() if entry is not None else {}
        return CheckpointBatch(lineage="a new checkpoint's", batch_id=0, starts={}, ends=ends, planned_at_ms=0)
    newest = checkpoint.planned(last)
    if last != checkpoint.last_done():
        return newest
    return replace(newest, batch_id=last + 1, starts=newest.ends, joined={}, planned_at_ms=0)


def _failure_of(error: StreamingQueryException) -> Exception:
    """The error for a query that was ended by the source, the plan, or Spark itself."""
    if (cause := cause_of(error)) is not None or spark_is_gone(error):
        return cause or from_executor(error)
    # An error of ours in the source comes without its fields, since its process tells Spark only the text.
    return TransformError(source="of the query", cause=_OURS.sub("", told(error)))


def _every_partition(
    ends: Mapping[TopicPartition, int], partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """Offsets for exactly the partitions there are, as Spark demands; new ones begin at their earliest record."""
    return {partition: ends.get(partition, _EARLIEST) for partition in partitions}
