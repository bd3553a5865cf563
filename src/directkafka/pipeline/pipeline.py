"""The public pipeline: source, transform, sinks and a trigger under one name."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Unpack

from pyspark.sql import SparkSession

from directkafka.errors import AlreadyRunningError, OptionError
from directkafka.options.source import SourceOptions
from directkafka.options.texts import path_text
from directkafka.pipeline.direct.engine import DirectEngine
from directkafka.pipeline.execution.batch_writer import RangesWriter
from directkafka.pipeline.execution.native.writer import make_writers
from directkafka.pipeline.execution.routes import Route, Sinks, cloned, route_outputs, tell_sinks_what_is_read
from directkafka.pipeline.execution.session import (
    active_session_kept,
    check_executors,
    session_for,
    set_shuffle_partitions,
)
from directkafka.pipeline.execution.transform import GivenTransform, Transform, transform_given, transform_named
from directkafka.pipeline.file import check_name, load, parse_trigger
from directkafka.pipeline.isolation.policy import DeadLetterPolicy
from directkafka.pipeline.isolation.writer import isolating
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.pipeline.notebook import NotebookViews
from directkafka.pipeline.progress import Reporter, log_report
from directkafka.pipeline.replay.engine import ReplayEngine
from directkafka.pipeline.replay.report import ReplayReporter, ReplaySummary, log_replay
from directkafka.pipeline.replay.selection import Chosen, ReplaySelection
from directkafka.pipeline.retry import RetryPolicy, StopAsked
from directkafka.pipeline.source import PipelineSource
from directkafka.pipeline.status import PipelineStatus
from directkafka.pipeline.structured.api import BatchFunction, check_engine
from directkafka.pipeline.structured.engine import StructuredEngine
from directkafka.planning.plan import PlanPolicy
from directkafka.planning.trigger import GivenTrigger
from directkafka.sinks.api import Sink
from directkafka.spark.source_cluster import SourceCluster

#: How often who waits for the pipeline lets Python run handlers of signals: another thread may have taken the signal.
_SIGNALS_SEEN_S = 1.0


class Pipeline(NotebookViews):
    """Kafka through a transform into stores, exactly once.

    Args:
        name: identity in the stores' ledgers; never reuse it for another job. Letters, digits, ``.``, ``_``, ``-``.
        source: options of the format ``directkafka``, for example ``subscribe``.
        transform: a query over the view ``source``, a function from a DataFrame to one or to a dict of them, or an
            :class:`ArrowTransform`. None: the source's columns as they are.
        sinks: where the output goes; a dict binds the transform's named outputs. A sink belongs to one pipeline.
        dead_letters: a sink for the records that the transform rejects, each as it came and with the reason; or a
            :class:`DeadLetterPolicy`, which also says what becomes of records that make their batch fail.
        trigger: ``"1s"``, ``"available-now"``, ``{"delay": "1s"}`` or ``{"records": 100000, "at_most": "5s"}``; under
            the direct engine also a function of a :class:`Moment` (now, start and end of the last batch, backlog),
            which says how many milliseconds to wait, and is asked again after them; 0 is now.
        engine: ``"direct"``: the ledger is the checkpoint. ``"structured"``: a query of Structured Streaming with a
            checkpoint beside the ledger, for windows, deduplication and other state across batches.
        checkpoint: the structured engine's folder, of this pipeline alone; the direct engine has none.
        output_mode: the structured engine's: ``"append"``, ``"update"`` or ``"complete"``.
        execution: ``"auto"``: rows stay in the Python workers that read them, where that is possible: under the direct
            engine, with an :class:`ArrowTransform` or none. ``"spark"``: they pass through Spark in any case.
        commit_to_group: a consumer group to which the offsets are committed after each batch and at the end, for tools
            that know Kafka's groups. Never read back; a refusal is a warning.
        master, spark_conf: used only when no Spark session exists, and where ``spark-submit`` was told nothing else.
        report: told of each committed batch; one log line each by default. What it raises is logged, no more.
        retry_ms_max: how long after its first failure a step whose failure may pass (a database that restarts) is
            tried again, in milliseconds.

    Raises:
        OptionError: an option is wrong.
    """

    def __init__(
        self,
        name: str,
        *,
        source: Mapping[str, str],
        transform: GivenTransform = None,
        sinks: Sinks,
        dead_letters: Sink | DeadLetterPolicy | None = None,
        trigger: GivenTrigger = "1s",
        engine: str = "direct",
        checkpoint: str | os.PathLike[str] | None = None,
        output_mode: str = "append",
        execution: str = "auto",
        commit_to_group: str | None = None,
        master: str = "local[*]",
        spark_conf: Mapping[str, object] | None = None,
        report: Reporter = log_report,
        retry_ms_max: int = 60_000,
    ) -> None:
        check_engine(engine, checkpoint, trigger)
        check_name(name)
        self.name = name
        self.report = report
        policy = DeadLetterPolicy.of(dead_letters)
        self._routes = route_outputs(sinks, None if policy is None else policy.sink)
        self._source = PipelineSource.of(
            source, self._routes, commit_to_group=commit_to_group, is_structured=checkpoint is not None
        )
        self._transform = transform
        tell_sinks_what_is_read(self._routes, self.source_options, pipeline=name)
        self._trigger = parse_trigger(trigger)
        self._trigger_given = trigger
        self._checkpoint = None if checkpoint is None else path_text(checkpoint, option="checkpoint")
        #: What it does now, and has done in this process.
        self.status = PipelineStatus(name, [self.source_options], self._routes, checkpoint=self._checkpoint)
        self._output_mode = output_mode
        if execution not in ("auto", "spark"):
            raise OptionError(option="execution", reason=f"expected 'auto' or 'spark', found {execution!r}")
        self._master = master
        self._spark_conf = dict(spark_conf or {})
        self._retry_ms_max = retry_ms_max
        self._stop = threading.Event()
        around = isolating(policy, is_structured=checkpoint is not None, stop=self._stop)
        self._make_writers = partial(make_writers, execution=execution, around=around)
        self._run_lock = threading.Lock()
        self._runner: int | None = None
        self._thread = None
        self._failure: BaseException | None = None

    @classmethod
    def from_toml(cls, path: str | Path, *, report: Reporter = log_report) -> Pipeline:
        """A pipeline from its file.

        Raises:
            OptionError: the file has mistakes; the message names file, place and remedy of each.
        """
        spec = load(path)
        arguments = spec.arguments()
        transform = transform_named(**spec.transform.model_dump(), folder=spec.path.resolve().parent)
        try:
            return cls(**arguments, transform=transform, report=report)
        except OptionError as error:
            raise spec.masked(replace(error, where=", ".join(filter(None, (str(path), error.where))))) from None

    @property
    def source_options(self) -> SourceOptions:
        """The source's options as parsed."""
        return self._source.options

    def source_in(self, session: SparkSession) -> SourceOptions:
        """The same, with the session's time zone for payloads that have no other, and the registry's schemas of now."""
        return self._source.in_session(session)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Which output goes into which sink."""
        return self._routes

    def routes_to_look_at(self) -> tuple[Route, ...]:
        """The bindings with sinks of their own, so that closing their stores ends nothing of a run.

        Raises:
            AlreadyRunningError: it runs in this process, into a sink that cannot be made a second time: one of the
                user's own kind that is no :class:`directkafka.sinks.wrapped_sink.Clonable`.
        """
        routes = cloned(self._routes)
        if routes is None and self.is_running:
            raise AlreadyRunningError(pipeline=self.name)
        if routes is None:
            return self._routes
        tell_sinks_what_is_read(routes, self.source_options, pipeline=self.name)
        return routes

    @property
    def checkpoint(self) -> str | None:
        """The structured engine's checkpoint; None under the direct engine."""
        return self._checkpoint

    def session(self) -> SparkSession:
        """A Spark session of the pipeline's own, in the existing application if there is one."""
        return session_for(self.name, master=self._master, conf=self._spark_conf)

    def _checked_session(self) -> SparkSession:
        """A session of the pipeline's own whose executors can run this package."""
        session = self.session()
        check_executors(session)
        set_shuffle_partitions(session)
        return session

    def transform(self, session: SparkSession) -> Transform:
        """The transform, imported if the file names one.

        Raises:
            OptionError: it cannot be imported.
        """
        return transform_given(self._transform, session)

    @active_session_kept()
    def check(self) -> tuple[str, ...]:
        """Ask for the topics, compile the transform, look at every table, ledger and executor; change nothing.

        A pipeline of this name that runs meanwhile is not disturbed, not even this very object.

        Returns:
            Remarks on the plans.

        Raises:
            AlreadyRunningError: see :meth:`routes_to_look_at`.
            DirectKafkaError: what is wrong.
        """
        routes = self.routes_to_look_at()
        session = self._checked_session()
        writer, carried = self._compiled(session, routes)
        cluster, ledgers = SourceCluster(self.source_options), Ledgers(self.name, routes)
        try:
            cluster.snapshot(must_exist=True)
            ledgers.connect()
            remarks = writer.check()
            waiting = ledgers.waiting()
        finally:
            cluster.close()
            ledgers.close()
        return (*remarks, *waiting, carried)

    def run(self) -> None:
        """Run in this thread until :meth:`stop` is called from elsewhere or the trigger ends it.

        Raises:
            AlreadyRunningError: it runs already, here or in the thread of :meth:`start`.
            FencedError: a newer driver of this name took over.
            DirectKafkaError: what stopped it; the next run goes on from the last committed batch.
        """
        with self._running():
            if not self._stop.is_set():
                with active_session_kept(), self.status.of_run(), suppress(StopAsked):
                    self._engine().run()

    @contextmanager
    def _running(self) -> Iterator[None]:
        """One run or replay at a time. A stop that was asked for before the start counts, and counts once."""
        if not self._run_lock.acquire(blocking=False):
            raise AlreadyRunningError(pipeline=self.name)
        self._runner = threading.get_ident()
        try:
            yield
        finally:
            self._stop.clear()
            self._runner = None
            self._run_lock.release()

    @active_session_kept()
    def replay(
        self, *, dry_run: bool = False, report: ReplayReporter = log_replay, **chosen: Unpack[Chosen]
    ) -> ReplaySummary:
        """Feed dead letters through the transform again, exactly once, in this thread, until all chosen ones are tried.

        The pipeline may run meanwhile in another process. What goes through leaves the dead letters in the transaction
        of its rows; what is rejected again stays, with the new reason and one more in the column ``replays``.

        Args:
            dry_run: only count; nothing is changed.
            report: told of each committed batch; one log line each by default.
            chosen: ``reason`` (a text in it), ``topic``, ``partition``, ``from_offset``, ``until_offset`` (exclusive),
                ``since``, ``until`` (of the timestamp; a datetime or ISO 8601, with a zone), ``limit``.

        Raises:
            OptionError: dead letters cannot leave their place, a sink cannot take records late, or the choice makes no
                sense.
            AlreadyRunningError: this object runs.
            FencedError: a newer replay of this pipeline took over.
            DirectKafkaError: what stopped it; the next replay goes on with what is left.
        """
        choice = ReplaySelection.of(self.name, self._routes, **chosen)
        if dry_run or not choice.dead_letters.is_there:
            return choice.count(is_dry=dry_run)
        with self._running():
            return self._replay_engine(choice, report).run()

    def start(self) -> None:
        """Run in a thread of its own; several pipelines may run in one process.

        Raises:
            AlreadyRunningError: it runs already.
            DirectKafkaError: what an earlier start died of, if nobody has waited for it.
        """
        if self._thread is not None and not self._thread.is_alive():
            self.wait()
        if self._run_lock.locked() or self._thread is not None:
            raise AlreadyRunningError(pipeline=self.name)
        self._thread = threading.Thread(target=self._run_in_thread, name=f"pipeline {self.name}", daemon=True)
        self._thread.start()

    def request_stop(self) -> None:
        """Ask the pipeline to stop after the batch in flight, or to end at once if it is not yet started.

        Returns at once. Safe in a signal handler while the pipeline runs in the thread of :meth:`start`.
        """
        self._stop.set()

    def stop(self) -> None:
        """Stop after the batch in flight, wait for it, and raise what the thread of :meth:`start` died of.

        A pipeline that does not run is left as it is. Called from its own report callback, it only asks.
        """
        self.request_stop()
        if self._runner == threading.get_ident():
            return
        try:
            self.wait()
        finally:
            with self._run_lock:  # also waits for a run() in another thread
                self._stop.clear()

    def wait(self) -> None:
        """Wait until a started pipeline ends by itself, and raise what it died of."""
        while (thread := self._thread) is not None and thread.is_alive():
            thread.join(_SIGNALS_SEEN_S)
        self._thread = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _replay_engine(self, choice: ReplaySelection, report: ReplayReporter) -> ReplayEngine:
        session = self._checked_session()
        writer = choice.writer(session, self.transform(session), self.source_in(session))
        if self._checkpoint is not None:
            writer.check_stateless()
        retry_policy = RetryPolicy(self._stop, retry_ms_max=self._retry_ms_max)
        return choice.engine(writer, report=report, stop=self._stop, retry_policy=retry_policy)

    def _engine(self) -> DirectEngine | StructuredEngine:
        session = self._checked_session()
        if self._checkpoint is None:
            return self._direct(session)
        return self._structured(session, self._routes, self._checkpoint)

    def _compiled(
        self, session: SparkSession, routes: tuple[Route, ...]
    ) -> tuple[RangesWriter | StructuredEngine, str]:
        """What can check transform and sinks without running, and a remark on who carries the rows."""
        if self._checkpoint is None:
            writers, remark = self._make_writers(session, self.source_in(session), self.transform(session), routes)
            return writers.own, remark
        engine = self._structured(session, routes, self._checkpoint)
        return engine, "rows pass through Spark: the structured engine's batches are Spark's"

    def _structured(self, session: SparkSession, routes: tuple[Route, ...], checkpoint: str) -> StructuredEngine:
        make_function = partial(
            BatchFunction, self.name, routes, checkpoint=checkpoint, report=self.report,
            retry_ms_max=self._retry_ms_max, status=self.status, stop=self._stop,
        )  # fmt: skip
        return StructuredEngine(
            self.name,
            session=session,
            source=self._source.given,
            transform=self.transform(session),
            routes=routes,
            checkpoint=checkpoint,
            trigger=self._trigger_given,
            output_mode=self._output_mode,
            make_function=make_function,
            stop=self._stop,
            retry_policy=self._retry_policy(),
            status=self.status,
        )

    def _direct(self, session: SparkSession) -> DirectEngine:
        # Before anything is opened: it may not know the transform's columns.
        source = self._retry_policy().until_done(partial(self.source_in, session))
        writers, _ = self._make_writers(session, source, self.transform(session), self._routes)
        return DirectEngine(
            self.name,
            cluster=SourceCluster(source),
            writers=writers,
            ledgers=Ledgers(self.name, self._routes, stop=self._stop),
            starting=source.starting,
            policy=PlanPolicy.of(source, limits=source.limits),
            min_offsets=source.min_offsets,
            trigger=self._trigger,
            report=self.report,
            stop=self._stop,
            retry_policy=self._retry_policy(),
            status=self.status,
        )

    def _retry_policy(self) -> RetryPolicy:
        return RetryPolicy(self._stop, retry_ms_max=self._retry_ms_max, on_retry=self.status.retried,
                           on_recovery=self.status.recovered)  # fmt: skip

    def _run_in_thread(self) -> None:
        try:
            self.run()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            self._failure = error
