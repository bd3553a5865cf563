"""The surroundings of a command that needs Spark: signals that end it well, and a file for what Spark prints."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from directkafka.cli.output import say
from directkafka.errors import DirectKafkaError, EnvironmentFaultError, FencedError, OptionError, WorkerLostError

if TYPE_CHECKING:
    from directkafka.pipeline.pipeline import Pipeline

__all__ = ["spark_in_file", "stopped_by_signals"]


@contextmanager
def spark_in_file(name: str, *, verbose: bool) -> Iterator[None]:
    """Keep what Spark prints off the terminal: it goes to a file, which an error names.

    What this library's own code logs in Spark's processes is shown all the same.

    An application that is there already, such as ``spark-submit``'s, prints where it did.

    Args:
        name: the pipeline's.
        verbose: whether the file is named at the start, and stays when all went well.
    """
    from directkafka.pipeline.application import send_output_to
    from directkafka.pipeline.spark_log import SparkLog

    # PySpark 4.3 imports pandas wherever it is installed, and complains of its version; nothing here needs it.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    output = SparkLog(name, tell=say)
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
        pipeline.session()
        for number in previous:
            signal.signal(number, ask_to_stop)
        yield
    except Exception as error:
        if not (asked and _is_of_the_stop(error)):
            raise
        say(f"{asked[-1]} ended Spark as well; the next start goes on from what the ledger has")
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _is_of_the_stop(error: Exception) -> bool:
    """Whether an error is what a signal to all processes makes of the batch in flight."""
    from directkafka.pipeline.application import is_gone

    if isinstance(error, FencedError | OptionError):
        return False
    return isinstance(error, EnvironmentFaultError | WorkerLostError) or is_gone()
