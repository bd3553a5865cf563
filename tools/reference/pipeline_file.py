"""The page of the pipeline file, from the models of its sections."""

from __future__ import annotations

import os
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tools.reference.markdown import filled, items, prose


def pipeline_file() -> Iterator[str]:
    """The sections of the pipeline file, from their models."""
    from directkafka.pipeline import file
    from directkafka.sinks.registry import own_types, sink_type

    yield "# The pipeline file"
    yield filled(
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
        yield filled(prose(model.__doc__ or "").partition(": ")[2].capitalize())
        yield items(_model_items(model))
        if header == "[spark]":
            yield "## `[source]`"
            yield "The data source's own options, verbatim: see [options.md](options.md). Required."
    yield "## `[[sink]]`"
    yield "Which sink, and what it gets; beside these two names the sink's own arguments, as listed below."
    yield items(
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
        yield filled(prose((sink.__doc__ or "").partition("Args:\n")[0]))
        yield items(_field_items(sink.__pydantic_fields__, typing.get_type_hints(sink), sink.SECTION_NAMES))
    from directkafka.pipeline import file

    yield "## `[dead_letters]`"
    yield filled(
        "Where records go that the transform rejects: the names of a `[[sink]]` without `from`. Optional. Its columns "
        "are `topic`, `partition`, `offset`, `timestamp`, `key`, `value`, `headers` if it has them, and `reason`. Two "
        "names more:"
    )
    yield items(_model_items(file.DeadLettersSection))


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
