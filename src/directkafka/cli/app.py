"""The application: its exit codes; signals that end a command well, and a file for what Spark prints.

0 success · 1 failure · 2 wrong usage (an option, the pipeline file) · 3 fenced by a newer driver, which a
supervisor must not answer with a restart.
"""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from directkafka.cli.output import say
from directkafka.errors import (
    DirectKafkaError,
    FencedError,
    OptionError,
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
    """Where one of these signals has asked for a stop, only say what the end of Spark has broken; raise all else."""
    try:
        yield
    except Exception as error:
        if not asked:
            raise
        from directkafka.pipeline.application.spark_end import is_of_the_end, words_of

        if not is_of_the_end(error, is_starting=is_starting):
            raise
        log.debug("what the end of Spark has broken", exc_info=True)
        error_text = one_line(f"{type(error).__name__}: {words_of(error)}")
        say(f"{asked[-1]} ended Spark as well; the next start goes on from what the ledger has ({error_text})")
