"""A process that imports a module with a kernel, in an environment of its own; numba is there when it is forked."""

from __future__ import annotations

import importlib
import io
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stdout
from multiprocessing.connection import Connection


def import_and_say(module: str, environment: Mapping[str, str], answer: Connection) -> None:
    """Import it as a new Python in this environment would; what it printed goes to ``answer``."""
    from numba.core import config

    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    sys.dont_write_bytecode = True
    sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
    # Read when numba was imported, from the environment of then.
    config.reload_config()
    with redirect_stdout(io.StringIO()) as printed:
        importlib.import_module(module)
    answer.send(printed.getvalue().strip())
