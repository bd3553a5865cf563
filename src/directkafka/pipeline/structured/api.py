"""Structured Streaming into the sinks of a pipeline, exactly once: ``foreach_batch`` and ``write_stream``."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from directkafka.errors import DirectKafkaError, EnvironmentFaultError, OptionError, TransformError
from directkafka.errors.transport import Notes
from directkafka.options.texts import path_text
from directkafka.pipeline.execution.batch_writer import BatchWriter
from directkafka.pipeline.execution.routes import Route, Sinks, route_outputs
from directkafka.pipeline.execution.session import check_executors, is_classic, note_own
from directkafka.pipeline.execution.transform import PythonTransform, SqlTransform, Transform
from directkafka.pipeline.file import check_name, parse_trigger
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.pipeline.progress import Reporter, log_report
from directkafka.pipeline.retry import RetryPolicy, StopAsked
from directkafka.pipeline.status import PipelineStatus, Step
from directkafka.pipeline.structured.hadoop_files import checkpoint_at
from directkafka.pipeline.structured.query_run import AS_IT_IS, QueryRun
from directkafka.planning.trigger import AvailableNow, GivenTrigger, Interval

_ENGINES = ("direct", "structured")

BatchTransform = str | Callable[[DataFrame], Any] | None

#: What Spark sets on the thread that runs a query: the id in the checkpoint, and the one of this run.
_QUERY_ID = "sql.streaming.queryId"
_RUN_ID = "spark.jobGroup.id"


class BatchFunction:
    """A function for ``writeStream.foreachBatch`` that writes each batch exactly once; see :func:`foreach_batch`.

    Args:
        name: the pipeline's name in the ledgers.
        routes: which output goes where.
        checkpoint: the query's ``checkpointLocation``.
        transform: what becomes of each batch.
        report: told of each committed batch.
        retry_ms_max: how long after its first failure a step whose failure may pass is tried again.
        status: told what the query does.
        stop: refuses further batches once it is set.
    """

    def __init__(
        self,
        name: str,
        routes: Sequence[Route],
        *,
        checkpoint: str,
        transform: Transform = AS_IT_IS,
        report: Reporter = log_report,
        retry_ms_max: int = 60_000,
        status: PipelineStatus | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        check_name(name)
        self.name = name
        self.checkpoint = checkpoint
        self._routes = tuple(routes)
        self._transform = transform
        self._report = report
        self._stop = stop or threading.Event()
        self._is_own = status is None
        self._status = status or PipelineStatus(name)
        self._retry_policy = RetryPolicy(
            self._stop,
            retry_ms_max=retry_ms_max,
            on_retry=self._status.retried,
            on_recovery=self._status.recovered,
        )
        self._batch_lock = threading.Lock()
        self._run_id: str | None = None
        self._run: QueryRun | None = None
        self._is_over = self._is_closing = False
        #: The query that calls, where it is known.
        self.query: StreamingQuery | None = None
        #: What ended the last run, as an object; Spark tells of it as text.
        self.failure: BaseException | None = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one micro-batch; called by Spark.

        Raises:
            FencedError: a newer driver took over; this one must not be started again.
            LineageError: the checkpoint is not the one that the ledger follows.
            DirectKafkaError: whatever else stopped it.
        """
        with self._batch_lock:
            try:
                if self._is_over or self._stop.is_set():
                    raise StopAsked("no further batch")
                self._status.at(Step.PLAN)
                self._run_of(frame).run_batch(frame, batch_id)
            except BaseException as error:
                self.failure = error
                self._end_run(None if isinstance(error, StopAsked) else error)
                if isinstance(error, DirectKafkaError):
                    # Spark hands it on as text; the note brings its fields to whoever waits for the query.
                    Notes.of_this_process().on(error)
                raise

    def __getstate__(self) -> dict[str, Any]:
        raise EnvironmentFaultError(
            what="this function holds connections to the stores, and cannot go to another process",
            remedy="Use a classic Spark session; Spark Connect runs foreachBatch on its server.",
        )

    def check_fenced(self) -> None:
        """Between two batches, ask whether a newer driver has taken the pipeline; nothing while a batch runs.

        A batch that Spark hands over meanwhile waits, and would meet the same store.

        Raises:
            FencedError: it has.
            StopAsked: a store was away when a stop was asked for.
            DirectKafkaError: the ledgers cannot be read, or could not for as long as a failing step is tried again.
        """
        if self._batch_lock.acquire(blocking=False):
            try:
                # Not before: a batch that failed meanwhile has ended its run.
                if self._run is not None:
                    self._run.check_fenced()
            finally:
                self._batch_lock.release()

    def end(self) -> None:
        """Wait for the batch in flight, and refuse any other.

        A driver that was fenced while it was idle must not be handed one more batch: it would begin a new run, and
        take the pipeline back.
        """
        self._is_over = True
        self.close()

    def close(self, failure: BaseException | None = None) -> None:
        """Wait for the batch in flight, and give the stores' connections back. The next batch begins a new run.

        A batch that waits in a pause is given up; Spark ends its query as failed.

        Args:
            failure: what ended the query, where that was not this function.
        """
        self._is_closing = True
        with self._batch_lock:
            self._is_closing = False
            self._end_run(failure)

    def _is_unwanted(self) -> bool:
        """Whether nobody waits for the batch in flight, which waits in a pause: Spark's stop waits for the batch."""
        try:
            is_stopped = self.query is not None and not self.query.isActive
        except (Py4JError, OSError):  # its JVM is gone
            is_stopped = True
        return self._is_over or self._is_closing or is_stopped

    def _end_run(self, failure: BaseException | None = None) -> None:
        if self._run is not None:
            self._run.close()
            if self._is_own:
                self._status.ended(failure)
        self._run = self._run_id = None

    def _run_of(self, frame: DataFrame) -> QueryRun:
        """The run that Spark calls for; at its first batch, all stores are taken over."""
        note_own(frame.sparkSession)
        context = frame.sparkSession.sparkContext
        run_id = context.getLocalProperty(_RUN_ID)
        if self._run is None or run_id != self._run_id:
            self._end_run()
            checkpoint = checkpoint_at(frame.sparkSession, self.checkpoint)
            query_id = context.getLocalProperty(_QUERY_ID)
            self._check_query(checkpoint.lineage(), query_id)
            run = QueryRun(
                self.name,
                checkpoint=checkpoint,
                writer=BatchWriter(frame, self._transform, self._routes),
                ledgers=Ledgers(self.name, self._routes, stop=self._stop),
                report=self._report,
                retry_policy=self._retry_policy,
                status=self._status,
                is_over=self._is_unwanted,
            )
            self._run, self._run_id, self.failure = run, run_id, None
            self._status.query_id = query_id
            if self._is_own:
                self._status.started()
            run.take_over()
        return self._run

    def _check_query(self, lineage: str | None, query_id: str | None) -> None:
        if query_id is None:
            raise EnvironmentFaultError(
                what="Spark does not tell this thread which query it runs for",
                remedy="Call it from foreachBatch alone, and do not set PYSPARK_PIN_THREAD to false.",
            )
        if lineage != query_id:
            raise OptionError(
                option="checkpoint",
                where=f"pipeline {self.name!r}",
                reason=f"{self.checkpoint} is the checkpoint of query {lineage or 'none'}, and query {query_id} calls; "
                "give both the same checkpointLocation",
            )


def foreach_batch(
    name: str,
    sinks: Sinks,
    *,
    checkpoint: str | os.PathLike[str],
    transform: BatchTransform = None,
    report: Reporter = log_report,
    retry_ms_max: int = 60_000,
) -> BatchFunction:
    """A function for one's own ``writeStream.foreachBatch(...)`` that writes each batch exactly once.

    Rows and ledger entry of a batch go into one transaction of each store. The query's output modes, watermarks and
    state are Spark's own. Call ``close()`` on it when the query has ended, to give connections back.

    Args:
        name: identity in the stores' ledgers; never reuse it for another job.
        sinks: where the rows go; a dict binds the transform's named outputs. They belong to this query.
        checkpoint: the query's ``checkpointLocation``, the same text.
        transform: applied to each batch: a query over the view ``source``, or a function from a DataFrame to one or
            to a dict of them. It keeps no state from batch to batch. None: rows go to the sinks as they are.
        report: told of each committed batch; one log line each by default.
        retry_ms_max: how long after its first failure a step whose failure may pass (a database that restarts) is
            tried again, in milliseconds.

    Raises:
        OptionError: an argument is wrong.
    """
    return BatchFunction(
        name,
        route_outputs(sinks),
        checkpoint=path_text(checkpoint, option="checkpoint"),
        transform=_transform(transform),
        report=report,
        retry_ms_max=retry_ms_max,
    )


def write_stream(
    df: DataFrame,
    name: str,
    sinks: Sinks,
    *,
    checkpoint: str | os.PathLike[str],
    trigger: str | Mapping[str, Any] = "1s",
    output_mode: str = "append",
    transform: BatchTransform = None,
    report: Reporter = log_report,
    retry_ms_max: int = 60_000,
) -> StreamingQuery:
    """Start a streaming query whose rows go into sinks, exactly once: windows, deduplication and joins included.

    A failure reaches ``awaitTermination()`` as Spark's ``StreamingQueryException``; :func:`cause_of` makes the
    error of ours of it, for example a :class:`~directkafka.errors.FencedError`.

    Args:
        df: the streaming DataFrame.
        name: identity in the stores' ledgers, and the query's name; never reuse it for another job.
        sinks: where the rows go; a dict binds the transform's named outputs. They belong to this query.
        checkpoint: a folder for Spark's ``checkpointLocation``, of this query alone.
        trigger: ``"1s"`` or ``"available-now"``.
        output_mode: ``"append"``, ``"update"`` or ``"complete"``, as Spark has them: which rows of a stateful query
            a batch has. How they meet rows of earlier batches is the sink's mode.
        transform, report, retry_ms_max: as in :func:`foreach_batch`.

    Returns:
        The running query.

    Raises:
        OptionError: an argument is wrong.
        TransformError: Spark does not take the query, for example with this output mode.
        EnvironmentFaultError: a session of Spark Connect, or executors without this package.
    """
    function = foreach_batch(
        name, sinks, checkpoint=checkpoint, transform=transform, report=report, retry_ms_max=retry_ms_max
    )
    return start_query(df, function, trigger=trigger, output_mode=output_mode)


def start_query(
    frame: DataFrame, function: BatchFunction, *, trigger: GivenTrigger, output_mode: str
) -> StreamingQuery:
    """Start the query; the stores' connections are given back when it ends.

    Raises:
        OptionError, TransformError, EnvironmentFaultError: as for :func:`write_stream`.
    """
    arguments = trigger_arguments(trigger)
    if not is_classic(frame):
        raise EnvironmentFaultError(
            what="Spark Connect runs foreachBatch in a process of its server", remedy="Use a classic Spark session."
        )
    check_executors(frame.sparkSession)
    try:
        writer = frame.writeStream.foreachBatch(function).queryName(function.name).outputMode(output_mode)
        query = writer.option("checkpointLocation", function.checkpoint).trigger(**arguments).start()
        function.query = query
    except AnalysisException as error:
        raise TransformError(source="of the query", cause=str(error.getMessage() or error)) from error
    threading.Thread(
        target=_close_at_end, args=(query, function), name=f"directkafka end of {function.name}", daemon=True
    ).start()
    return query


def _close_at_end(query: StreamingQuery, function: BatchFunction) -> None:
    try:
        query.awaitTermination()
    except Exception as error:  # noqa: BLE001 - what ended it is told to whoever waits for it
        function.close(error)
    else:
        function.close()


def check_engine(engine: str, checkpoint: str | os.PathLike[str] | None, trigger: GivenTrigger) -> None:
    """Refuse an engine that there is not, or options that are the other one's.

    Raises:
        OptionError: it is such a one.
    """
    if engine not in _ENGINES:
        raise OptionError(option="engine", reason=f"expected {' or '.join(map(repr, _ENGINES))}, found {engine!r}")
    if engine == "direct" and checkpoint is not None:
        raise OptionError(
            option="checkpoint", reason=f"the direct engine keeps its position in the ledger; remove {checkpoint!r}"
        )
    if engine == "structured":
        if not checkpoint:
            raise OptionError(option="checkpoint", reason='engine "structured" needs a folder for Spark\'s checkpoint')
        trigger_arguments(trigger)


def trigger_arguments(trigger: GivenTrigger) -> dict[str, Any]:
    """A trigger of ours as arguments of Spark's ``trigger()``.

    Raises:
        OptionError: Spark has no such trigger.
    """
    match parse_trigger(trigger):
        case AvailableNow():
            return {"availableNow": True}
        case Interval(interval_ms):
            return {"processingTime": f"{interval_ms} milliseconds"}
    raise OptionError(
        option="trigger",
        reason='Structured Streaming has "available-now" and intervals such as "1s"; for batches by size use the '
        "source's options minOffsetsPerTrigger and maxTriggerDelay",
    )


def cause_of(error: StreamingQueryException | str) -> DirectKafkaError | None:
    """The error of directkafka that ended a query, with its fields; None when it was none of ours.

    Spark hands an error of ``foreachBatch`` on as text, the traceback. The fields travel in it as a note, which only
    the process that runs the query can tell from a forged one.

    Args:
        error: what ``awaitTermination()`` raised or ``exception()`` returned, or its text.
    """
    return Notes.of_this_process().read(str(error))


def _transform(given: BatchTransform) -> Transform:
    if given is None:
        return AS_IT_IS
    if isinstance(given, str):
        return SqlTransform(given)
    return PythonTransform(given, getattr(given, "__name__", "function"))
