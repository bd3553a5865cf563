"""The public pipeline: source, transform, sinks and a trigger under one name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from directkafka.errors import DirectKafkaError, OptionError
from directkafka.options import SourceOptions
from directkafka.pipeline.batch import BatchWriter, Binding
from directkafka.pipeline.progress import Reporter, log_report
from directkafka.pipeline.run import DirectEngine
from directkafka.pipeline.session import check_executors, session_for
from directkafka.pipeline.spec import PipelineSpec, SinkSpec, load, parse_trigger
from directkafka.pipeline.transform import DEFAULT_OUTPUT, PythonTransform, SqlTransform, Transform, load_function
from directkafka.sinks.postgres import PostgresSink
from directkafka.stores.base import Sink

__all__ = ["Pipeline"]

#: Of a pipeline's source, where the user says nothing: a pipeline must not write what a transaction took back.
_SOURCE_DEFAULTS = {"kafka.isolation.level": "read_committed"}

Sinks = Sink | Sequence[Sink] | Mapping[str, Sink | Sequence[Sink]]


class Pipeline:
    """Kafka through a transform into stores, exactly once.

    Args:
        name: identity in the stores' ledgers; never reuse it for another job.
        source: options of the format ``directkafka``, for example ``subscribe``.
        transform: a query over the view ``source``, or a function from a DataFrame to one or to a dict of them.
        sinks: where the output goes; a dict binds the transform's named outputs.
        trigger: ``"1s"``, ``"available-now"``, ``{"delay": "1s"}`` or ``{"records": 100000, "at_most": "5s"}``.
        engine: ``"direct"``: the ledger is the checkpoint.
        checkpoint: not used by the direct engine; must be None.
        master, spark_conf: used only when no Spark session exists.
        report: told of each committed batch; one log line each by default.
        retry_ms_max: how long a failure that may pass (a database that restarts) is met with another try, in
            milliseconds.

    Raises:
        OptionError: an option is wrong.
    """

    def __init__(
        self,
        name: str,
        *,
        source: Mapping[str, str],
        transform: str | Callable[[DataFrame], Any],
        sinks: Sinks,
        trigger: str | Mapping[str, Any] = "1s",
        engine: str = "direct",
        checkpoint: str | None = None,
        master: str = "local[*]",
        spark_conf: Mapping[str, object] | None = None,
        report: Reporter = log_report,
        retry_ms_max: int = 60_000,
    ) -> None:
        if engine != "direct" or checkpoint is not None:
            raise OptionError(
                option="engine",
                reason=f'expected "direct", which takes no checkpoint; found {engine!r}, {checkpoint!r}',
            )
        self.name = name
        self.report = report
        self._source = SourceOptions.parse(source, streaming=True, defaults=_SOURCE_DEFAULTS)
        self._transform = transform
        self._bindings = _bindings(sinks)
        self._trigger = parse_trigger(trigger)
        self._master = master
        self._spark_conf = dict(spark_conf or {})
        self._retry_ms_max = retry_ms_max
        self._folder = Path.cwd()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    @classmethod
    def from_toml(cls, path: str | Path, *, report: Reporter = log_report) -> Pipeline:
        """A pipeline from its file.

        Raises:
            OptionError: the file has a mistake; the message names file, place and remedy.
        """
        spec = load(path)
        pipeline = cls(
            spec.pipeline.name,
            source=spec.source_options(),
            transform=spec.transform.sql or "",
            sinks=_sinks_of(spec),
            trigger=spec.pipeline.trigger,
            master=spec.spark.master,
            spark_conf=spec.spark.conf,
            report=report,
        )
        pipeline._folder = spec.path.resolve().parent
        pipeline._transform = spec.transform.sql or spec.transform.python or ""
        pipeline._is_reference = spec.transform.python is not None
        return pipeline

    _is_reference = False

    @property
    def source_options(self) -> SourceOptions:
        """The source's options as parsed."""
        return self._source

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """Which output goes into which sink."""
        return self._bindings

    def session(self) -> SparkSession:
        """A Spark session of the pipeline's own, in the existing application if there is one."""
        return session_for(self.name, master=self._master, conf=self._spark_conf)

    def transform(self, session: SparkSession) -> Transform:
        """The transform, imported if the file names one.

        Raises:
            OptionError: it cannot be imported.
        """
        if callable(self._transform):
            return PythonTransform(self._transform, getattr(self._transform, "__name__", "function"))
        if self._is_reference:
            return load_function(self._transform, self._folder, session)
        return SqlTransform(self._transform)

    def check(self) -> tuple[str, ...]:
        """Compile the transform and check every table and the executors, without reading a record.

        Returns:
            Remarks on the plans.

        Raises:
            DirectKafkaError: what is wrong.
        """
        session = self.session()
        check_executors(session)
        writer = BatchWriter(
            session, self.transform(session), self._bindings, include_headers=self._source.include_headers
        )
        return writer.prepare()

    def run(self) -> None:
        """Run in this thread until :meth:`stop` is called from elsewhere or the trigger ends it.

        Raises:
            FencedError: a newer driver of this name took over.
            DirectKafkaError: what stopped it; the next run goes on from the last committed batch.
        """
        session = self.session()
        check_executors(session)
        engine = DirectEngine(
            self.name,
            source=self._source,
            transform=self.transform(session),
            bindings=self._bindings,
            trigger=self._trigger,
            session=session,
            report=self.report,
            retry_ms_max=self._retry_ms_max,
        )
        engine.run(self._stop)

    def start(self) -> None:
        """Run in a thread of its own; several pipelines may run in one process.

        Raises:
            DirectKafkaError: it is running already.
        """
        if self._thread is not None and self._thread.is_alive():
            raise DirectKafkaError()
        self._stop.clear()
        self._failure = None
        self._thread = threading.Thread(target=self._run_in_thread, name=f"pipeline {self.name}", daemon=True)
        self._thread.start()

    def request_stop(self) -> None:
        """Ask the pipeline to stop after the batch in flight; returns at once. Safe in a signal handler."""
        self._stop.set()

    def stop(self) -> None:
        """Stop after the batch in flight, wait for it, and raise what the thread of :meth:`start` died of."""
        self.request_stop()
        self.wait()

    def wait(self) -> None:
        """Wait until a started pipeline ends by itself, and raise what it died of."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _run_in_thread(self) -> None:
        try:
            self.run()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            self._failure = error


def _bindings(sinks: Sinks) -> tuple[Binding, ...]:
    if isinstance(sinks, Mapping):
        return tuple(Binding(output=output, sink=sink) for output, some in sinks.items() for sink in _as_sequence(some))
    return tuple(Binding(output=DEFAULT_OUTPUT, sink=sink) for sink in _as_sequence(sinks))


def _as_sequence(sinks: Sink | Sequence[Sink]) -> Sequence[Sink]:
    return sinks if isinstance(sinks, Sequence) else (sinks,)


def _sinks_of(spec: PipelineSpec) -> dict[str, list[Sink]]:
    sinks: dict[str, list[Sink]] = {}
    for one in spec.sink:
        sinks.setdefault(one.source_output, []).append(_sink(one))
    return sinks


def _sink(spec: SinkSpec) -> Sink:
    return PostgresSink(
        spec.dsn,
        spec.table,
        spec.mode,
        key=spec.key,
        add=spec.add,
        schema_policy=spec.schema_policy,
        inline_bytes_max=spec.inline_bytes_max,
        connections_max=spec.connections_max,
    )
