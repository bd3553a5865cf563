"""Writes ``docs/reference/`` and parts of ``docs/DESIGN.md`` from the code, so that they cannot say something else.

``make docs`` runs this file; ``tests/unit/test_docs.py`` makes the pages anew in memory and compares. Each page
is a pure function of the package: the option table, the models of the pipeline file, the commands' annotations,
the error classes, the docstrings of the public names.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import os
import re
import textwrap
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "directkafka"
WIDTH = 110

_MADE_BY = "<!-- Made by tools/reference.py from the code: change that, and run `make docs`. -->"
_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):`~?([^`]+)`")
_SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Yields")
_ITEM = re.compile(r"^(\S.*?)(?: \(([^()]+)\))?:(?:\s+(.*))?$")


def main() -> None:
    """Write every page."""
    (DOCS / "reference").mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
        print(f"docs/{name}")


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


# The design document ----------------------------------------------------------------------------------------


def design(text: str) -> str:
    """The design document with its layers made anew."""
    return _between("layers", text, layers())


def layers() -> str:
    """The import contract of ``pyproject.toml`` as a drawing: a room imports only from those behind it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    lines = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    drawn = " → ".join(line.replace("directkafka.", "").replace(" | ", "\u00a0|\u00a0") for line in lines)
    return "```text\n" + textwrap.fill(drawn, 120).replace("\u00a0", " ") + "\n```"


def _between(name: str, text: str, content: str) -> str:
    head, _, rest = text.partition(f"<!-- {name} -->")
    _, _, tail = rest.partition(f"<!-- /{name} -->")
    return f"{head}<!-- {name} -->\n\n{content}\n\n<!-- /{name} -->{tail}"


# Options ----------------------------------------------------------------------------------------------------


def options() -> Iterator[str]:
    """The options of the source, and what becomes of the names that it does not read."""
    from directkafka.options.client import client_specs
    from directkafka.options.source import option_table

    yield "# Options of the source"
    yield _filled(
        'For `spark.read.format("directkafka")`, `spark.readStream.format("directkafka")` and the section '
        "`[source]` of a pipeline file. The names are those of Spark's own `kafka` format; their case does not matter."
    )
    client = set(client_specs())
    yield "## The source's own"
    for spec in option_table():
        if spec not in client:
            yield _option(spec, "")
    yield "## The client's"
    yield _filled(
        "Written behind `kafka.`. A pipeline reads with `kafka.isolation.level` = `read_committed` where nothing else "
        "is said; a plain read with Kafka's own default."
    )
    for spec in option_table():
        if spec in client:
            yield _option(spec, "kafka.")
    yield "## Refused, because the job would run otherwise than it did"
    yield from _client_names()


def stream_settings() -> Iterator[str]:
    """What a direct stream and an RDD read beside the client's settings."""
    from directkafka.options.consumer import consumer_specs
    from directkafka.options.limits import rate_specs
    from directkafka.options.read_policy import read_specs

    yield "# Settings of direct streams and RDDs"
    yield _filled(
        "For `dk.create_rdd` and `dk.create_direct_stream`. Their `kafka_params` are [the client's](options.md), "
        "without the prefix `kafka.`, and those of the first list; the others are set in Spark's configuration, before "
        "the context is made. With an `arrow_handler`, `value.format` and its like ([options.md](options.md)) count in "
        "`kafka_params`, too: without `dead-letter`, and with UTC for timestamps that name no zone."
    )
    yield "## In `kafka_params`"
    yield from (_option(spec, "") for spec in consumer_specs())
    yield "## In Spark's configuration"
    yield from (_option(spec, "") for spec in (*rate_specs(), *read_specs()))


def sink_options() -> Iterator[str]:
    """The options of the plain writer, and what a pipeline's Kafka sink has beside them."""
    from directkafka.options.names import IGNORED_SINK_CLIENT_NAMES, REFUSED_SINK_CLIENT_NAMES
    from directkafka.options.producer import FIXED_SETTINGS, TransactionOptions, producer_specs, sink_specs
    from directkafka.options.spec import specs_of

    yield "# Options of the writer"
    yield _filled(
        'For `df.write.format("directkafka").mode("append")` and `df.writeStream.format("directkafka")`. The names are '
        "those of Spark's own `kafka` sink; their case does not matter. The client's, for addresses and security, are "
        "those of [the source](options.md)."
    )
    yield "## The writer's own"
    yield from (_option(spec, "") for spec in sink_specs())
    yield "## The producer's"
    yield "Written behind `kafka.`."
    yield from (_option(spec, "kafka.") for spec in producer_specs())
    yield "## The transaction's, for the Kafka sink of a pipeline"
    yield from (_option(spec, "kafka.") for spec in specs_of(TransactionOptions).values())
    yield _filled(
        "In this sink some settings of a producer may be given with one value alone, or not at all; anything else is "
        "refused. (The plain writer takes any value of the first two, with a warning.)"
    )
    yield _items(
        (
            f"`kafka.{name}`, {'only ' + ' or '.join(f'`{value}`' for value in values) if values else 'not at all'}",
            f"{why}.",
        )
        for name, (values, why) in FIXED_SETTINGS.items()
    )
    yield "## Refused, because the job would write otherwise than it did"
    yield _items((f"`kafka.{name}`", _sentence(why)) for name, why in REFUSED_SINK_CLIENT_NAMES.items())
    yield "## Accepted with one warning"
    yield _items((f"`kafka.{name}`", _sentence(why)) for name, why in IGNORED_SINK_CLIENT_NAMES.items())


def _option(spec: Any, prefix: str) -> str:
    facts = [_sentence(_expected(spec))]
    if spec.default:
        facts.append(f"Default: `{spec.default}`." if "(" not in spec.default else f"Default: {spec.default}.")
    if spec.scope != "streaming and batch":
        facts.append(f"Only for {spec.scope} reads.")
    if spec.aliases:
        facts.append("Also: " + ", ".join(f"`{prefix}{alias}`" for alias in spec.aliases) + ".")
    return f"### `{prefix}{spec.name}`\n\n{_filled(' '.join(facts))}\n\n{_filled(spec.doc)}"


def _expected(spec: Any) -> str:
    from directkafka.options.spec import INT_MAX, LONG_MAX

    if spec.kind == "integer" and spec.maximum in (INT_MAX, LONG_MAX):
        return (
            f"{spec.minimum}, or a whole number above 0"
            if spec.without_zero
            else f"a whole number, {spec.minimum} or more"
        )
    # Spark's two words are texts beside the JSON.
    words = "a word such as `earliest`, or " * (spec.kind == "json" and "one of earliest" in spec.doc)
    return f"{words}{spec.expected()}"


def _client_names() -> Iterator[str]:
    from directkafka.options.names import IGNORED_CLIENT_NAMES, REFUSED_SOURCE_CLIENT_NAMES

    refused = REFUSED_SOURCE_CLIENT_NAMES
    yield _items((f"`kafka.{name}`", f"{reason}.") for name, reason in refused.items())
    yield "## Accepted with one warning, because they mean nothing here"
    names_by_reason: dict[str, list[str]] = {}
    for name, reason in IGNORED_CLIENT_NAMES.items():
        if name not in refused:
            names_by_reason.setdefault(reason, []).append(f"`{name}`")
    yield _items((f"**{reason}**", ", ".join(names)) for reason, names in names_by_reason.items())
    yield "Any other name is an error that names the nearest one that is known."


# The pipeline file ------------------------------------------------------------------------------------------


def pipeline_file() -> Iterator[str]:
    """The sections of the pipeline file, from their models."""
    from directkafka.pipeline import file
    from directkafka.sinks.registry import own_types, sink_type

    yield "# The pipeline file"
    yield _filled(
        "TOML. Any text may hold `${NAME}`, which is taken from the environment; `${file:PATH:KEY}`, the value of a "
        "key in a file of Java properties; and `${dir:PATH:KEY}`, the content of the file KEY in a folder. Where there "
        "is none, it is an error that names the place. `$${NAME}` is the text `${NAME}` itself: of dollars before a "
        "brace two stand for one. A name that is not listed here is an error that names the nearest one. All mistakes "
        "of a file are told at once, with their lines."
    )
    sections = {
        "[pipeline]": file.PipelineSection,
        "[spark]": file.SparkSection,
        "[transform]": file.TransformSection,
    }
    for header, model in sections.items():
        yield f"## `{header}`"
        yield _filled(_prose(model.__doc__ or "").partition(": ")[2].capitalize())
        yield _items(_model_items(model))
        if header == "[spark]":
            yield "## `[source]`"
            yield "The data source's own options, verbatim: see [options.md](options.md). Required."
    yield "## `[[sink]]`"
    yield "Which sink, and what it gets; beside these two names the sink's own arguments, as listed below."
    yield _items(
        (
            (
                "`type` (text, required)",
                f"One of {', '.join(f'`{name}`' for name in own_types())}, or a package's own.",
            ),
            ("`from` (text, default `default`)", "Which of the transform's named outputs."),
            (
                "`table_from` (text), `tables` (list of texts)",
                "In place of `table`: a column that names each row's table, and those that may be named. One sink for "
                "each; the column is not stored.",
            ),
        )
    )
    for name in own_types():
        sink: Any = sink_type(name)
        yield f'## `[[sink]]` of `type = "{name}"`'
        yield _filled(_prose((sink.__doc__ or "").partition("    Args:\n")[0]))
        yield _items(_field_items(sink.__pydantic_fields__, typing.get_type_hints(sink), sink.SECTION_NAMES))
    from directkafka.pipeline import file

    yield "## `[dead_letters]`"
    yield _filled(
        "Where records go that the transform rejects: the names of a `[[sink]]` without `from`. Optional. Its columns "
        "are `topic`, `partition`, `offset`, `timestamp`, `key`, `value`, `headers` if it has them, and `reason`. Two "
        "names more:"
    )
    yield _items(_model_items(file.DeadLettersSection))


def _model_items(model: Any) -> Iterator[tuple[str, str]]:
    return _field_items(model.model_fields, typing.get_type_hints(model), {})


def _field_items(
    fields: Mapping[str, Any], hints: Mapping[str, Any], names: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    for name, field in fields.items():
        default = field.get_default(call_default_factory=True)
        state = "required" if field.is_required() else f"default `{_toml(default)}`" if default else "optional"
        yield f"`{field.alias or names.get(name, name)}` ({_type(hints[name])}, {state})", field.description or ""


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


# The command line -------------------------------------------------------------------------------------------


def command_line() -> Iterator[str]:
    """Every command with its arguments, from the annotations that make its ``--help``."""
    import directkafka.cli.all_commands  # noqa: F401 - they register with the app
    from directkafka.cli import app as module

    yield "# The command line"
    yield "`directkafka COMMAND` and `python -m directkafka COMMAND` are the same."
    yield _filled(
        "Data goes to stdout, as text or with `--format json` as one JSON object a line; messages, progress and "
        "errors go to stderr."
    )
    codes = " ".join(inspect.getdoc(module).partition("\n\n")[2].split())  # type: ignore[union-attr]
    yield "Exit codes:"
    yield _items(("", code) for code in codes.split(" · "))
    root = module.app.registered_callback
    assert root is not None
    assert root.callback is not None
    yield "Without a command:"
    yield _items(_parameters(root.callback))
    for command in module.app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        yield f"## `directkafka {name}`"
        yield _filled(inspect.getdoc(command.callback) or "")
        yield _items(_parameters(command.callback))
        yield "```sh\n" + "\n".join(re.findall(r"directkafka .*", command.epilog or "")) + "\n```"


def _parameters(callback: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    hints = typing.get_type_hints(callback, include_extras=True)
    for name, parameter in inspect.signature(callback).parameters.items():
        info, kind = hints[name].__metadata__[0], typing.get_args(hints[name])[0]
        # Inside Annotated typer takes the first text of Option("--keep", ...) for the default.
        flags = [one for one in (info.default, *(info.param_decls or ())) if isinstance(one, str)]
        shown = ", ".join(f"`{flag}`" for flag in flags) or f"`{info.metavar or name.upper()}`"
        yield f"{shown}{_values(kind, parameter.default)}", info.help or ""


def _values(kind: Any, default: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f" (one of {', '.join(f'`{one.value}`' for one in kind)}; default `{default.value}`)"
    if kind is bool or default in (inspect.Parameter.empty, None):
        return " (a whole number)" if int in (kind, *typing.get_args(kind)) else ""
    return f" (default `{default}`)"


# Errors and fault points ------------------------------------------------------------------------------------


def errors() -> Iterator[str]:
    """The tree of errors, with fields and messages."""
    from directkafka import errors as module
    from directkafka.errors import kafka as kafka_errors
    from directkafka.errors import streams

    tree = inspect.getdoc(module).split("::\n\n")[1].split("\n\nAn error is")[0]  # type: ignore[union-attr]
    yield "# Errors"
    yield _filled(
        "One tree. Every error has its numbers as fields, survives pickling, and says what happened, where, the "
        "numbers and what to do. Those listed in `directkafka.__all__` are importable from `directkafka`; all of them "
        "from `directkafka.errors`."
    )
    yield "```text\n" + textwrap.dedent(tree) + "\n```"
    for name, found in vars(module).items():
        if inspect.isclass(found) and issubclass(found, module.DirectKafkaError):
            yield f"## `{name}`"
            yield from _markdown(inspect.getdoc(found) or "")
            own = [field.name for field in dataclasses.fields(found)]
            if own:
                yield "Fields: " + ", ".join(f"`{field}`" for field in own) + "."
                yield "Message:\n\n" + textwrap.fill(_message(found), WIDTH - 2, initial_indent="> ",
                                                     subsequent_indent="> ", break_on_hyphens=False)  # fmt: skip

    yield from _leaves(kafka_errors, "Writing to Kafka", "`KafkaError`")
    yield from _leaves(streams, "Reading, direct streams and RDDs", "the tree")
    yield from _spark_conditions()


def _leaves(module: ModuleType, title: str, of: str) -> Iterator[str]:
    """Errors that are leaves in a module of their own."""
    yield f"## {title}"
    yield f"Leaves of {of}, importable from `{module.__name__}`."
    for found in _errors_of(module):
        yield f"### `{found.__name__}`"
        yield from _markdown(inspect.getdoc(found) or "")
        yield "Fields: " + ", ".join(f"`{field.name}`" for field in dataclasses.fields(found)) + "."
        yield "Message:\n\n" + textwrap.fill(found.template, WIDTH - 2, initial_indent="> ",
                                             subsequent_indent="> ", break_on_hyphens=False)  # fmt: skip


def _errors_of(module: ModuleType) -> list[Any]:
    """The errors that a module defines, in the order of their names."""
    from directkafka.errors import DirectKafkaError

    found = [value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == module.__name__]
    errors = [one for one in found if issubclass(one, DirectKafkaError) and one.__name__[0] != "_"]
    return sorted(errors, key=lambda one: one.__name__)


def _spark_conditions() -> Iterator[str]:
    """The types that are named after conditions of Spark's."""
    from directkafka.errors import data_loss as module

    found = _errors_of(module)
    yield "## Spark's conditions"
    yield _filled(
        "Where Spark's own source has a name for what went wrong, the error has that name as its type and in its "
        "message. They are importable from `directkafka.errors.data_loss`, and caught by `DataLossError` or "
        "`OptionError` as well."
    )
    yield _items((f"`{one.__name__}`", _sentence(inspect.getdoc(one) or "").replace("``", "`")) for one in found)


def _message(error: Any) -> str:
    # The one error that makes its message by itself; see its __str__.
    return error.template if "__str__" not in vars(error) else "option {option} in {where}: {reason}."


def faults() -> Iterator[str]:
    """The fault points."""
    from directkafka import fault_points as module

    yield "# Fault points"
    yield _filled(
        "Places where a test can kill, stop or fail the process; no-ops unless the environment arms one. What each "
        "leaves behind, and what a restart makes of it, is in the crash table of [DESIGN.md](../DESIGN.md)."
    )
    yield from _markdown(inspect.getdoc(module).partition("\n\n")[2])  # type: ignore[union-attr]
    yield _items((f"`{point}`", _sentence(what)) for point, what in module.FAULT_POINTS.items())
    yield "Those of a direct stream, whose batches have steps of their own:"
    yield _items((f"`{point}`", _sentence(what)) for point, what in module.STREAM_FAULT_POINTS.items())


# Public names -----------------------------------------------------------------------------------------------

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
    yield _filled(
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
        yield from _documented(path, _found(path))
    yield "## What a program is given"
    yield "Made by this library alone."
    for path in _GIVEN:
        yield from _documented(path.rpartition(".")[2], _found(path), is_made=False)
    yield "## Fixtures of pytest"
    yield "They are there wherever directkafka is installed; nothing is to be imported."
    yield _items((f"`{name}`", _prose(inspect.getdoc(getattr(plugin, name)) or "")) for name in plugin.__all__)


def _found(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _documented(name: str, found: Any, *, is_made: bool = True) -> Iterator[str]:
    yield f"## `{name}`"
    is_error = inspect.isclass(found) and issubclass(found, Exception)
    is_protocol = getattr(found, "_is_protocol", False)
    if is_made and not is_error and not is_protocol:
        yield _signature(name, found)
    yield from _markdown(inspect.getdoc(found) or "")
    if is_error:
        yield f"Fields and message: [errors.md](errors.md#{name.rpartition('.')[2].lower()})."
    elif inspect.isclass(found) and not name.endswith("Contract"):  # a suite's members are its tests
        for member, value in _members(found).items():
            yield from _member(member, value)


def _members(found: type) -> dict[str, Any]:
    """What a class has. A server for tests has most of it from classes that have no page."""
    bases = [base for base in found.__mro__[1:] if base.__module__.startswith("directkafka.testing.servers.")]
    names = dict.fromkeys(name for base in (found, *bases) for name in vars(base) if not name.startswith("_"))
    return {name: inspect.getattr_static(found, name) for name in names}


def _member(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, property):
        yield f"### `{name}`"
        yield from _markdown(inspect.getdoc(value.fget) or "")
    elif inspect.isroutine(value) or isinstance(value, classmethod | staticmethod):
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        yield f"### `{name}()`"
        yield _signature(name, function)
        yield from _markdown(inspect.getdoc(function) or "")


def _signature(name: str, found: Any) -> str:
    signature = inspect.signature(found)
    parameters = list(_parameters_of(signature))
    returns = "" if inspect.isclass(found) else f" -> {signature.return_annotation}"
    shown = f"{name}({', '.join(parameters)}){returns}"
    # Short enough for a line, or one parameter on each.
    if len(shown) > WIDTH:
        shown = f"{name}(\n    " + ",\n    ".join(parameters) + f",\n){returns}"
    return f"```python\n{shown}\n```"


def _parameters_of(signature: inspect.Signature) -> Iterator[str]:
    """Each parameter, and the marks that Python puts between them."""
    given = [parameter for parameter in signature.parameters.values() if parameter.name not in ("self", "cls")]
    before = None
    for one in given:
        if before is one.POSITIONAL_ONLY and one.kind is not one.POSITIONAL_ONLY:
            yield "/"
        if one.kind is one.KEYWORD_ONLY and before not in (one.KEYWORD_ONLY, one.VAR_POSITIONAL):
            yield "*"
        yield _parameter(one)
        before = one.kind
    if before is inspect.Parameter.POSITIONAL_ONLY:
        yield "/"


def _parameter(one: inspect.Parameter) -> str:
    stars = "*" * (one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)) + "*" * (one.kind is one.VAR_KEYWORD)
    # A named tuple's annotations are wrapped.
    shown = f"{stars}{one.name}: {getattr(one.annotation, '__forward_arg__', one.annotation)}"
    if one.default is inspect.Parameter.empty:
        return shown
    python = f'"{one.default}"' if isinstance(one.default, str) else str(one.default)
    default = getattr(one.default, "__name__", None) or python
    return f"{shown} = {default}"


# Text -------------------------------------------------------------------------------------------------------


def _markdown(docstring: str) -> Iterator[str]:
    """A docstring as Markdown: sections become lists, roles become code, ``::`` blocks become fences."""
    is_code = False
    for block in docstring.split("\n\n"):
        lines = block.splitlines()
        head = lines[0].strip() if lines else ""
        if is_code:
            yield "```text\n" + textwrap.dedent(block) + "\n```"
        elif head.rstrip(":") in _SECTIONS and head.endswith(":"):
            yield f"**{head.rstrip(':')}**"
            yield _section(lines[1:])
        elif head != "::":
            yield "\n".join(map(_code, lines)) if head.startswith("- ") else _filled(_prose(block).replace("::", ":"))
        is_code = block.rstrip().endswith("::")


def _section(lines: list[str]) -> str:
    items: list[str] = []
    for line in textwrap.dedent("\n".join(lines)).splitlines():
        if line.startswith(" ") and items:
            items[-1] += " " + line.strip()
        else:
            items.append(line)
    return _items(_parted(item) for item in items)


def _parted(item: str) -> tuple[str, str]:
    found = _ITEM.match(item)
    if found is None or " " in found[1].replace(", ", ","):
        return "", _code(item)
    names = ", ".join(f"`{name}`" for name in found[1].split(", "))
    return names + (f" ({found[2]})" if found[2] else ""), _code(found[3] or "")


def _items(pairs: Iterable[tuple[str, str]]) -> str:
    lines = [f"{head}: {text}" if head and text else head or text for head, text in pairs]
    return "\n".join(
        textwrap.fill(line, WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                      break_on_hyphens=False)
        for line in lines
    )  # fmt: skip


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def _prose(docstring: str) -> str:
    return _code(" ".join(docstring.split()))


def _code(text: str) -> str:
    """Roles and double backticks of a docstring as Markdown's code."""
    return _ROLE.sub(lambda found: f"`{found[1].rpartition('.')[2]}`", text).replace("``", "`")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "." * (not text.endswith("."))


def _type(hint: Any) -> str:
    """A type of the pipeline file's models, in the words of TOML."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _type(arguments[0])
    if origin is typing.Literal:
        return " or ".join(map(_toml, arguments))
    if origin in (dict, Mapping):
        return "table"
    if origin in (list, Sequence):
        return f"list of {_type(arguments[0])}s"
    if origin in (typing.Union, types.UnionType):
        # None stands for what is not given.
        return " or ".join(_type(argument) for argument in arguments if argument not in (type(None), os.PathLike[str]))
    return {str: "text", int: "whole number", bool: "true or false", float: "number"}[hint]


if __name__ == "__main__":
    main()
