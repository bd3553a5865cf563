"""The page of the command line, from the annotations that make its ``--help``."""

from __future__ import annotations

import enum
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from typing import Any

from tools.reference.markdown import filled, items


def command_line() -> Iterator[str]:
    """Every command with its arguments, from the annotations that make its ``--help``."""
    import directkafka.cli.all_commands  # noqa: F401 - they register with the app
    from directkafka.cli import app as module

    yield "# The command line"
    yield "`directkafka COMMAND` and `python -m directkafka COMMAND` are the same."
    yield filled(
        "Data goes to stdout, as text or with `--format json` as one JSON object a line; messages, progress and "
        "errors go to stderr."
    )
    codes = " ".join(inspect.getdoc(module).partition("\n\n")[2].split())  # type: ignore[union-attr]
    yield "Exit codes:"
    yield items(("", code) for code in codes.split(" · "))
    root = module.app.registered_callback
    assert root is not None
    assert root.callback is not None
    yield "Without a command:"
    yield items(_parameters(root.callback))
    for command in module.app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        yield f"## `directkafka {name}`"
        yield filled(inspect.getdoc(command.callback) or "")
        yield items(_parameters(command.callback))
        yield "```sh\n" + "\n".join(re.findall(r"directkafka .*", command.epilog or "")) + "\n```"


def _parameters(callback: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    hints = typing.get_type_hints(callback, include_extras=True)
    for name, parameter in inspect.signature(callback).parameters.items():
        info, kind = hints[name].__metadata__[0], typing.get_args(hints[name])[0]
        # Inside Annotated typer takes the first text of Option("--keep", ...) for the default.
        flags = [flag for flag in (info.default, *(info.param_decls or ())) if isinstance(flag, str)]
        shown = ", ".join(f"`{flag}`" for flag in flags) or f"`{info.metavar or name.upper()}`"
        yield f"{shown}{_values(kind, parameter.default)}", info.help or ""


def _values(kind: Any, default: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f" (one of {', '.join(f'`{member.value}`' for member in kind)}; default `{default.value}`)"
    if kind is bool or default in (inspect.Parameter.empty, None):
        return " (a whole number)" if int in (kind, *typing.get_args(kind)) else ""
    return f" (default `{default}`)"
