"""The option ``--env-file``: variables for a pipeline file, which stand in a file and not in the shell.

The form is that of ``docker run --env-file`` and of the files named ``.env``. A command reads it before its pipeline
file; what it starts, such as Spark, finds the variables too, as if they had been exported.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from directkafka.errors import OptionError

_OPTION = "--env-file"


def _set_variables(path: Path | None) -> Path | None:
    """Set the variables of a file; those that the environment has stay as they are.

    Raises:
        OptionError: the file cannot be read, or has a line that is no NAME=VALUE. The line is not shown.
    """
    if path is None:
        return None
    from dotenv.parser import parse_stream

    try:
        with path.open(encoding="utf-8") as file:
            lines = list(parse_stream(file))
    except OSError as error:
        raise OptionError(option=_OPTION, reason=f"{path} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError:
        # Not behind the new error: it holds the bytes.
        raise OptionError(option=_OPTION, reason=f"{path} is not UTF-8 text") from None
    for line in lines:
        if line.error or "\0" in (line.value or ""):
            raise OptionError(option=_OPTION, reason=f"line {line.original.line} is no NAME=VALUE", where=str(path))
        if line.key and line.value is not None:
            os.environ.setdefault(line.key, line.value)
    return path


#: For a command about a pipeline file. It has done its work when the command begins.
EnvFileOption = Annotated[
    Path | None,
    typer.Option(
        _OPTION,
        metavar="FILE",
        callback=_set_variables,
        is_eager=True,
        help="Variables for ${NAME}, NAME=VALUE a line; those of the environment come first.",
    ),
]
