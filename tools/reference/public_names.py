"""The page of public names, with their signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

from tools.reference.markdown import WIDTH, filled, items, markdown, prose

#: What the guides import from modules; see ``test_what_a_page_imports_is_on_the_page_of_public_names``.
_IMPORTED = (
    "directkafka.sinks.config.sink_config",
    "directkafka.sinks.files.reader.committed_files",
    "directkafka.sinks.wrapped_sink.Clonable",
    "directkafka.testing.java.use_java",
    "directkafka.testing.store_contract.StoreContract",
    "directkafka.testing.store_driver.StoreHarness",
    "directkafka.testing.table_contract.TableContract",
)
_GIVEN = (
    "directkafka.spark.dstream.stream.DirectStream",
    "directkafka.pipeline.progress.BatchReport",
    "directkafka.pipeline.replay.report.ReplayReport",
    "directkafka.pipeline.replay.report.ReplaySummary",
    "directkafka.pipeline.replay.report.ReasonCount",
    "directkafka.sinks.files.reader.CommittedFiles",
)


def api() -> Iterator[str]:
    """Every public name with its signature and docstring."""
    import directkafka

    yield "# Public names"
    yield filled(
        "`import directkafka as dk`. Names that are not on this page may change at any time, and so may the modules of "
        "those that stand under [what a program is given](#what-a-program-is-given)."
    )
    for name in sorted(directkafka.__all__, key=str.lower):
        if name != "__version__":
            yield from _documented(f"dk.{name}", getattr(directkafka, name))
    yield "## `dk.__version__`"
    yield "The version, as text."
    yield "## Tests: `directkafka.testing`"
    testing = importlib.import_module("directkafka.testing")
    for name in testing.__all__:
        yield from _documented(f"dk.testing.{name}", getattr(testing, name))
    plugin = importlib.import_module("directkafka.testing.pytest_plugin")
    yield "## Names of modules"
    yield "Imported from the module that they are named with."
    for path in _IMPORTED:
        yield from _documented(path, _object_at(path))
    yield "## What a program is given"
    yield "Made by this library alone."
    for path in _GIVEN:
        yield from _documented(path.rpartition(".")[2], _object_at(path), is_made=False)
    yield "## Fixtures of pytest"
    yield "They are there wherever directkafka is installed; nothing is to be imported."
    yield items((f"`{name}`", prose(inspect.getdoc(getattr(plugin, name)) or "")) for name in plugin.__all__)


def _object_at(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _documented(name: str, definition: Any, *, is_made: bool = True) -> Iterator[str]:
    yield f"## `{name}`"
    is_error = inspect.isclass(definition) and issubclass(definition, Exception)
    is_protocol = getattr(definition, "_is_protocol", False)
    if is_made and not is_error and not is_protocol:
        yield signature_of(name, definition)
    yield from markdown(inspect.getdoc(definition) or "")
    if is_error:
        yield f"Fields and message: [errors.md](errors.md#{name.rpartition('.')[2].lower()})."
    elif inspect.isclass(definition) and not name.endswith("Contract"):  # a suite's members are its tests
        for member, value in _members(definition).items():
            yield from _member(member, value)


def _members(kind: type) -> dict[str, Any]:
    """What a class has. A server for tests has most of it from classes that have no page."""
    bases = [base for base in kind.__mro__[1:] if base.__module__.startswith("directkafka.testing.servers.")]
    names = dict.fromkeys(name for base in (kind, *bases) for name in vars(base) if not name.startswith("_"))
    return {name: inspect.getattr_static(kind, name) for name in names}


def _member(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, property):
        yield f"### `{name}`"
        yield from markdown(inspect.getdoc(value.fget) or "")
    elif inspect.isroutine(value) or isinstance(value, classmethod | staticmethod):
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        yield f"### `{name}()`"
        yield signature_of(name, function)
        yield from markdown(inspect.getdoc(function) or "")


def signature_of(name: str, definition: Any) -> str:
    """A signature as a program would write it, in a fence."""
    signature = inspect.signature(definition)
    parameters = list(_parameters_of(signature))
    returns = "" if inspect.isclass(definition) else f" -> {signature.return_annotation}"
    shown = f"{name}({', '.join(parameters)}){returns}"
    # Short enough for a line, or one parameter on each.
    if len(shown) > WIDTH:
        shown = f"{name}(\n    " + ",\n    ".join(parameters) + f",\n){returns}"
    return f"```python\n{shown}\n```"


def _parameters_of(signature: inspect.Signature) -> Iterator[str]:
    """Each parameter, and the marks that Python puts between them."""
    given = [parameter for parameter in signature.parameters.values() if parameter.name not in ("self", "cls")]
    before = None
    for parameter in given:
        kind = parameter.kind
        if before is parameter.POSITIONAL_ONLY and kind is not before:
            yield "/"
        if kind is parameter.KEYWORD_ONLY and before not in (kind, parameter.VAR_POSITIONAL):
            yield "*"
        yield _parameter(parameter)
        before = kind
    if before is inspect.Parameter.POSITIONAL_ONLY:
        yield "/"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = "*" * (parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)) + "*" * (
        parameter.kind is parameter.VAR_KEYWORD
    )
    # A named tuple's annotations are wrapped.
    shown = f"{stars}{parameter.name}: {getattr(parameter.annotation, '__forward_arg__', parameter.annotation)}"
    if parameter.default is inspect.Parameter.empty:
        return shown
    python = f'"{parameter.default}"' if isinstance(parameter.default, str) else str(parameter.default)
    default = getattr(parameter.default, "__name__", None) or python
    return f"{shown} = {default}"
