"""Every page by its path, and who makes it.

Each page is a pure function of the package: the option table, the models of the pipeline file, the commands'
annotations, the error classes, the docstrings of the public names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tools.reference.command_line import command_line
from tools.reference.design import design
from tools.reference.errors import errors, faults
from tools.reference.options import options, sink_options, stream_settings
from tools.reference.pipeline_file import pipeline_file
from tools.reference.public_names import api

DOCS = Path(__file__).parents[2] / "docs"

_MADE_BY = "<!-- Made by tools/reference from the code: change that, and run `make docs`. -->"


def pages() -> dict[str, str]:
    """Text of every page by its path below ``docs``."""
    makers: dict[str, Callable[[], Iterator[str]]] = {
        "api.md": api,
        "cli.md": command_line,
        "errors.md": errors,
        "faults.md": faults,
        "options.md": options,
        "pipeline-file.md": pipeline_file,
        "sink-options.md": sink_options,
        "stream-settings.md": stream_settings,
    }
    made = {f"reference/{name}": "\n\n".join((_MADE_BY, *maker())) + "\n" for name, maker in makers.items()}
    return made | {"DESIGN.md": design((DOCS / "DESIGN.md").read_text(encoding="utf-8"))}
