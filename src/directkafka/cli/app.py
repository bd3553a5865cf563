"""The commands and their exit codes.

0 success · 1 failure · 2 wrong usage (an option, the pipeline file) · 3 fenced by a newer driver, which a
supervisor must not answer with a restart.
"""

from __future__ import annotations

import sys
import traceback
from typing import Annotated

import typer

from directkafka.cli.output import say
from directkafka.errors import DirectKafkaError, FencedError, OptionError
from directkafka.version import __version__

__all__ = ["app", "main"]

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_FENCED = 3

app = typer.Typer(
    name="directkafka",
    help="Kafka to PySpark to your store, exactly once.",
    no_args_is_help=True,
    add_completion=False,
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
    from directkafka.cli import commands  # noqa: F401 - it registers the commands with the app

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
