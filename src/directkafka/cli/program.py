"""The program: runs one command, and ends with its exit code."""

from __future__ import annotations

import sys
import traceback

from directkafka.cli import all_commands  # noqa: F401 - they register with the app
from directkafka.cli.app import EXIT_FAILURE, EXIT_FENCED, EXIT_USAGE, app
from directkafka.cli.output import say
from directkafka.errors import DirectKafkaError, FencedError, OptionError


def main() -> None:
    """Run the command line and exit with its code."""
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
