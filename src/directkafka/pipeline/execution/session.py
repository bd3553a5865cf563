"""The Spark session a pipeline runs in, and the check that its executors can run our code."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from directkafka.arrow_columns import column_of
from directkafka.errors import EnvironmentFaultError
from directkafka.pipeline.application.spark_application import is_local, start_application
from directkafka.pipeline.execution.executor_errors import from_executor, java_end_told, spark_is_gone
from directkafka.row_files import RowFolder, new_row_folder
from directkafka.spark.dataframe import map_in_arrow
from directkafka.spark.private_folder import private_folder
from directkafka.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("directkafka.pipeline")

#: Two pipelines that start at one moment make one Spark application.
_lock = threading.Lock()

#: Sessions of pipelines' own, in which no thread of the user's is to go on.
_own_sessions = WeakSet[SparkSession]()

#: Spark compares what a task of a shuffle gives when it is run again with what it gave before, and deals all rows anew
#: if they differ; it does so unless it is told not to, and a pipeline's rows must not be of two dealings.
_CHECKSUM_SETTINGS = (
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
)

#: Rows of an Arrow batch between Spark and the sinks' tasks; Spark's 10,000 costs about a tenth of the throughput.
_ARROW_BATCH_ROWS = 65_536


@java_end_told()
def session_for(name: str, *, master: str, conf: Mapping[str, object]) -> SparkSession:
    """A session of the pipeline's own: its temporary views and SQL settings touch nobody else's.

    An existing Spark application (a notebook's, another pipeline's) is used as it is; ``master`` and ``conf`` count
    only when there is none, and only where ``spark-submit`` was told nothing else.

    Args:
        name: the application's name, if it is made here.
        master: Spark's master URL.
        conf: Spark settings by name.
    """
    with _lock:
        if SparkContext._active_spark_context is None:
            start_application(name, master=master, conf=conf)
        session = SparkSession.builder.getOrCreate().newSession()
    note_own(session)
    _set_unless_chosen(session, "spark.sql.execution.arrow.maxRecordsPerBatch", _ARROW_BATCH_ROWS)
    for setting in _CHECKSUM_SETTINGS:
        session.conf.set(setting, "true")
    set_shuffle_partitions(session)
    return session


def set_shuffle_partitions(session: SparkSession) -> None:
    """Give a pipeline's own session as many shuffle tasks as Spark has cores now, unless the user chose a number.

    A batch is small: Spark's 200 tasks would cost more than its rows. To be called again behind
    :func:`check_executors`: until a cluster's first executor is there, Spark knows of two cores. Executors that come
    later do not count.
    """
    _set_unless_chosen(session, "spark.sql.shuffle.partitions", session.sparkContext.defaultParallelism)


@contextmanager
def active_session_kept() -> Iterator[None]:
    """Leave the thread's active session as it was, and tell of a JVM that ends meanwhile wherever that is noticed.

    Spark looks there for the format of a write. ``createDataFrame``, ours or a transform's, makes the pipeline's own
    session the active one, in which the user's thread would then go on. PySpark keeps the active session in
    ``SparkSession._activeSession`` as well, once for all threads; ``SparkSession.active()`` returns that.

    Raises:
        EnvironmentFaultError: Spark's JVM has ended.
    """
    with java_end_told():
        before, python_before = _active_session(), SparkSession._activeSession
        try:
            yield
        finally:
            _activate_in_python(python_before)
            # A Spark that is gone has no sessions, and must not hide why it is. Of a JVM that was killed Py4J raises
            # what its socket does.
            with suppress(Py4JError, OSError):
                _activate(before)


def _active_session() -> Any:
    context = SparkContext._active_spark_context
    if context is None or context._jvm is None:
        return None
    jvm: Any = context._jvm
    active = jvm.SparkSession.getActiveSession()
    return active.get() if active.isDefined() else None


def _activate(session: Any) -> None:
    context = SparkContext._active_spark_context
    if context is None or context._jvm is None:
        return
    jvm: Any = context._jvm
    if session is None:
        jvm.SparkSession.clearActiveSession()
    else:
        jvm.SparkSession.setActiveSession(session)


def _activate_in_python(before: SparkSession | None) -> None:
    """Put the user's session back if a pipeline's own is there; what another thread of the user's has put there stays.

    ``before`` is not the user's where two pipelines' blocks overlap, and of no use where its Spark has been stopped.
    """
    if SparkSession._activeSession not in _own_sessions:
        return
    is_users = before is not None and before not in _own_sessions and before._sc is SparkContext._active_spark_context
    SparkSession._activeSession = before if is_users else SparkSession._instantiatedSession


def note_own(session: SparkSession) -> None:
    """Tell :func:`active_session_kept` of a session in which a pipeline works: its own, or Spark's copy for a query."""
    _own_sessions.add(session)


def _set_unless_chosen(session: SparkSession, setting: str, value: int) -> None:
    """What the user chose for the application (spark-submit's ``--conf``, ``[spark]``) stays."""
    if application_setting(session, setting) is None:
        session.conf.set(setting, value)


def application_setting(session: SparkSession, setting: str) -> str | None:
    """What the application was told of a setting of Spark's; None where it was told nothing.

    PySpark's ``getConf`` copies all settings first, with a call into the JVM for each: 10 milliseconds.
    """
    return session.sparkContext._conf.get(setting)


@contextmanager
def row_folder(session: SparkSession) -> Iterator[RowFolder | None]:
    """A folder for rows on their way from tasks to the driver; None where it cannot be made, or tasks run elsewhere.

    If the job in this block fails it is removed; else it goes with the reports.
    """
    folder = new_row_folder(private_folder()) if is_local(session.sparkContext.master or "") else None
    try:
        yield folder
    except BaseException:
        if folder is not None:
            folder.remove()
        raise


def is_classic(frame: DataFrame) -> bool:
    """Whether a DataFrame belongs to a session in this process, not to Spark Connect."""
    return hasattr(frame, "_jdf")


#: Spark applications whose executors are known to be right; a job costs a few hundred milliseconds.
_checked: set[str] = set()

#: How often the executors are asked when they fail for a reason that may pass.
_PROBES_MAX = 3


def check_executors(session: SparkSession) -> None:
    """Run a tiny job that imports this package on the executors, once for each Spark application.

    Raises:
        EnvironmentFaultError: no Python there, another Python, no directkafka, or another version of it; or Spark has
            ended meanwhile.
    """
    application = session.sparkContext.applicationId
    if application in _checked:
        return
    log.info("asking the executors; after an install they compile kernels first, which takes about ten seconds")
    begun = time.monotonic()
    others = sorted(_versions(session) - {__version__})
    if others:
        raise EnvironmentFaultError(
            what=f"the driver has directkafka {__version__}, executors have {', '.join(others)}",
            remedy="Install the same version on both, or ship the driver's environment with the job.",
        )
    log.info("the executors answered after %.1f s: they have this package", time.monotonic() - begun)
    _checked.add(application)


def _versions(session: SparkSession) -> set[str]:
    """The versions of this package on the executors."""
    slots = session.sparkContext.defaultParallelism
    failures = 0
    while True:
        try:
            rows = map_in_arrow(session.range(0, slots, 1, slots), _probe, "version string").collect()
        except Exception as error:
            if spark_is_gone(error):
                raise from_executor(error) from error
            failures += 1
            # A worker that is killed while it starts says nothing of the settings; local mode tries no task twice.
            if _known_fault(str(error)) or failures == _PROBES_MAX:
                raise _explain(str(error)) from error
            log.warning("the executors are asked again, since it may pass: %s", _last_line(str(error)))
        else:
            return {str(row.version) for row in rows}


def _probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    # With numba and the kernels: what reads can be imported, or it is told here.
    import directkafka.kafka.consumer.range_reader  # noqa: F401
    from directkafka.version import __version__ as version

    for batch in batches:
        yield pa.record_batch({"version": column_of([version] * batch.num_rows, pa.string())})


def _known_fault(message: str) -> str | None:
    interpreter = os.environ.get("PYSPARK_PYTHON", "python3")
    known = {
        "No module named 'directkafka'": "the executors' Python has no directkafka",
        "PYTHON_VERSION_MISMATCH": "the executors run another minor version of Python than the driver",
        "Cannot run program": f"the executors cannot start the Python interpreter {interpreter!r}",
        "failed to connect back": f"the executors' Python interpreter {interpreter!r} does not start a Spark worker",
    }
    return next((text for sign, text in known.items() if sign in message), None)


def _explain(message: str) -> EnvironmentFaultError:
    return EnvironmentFaultError(
        what=_known_fault(message) or f"a job on the executors failed: {_last_line(message)}",
        remedy=f"Set PYSPARK_PYTHON to the interpreter that has the package (here: {sys.executable}), or ship the "
        "driver's environment with the job; the driver's and the executors' must be alike.",
    )


def _last_line(message: str) -> str:
    """What a Java error says at last, without its frames."""
    lines = [line.strip() for line in message.partition("\n\nDriver stacktrace")[0].splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("at ", "..."))]
    return told[-1] if told else "no message"
