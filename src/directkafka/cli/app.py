"""The application: its exit codes; signals that end a command well, and a file for what Spark prints.

0 success · 1 failure · 2 wrong usage (an option, the pipeline file) · 3 fenced by a newer driver, which a
supervisor must not answer with a restart.
"""

from __future__ import annotations

import logging
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from directkafka.cli.output import say
from directkafka.errors import (
    DirectKafkaError,
    EnvironmentFaultError,
    FencedError,
    OptionError,
    TransformError,
    WorkerLostError,
)
from directkafka.plain_text import one_line
from directkafka.version import __version__

if TYPE_CHECKING:
    from directkafka.pipeline.pipeline import Pipeline

log = logging.getLogger("directkafka.cli")

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_FENCED = 3

app = typer.Typer(
    name="directkafka",
    help="Kafka to PySpark to your store, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line and exit with its code."""
    from directkafka.cli import all_commands  # noqa: F401 - they register with the app

    try:
        app(standalone_mode=True)
    except DirectKafkaError as error:
        say(str(error), label="error", style="bold red")
        for note in getattr(error, "__notes__", ()):
            say(note)
        sys.exit(_exit_code(error))
    except Exception as error:  # noqa: BLE001 - Python would print it as it is, words of records included
        say(
            "".join(traceback.format_exception(error)),
            label="a fault of directkafka, please report it:",
            style="bold red",
        )
        sys.exit(EXIT_FAILURE)


def _exit_code(error: DirectKafkaError) -> int:
    if isinstance(error, FencedError):
        return EXIT_FENCED
    return EXIT_USAGE if isinstance(error, OptionError) else EXIT_FAILURE


@contextmanager
def spark_in_file(name: str, *, verbose: bool) -> Iterator[None]:
    """Keep what Spark prints off the terminal: it goes to a file, which an error names.

    What this library's own code logs in Spark's processes is shown all the same.

    An application that is there already, such as ``spark-submit``'s, prints where it did.

    Args:
        name: the pipeline's.
        verbose: whether the file is named at the start, and stays when all went well.
    """
    from directkafka.pipeline.application.spark_application import send_output_to
    from directkafka.pipeline.application.spark_log import SparkLog

    # PySpark 4.3 imports pandas wherever it is installed, and complains of its version; nothing here needs it.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    output = SparkLog(name, on_line=say)
    send_output_to(output)
    if verbose:
        say(f"what Spark prints: {output.path}")
    is_kept = verbose
    try:
        yield
    except (OptionError, FencedError):
        raise
    except Exception as error:
        is_kept = True
        if isinstance(error, DirectKafkaError) and output.first_words():
            error.add_note(f"What Spark printed: {output.path}")
        raise
    finally:
        send_output_to(None)
        output.close(is_kept=is_kept)


@contextmanager
def stopped_by_signals(pipeline: Pipeline) -> Iterator[None]:
    """Let SIGTERM and SIGINT ask the pipeline to stop after the batch in flight.

    A signal that comes while Spark starts counts as well. Spark then sets handlers of its own, so ours are set
    again behind it.

    A supervisor may send the signal to every process below it. Then Spark's JVM or its Python workers end under the
    batch in flight. That batch is committed or it is not, the ledger says which, and the next start goes on there:
    the stop that was asked for, and no failure.
    """
    asked: list[str] = []

    def ask_to_stop(number: int, _frame: FrameType | None) -> None:
        pipeline.request_stop()
        asked.append(signal.Signals(number).name)
        say(f"{asked[-1]}: stopping after the batch in flight")

    previous = {number: signal.signal(number, ask_to_stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        # Where that fails through the stop, there is nothing to be done, and the pipeline does nothing.
        with _spark_may_end(asked, is_starting=True):
            pipeline.session()
            for number in previous:
                signal.signal(number, ask_to_stop)
        with _spark_may_end(asked):
            yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def _spark_may_end(asked: Sequence[str], *, is_starting: bool = False) -> Iterator[None]:
    """Say what the end of Spark has broken, and no more, if one of these signals has asked for a stop."""
    try:
        yield
    except Exception as error:
        if not (asked and _is_of_the_stop(error, is_starting=is_starting)):
            raise
        log.debug("what the end of Spark has broken", exc_info=True)
        found = one_line(f"{type(error).__name__}: {_words(error)}")
        say(f"{asked[-1]} ended Spark as well; the next start goes on from what the ledger has ({found})")


def _words(error: Exception) -> str:
    """An error's text; Py4J asks the JVM for that of its own, and the JVM may be gone."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever Py4J makes of a JVM that does not answer
        return "Java cannot be asked for its words any more"


def _is_of_the_stop(error: Exception, *, is_starting: bool) -> bool:
    """Whether an error is what a Spark that was ended makes of its start or of the batch in flight.

    A JVM that ends while it starts has many words for it. Later all else is the pipeline's own failure, also if Spark
    has ended meanwhile: a commit whose outcome is unknown, records that are lost, a row that is refused, a bug.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from directkafka.pipeline.application.spark_application import is_gone
    from directkafka.pipeline.execution.executor_errors import spark_is_gone
    from directkafka.pipeline.retry import may_pass

    if isinstance(error, EnvironmentFaultError | WorkerLostError):
        return True
    try:
        if spark_is_gone(error):
            return True
    except Py4JError:  # Java would have told more of it, and does not answer
        return is_gone()
    is_of_the_start = is_starting and isinstance(error, Py4JError | PySparkException)
    return (is_of_the_start or may_pass(error) or _is_of_a_broken_call(error)) and is_gone()


def _is_of_a_broken_call(error: Exception) -> bool:
    """Whether a call into the JVM got no answer; a failure that the JVM has told is one, as Py4JJavaError is."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkRuntimeError

    # What ends a job is told as the transform's.
    cause = error.__cause__ if isinstance(error, TransformError) else error
    broken = (Py4JError, PySparkRuntimeError, ConnectionError, EOFError)
    return isinstance(cause, broken) and not isinstance(cause, Py4JJavaError)
