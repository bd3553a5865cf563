"""A Spark application for pipelines that find none: what it is told, and how its JVM is started.

The JVM is started as PySpark starts it, with four differences:

- It is in a process group of its own. A signal to the driver's group (a terminal's, ``timeout``'s) reaches the driver,
  which ends the batch in flight; the JVM lives until the driver is done. It still ends when the driver dies, however
  that dies: its standard input ends then.
- Its settings are in a file that is the user's alone. PySpark puts them on the command line, which everybody may read.
- Its workers' Unix sockets lie in a folder that is the user's alone. Spark makes them with the umask's mode.
- What it prints goes where :func:`send_output_to` says.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from directkafka.errors import EnvironmentFaultError
from directkafka.pipeline.application.spark_log import SparkLog
from directkafka.spark.private_folder import private_folder
from directkafka.spark.settings import spark_settings

log = logging.getLogger("directkafka.pipeline")

#: Set only where the user sets nothing: see docs/DESIGN.md, "Spark settings".
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}

#: Where nothing but this machine takes part, nothing listens for others.
_LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}

#: What PySpark logs with when it is told of an exception (``PySparkException._log_exception``).
_PYSPARK_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

#: How long an ending JVM may take until it has ended, once a call into it has failed.
_END_WAIT_S: Final = 10.0

#: Where the JVM's output goes; None: where the driver's goes.
_output: SparkLog | None = None


def send_output_to(output: SparkLog | None) -> None:
    """Have the JVM that :func:`start_application` starts write there, and PySpark as well; None: to the terminal.

    Of each failed query PySpark logs ten thousand characters of JSON, with values of records in it.
    """
    global _output  # noqa: PLW0603 - a process starts one JVM
    _output = output
    for name in _PYSPARK_LOGGERS:
        for handler in PySparkLogger.getLogger(name).handlers:
            # PySpark's own; others keep their streams, as those of programs that collect log lines.
            if type(handler) is logging.StreamHandler:
                # Not setStream(): it would flush the stream of before, which may be closed.
                handler.stream = output or sys.stderr


def start_application(name: str, *, master: str, conf: Mapping[str, object]) -> None:
    """Start Spark. The caller makes sure that none is active, and that nobody else starts one.

    Args:
        name: the application's name.
        master: Spark's master URL.
        conf: Spark settings by name; they count where ``spark-submit`` was told nothing else.

    Raises:
        EnvironmentFaultError: the JVM does not start.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = _submitted()
    master = submitted.get("spark.master", master) or master
    settings = {"spark.app.name": name, "spark.master": master, **_SETTINGS, **_local(master)}
    settings |= {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in conf.items()}
    settings = {key: value for key, value in settings.items() if not submitted.contains(key)}
    log.info("%s: starting Spark (%s)", name, master)
    begun = time.monotonic()
    if SparkContext._gateway is None:
        _launch(settings)
    session = SparkSession.builder.appName(name).config(map={**settings}).getOrCreate()
    if _output is not None:
        _quieten(session.sparkContext)
    version = session.version
    log.info("%s: Spark %s runs after %.1f s", name, version, time.monotonic() - begun)


def _quieten(context: SparkContext) -> None:
    """PySpark's server for accumulators prints a traceback when the JVM ends first; its callers are told anyway."""
    server: Any = context._accumulatorServer
    server.handle_error = lambda *_: log.debug("the JVM's connection for accumulators broke", exc_info=True)


def is_gone() -> bool:
    """Whether there is no JVM (any more), or the one that this process started ends within seconds.

    Nothing is known of a JVM that somebody else started.
    """
    if SparkContext._gateway is None:
        return True
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(_END_WAIT_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def java_answers() -> bool:
    """Whether the JVM answers a call; also one that somebody else started."""
    try:
        return SparkContext._gateway is not None and SparkContext._gateway.jvm.System.nanoTime() != 0
    except (Py4JError, OSError):
        return False


def _submitted() -> SparkConf:
    """What ``spark-submit`` was told, on its command line or in its files; nothing where it does not run."""
    if not _is_submitted():
        # A JVM of an application that was stopped in this process knows that one's settings.
        return SparkConf(loadDefaults=False)
    # Its JVM is there already, but is looked at only from now on.
    SparkContext._ensure_initialized()
    return SparkConf()


def _is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _local(master: str) -> dict[str, str]:
    """Settings of a machine by itself; what ``spark-submit`` starts stays as ``spark-submit`` would have it."""
    ours = spark_settings(master)
    return ours if _is_submitted() or not is_local(master) else {**ours, **_LOCAL_SETTINGS}


def is_local(master: str) -> bool:
    """Whether all of Spark is this one process: ``local`` and ``local[...]``, and not ``local-cluster[...]``."""
    return master.partition("[")[0] == "local"


def _launch(settings: Mapping[str, str]) -> None:
    """Start the JVM, and make it PySpark's."""
    how: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}
    if _output is not None:
        how |= {"stdout": _output.fileno(), "stderr": _output.fileno()}
    with _settings_file(settings) as is_told:
        conf = None if is_told else SparkConf(loadDefaults=False).setAll([*settings.items()])
        try:
            gateway: Any = launch_gateway(conf, popen_kwargs=how)  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            message = _output.first_words() if _output is not None else "what it said is above"
            raise EnvironmentFaultError(
                what=f"Spark's JVM did not start: {message or 'it said nothing'}",
                remedy="Spark needs Java 17 or later, found by JAVA_HOME or on PATH; and settings of the JVM that it "
                "understands.",
            ) from error
    SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _settings_file(settings: Mapping[str, str]) -> Iterator[bool]:
    """Tell the JVM its settings by a file, while it starts; whether that is possible.

    Spark takes one such file. Where the user's PYSPARK_SUBMIT_ARGS names one, settings go on the command line.
    """
    given = os.environ.get("PYSPARK_SUBMIT_ARGS")
    if "--properties-file" in (given or ""):
        yield False
        return
    path = private_folder() / "settings"
    # Its folder is the user's alone, so nobody else can have put a file or a link there.
    with path.open("w", encoding="utf-8") as file:
        path.chmod(0o600)
        file.writelines(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())
    ours = shlex.join(["--properties-file", str(path), "--load-spark-defaults"])
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{ours} {given or 'pyspark-shell'}"
    try:
        yield True
    finally:
        path.unlink(missing_ok=True)
        if given is None:
            del os.environ["PYSPARK_SUBMIT_ARGS"]
        else:
            os.environ["PYSPARK_SUBMIT_ARGS"] = given


def _escaped(text: str) -> str:
    r"""A key or a value of a Java properties file: ``\``, white space, ``=``, ``:``, ``#``, ``!`` and line ends."""
    ends = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f"}
    return re.sub(r"[\\\s=:#!]", lambda match: ends.get(match[0], "\\" + match[0]), text)
