"""The option ``--env-file``: variables for a pipeline file, which stand in a file and not in the shell.

The form is that of files named ``.env``, as python-dotenv reads them: values may stand in quotes, and must where they
have a blank and a ``#`` in them; nothing in a value is replaced. A command reads the file before its pipeline file;
what it starts, such as Spark, finds the variables too, as if they had been exported.
"""

from __future__ import annotations

import os
import re
from io import StringIO
from pathlib import Path
from typing import Annotated

import typer

from directkafka.errors import OptionError

_OPTION = "--env-file"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _set_variables(path: Path | None) -> Path | None:
    """Set the variables of a file; those that the environment has stay as they are.

    Raises:
        OptionError: the file cannot be read, or has a line that is no NAME=VALUE. The line is not shown.
    """
    if path is None:
        return None
    from dotenv.parser import parse_stream

    try:
        content = path.read_bytes()
    except OSError as error:
        raise OptionError(option=_OPTION, reason=f"{path} cannot be read ({error.strerror})") from error
    text = content.decode(errors="replace")
    if text.encode() != content:
        raise OptionError(option=_OPTION, reason=f"{path} is not UTF-8 text")
    for line in parse_stream(StringIO(text)):
        is_name = line.key is None or _NAME.fullmatch(line.key)
        if line.error or not is_name or "\0" in (line.value or ""):
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
