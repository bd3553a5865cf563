"""The options of payloads that are written: what rows' values and keys become, and which schema says so.

They have the names of those that are read (:mod:`directkafka.options.payloads`), and stand in a sink's settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from directkafka.options.payloads import LATEST, PAYLOAD_COLUMNS, read_version, registry_specs
from directkafka.options.registry import Registry, read_registry
from directkafka.options.schemas.avro_types import avro_column
from directkafka.options.schemas.declared import read_schema, schema_of_avro, schema_of_proto
from directkafka.options.schemas.json_schema import json_schema_type
from directkafka.options.spec import Mistakes, OptionSpec, RawOptions

WrittenFormat = Literal["json", "avro", "protobuf"]

_DOCS: Final = {
    "format": "What becomes of a column {column} when rows are written: json (an object for each struct), avro "
    "(Avro's binary encoding, by a schema) or protobuf (Protocol Buffers, by a .proto file). Bytes and texts are "
    "written as they are when not given.",
    "schema": "The schema of an Avro {column}, as JSON or the name of a file with it (.avsc); of Protocol Buffers the "
    "text of a .proto file, or its name; with a registry also a JSON Schema. With a registry and without a schema it "
    "is the registry's.",
    "message": "The message of a .proto file that each {column} becomes; its first one when not given.",
    "registry.subject": "The subject of the registry that has the schema of each {column}; the topic's name and "
    "-{column} when all rows go to one topic.",
    "registry.version": "The version of that schema, where none is given: a number, or latest, which is looked up when "
    "a run begins.",
    "registry.register": "Whether the schema that is given is registered when the subject does not have it; else it "
    "must be there.",
}


def _specs(column: str) -> dict[str, OptionSpec]:
    docs = {name: doc.format(column=column) for name, doc in _DOCS.items()}
    return {
        "format": OptionSpec(
            name=f"{column}.format", kind="choice", choices=get_args(WrittenFormat), doc=docs["format"]
        ),
        "schema": OptionSpec(name=f"{column}.schema", kind="text", bytes_max=1 << 20, doc=docs["schema"]),
        "message": OptionSpec(name=f"{column}.message", kind="text", doc=docs["message"]),
        "registry.subject": OptionSpec(name=f"{column}.registry.subject", kind="text", doc=docs["registry.subject"]),
        "registry.version": OptionSpec(
            name=f"{column}.registry.version", kind="text", default=LATEST, doc=docs["registry.version"]
        ),
        "registry.register": OptionSpec(
            name=f"{column}.registry.register", kind="boolean", default="false", doc=docs["registry.register"]
        ),
        **registry_specs(column),
    }


#: The formats that need a schema, and in which words it comes.
_SCHEMAS: Final[dict[WrittenFormat, str]] = {"avro": "the schema, as JSON", "protobuf": "the .proto file"}

SPECS: Final = {column: _specs(column) for column in PAYLOAD_COLUMNS}


_NAMES: Final = frozenset(spec.name.lower() for specs in SPECS.values() for spec in specs.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPayload:
    """How one column becomes bytes.

    Attributes:
        column: its name.
        format: what the bytes are.
        schema: the text of the schema; empty where a registry has it, or JSON needs none.
        message: of a ``.proto`` file; empty: its first one.
        registry: which knows the schema by a number, that stands before each record; None: nobody.
        subject: whose schema it is; None: the topic's.
        version: of the subject, where no schema is given.
        registers: whether a schema that the subject does not have is registered.
    """

    column: str
    format: WrittenFormat
    schema: str = ""
    message: str = ""
    registry: Registry | None = None
    subject: str | None = None
    version: str = LATEST
    registers: bool = False


#: At most one for each column.
WrittenPayloads = tuple[WrittenPayload, ...]


def written_specs() -> tuple[OptionSpec, ...]:
    """Every option of payloads that are written, in the order of the reference page."""
    return tuple(spec for specs in SPECS.values() for spec in specs.values())


def is_written_option(name: str) -> bool:
    """Whether a name is one of these options; case is ignored."""
    return name.lower() in _NAMES


def read_written(given: RawOptions) -> WrittenPayloads:
    """The payloads that the options name.

    Raises:
        OptionError: a schema is missing or is none, or options do not go together; all mistakes at once.
    """
    mistakes, payloads = Mistakes(), []
    for column in PAYLOAD_COLUMNS:
        with mistakes.kept():
            if (payload := _read(given, column)) is not None:
                payloads.append(payload)
    mistakes.raise_if_any()
    return tuple(payloads)


def written_params(options: Mapping[str, object], *, where: str) -> WrittenPayloads:
    """The payloads that a sink's settings name.

    Raises:
        OptionError: as :func:`read_written`; or a name is none of these.
    """
    given = RawOptions.read(options, where=where)
    for name in given.texts:
        if not is_written_option(name):
            raise given.error(name, "says nothing about how a value or a key is written")
    return read_written(given)


def _read(given: RawOptions, column: str) -> WrittenPayload | None:
    specs = SPECS[column]
    if not given.has(specs["format"]):
        for spec in specs.values():
            if given.has(spec):
                raise given.error(spec.name, f"says how a {column} is written, and there is no {column}.format")
        return None
    form: WrittenFormat = given.value(specs["format"])
    registry = read_registry(given, f"{column}.registry.")
    _refuse_what_needs_a_registry(given, column, registry)
    _refuse_what_the_format_does_not_take(given, column, form, registry)
    has_schema = given.has(specs["schema"])
    return WrittenPayload(
        column=column,
        format=form,
        schema=_schema(given, specs["schema"], form, given.text(specs["message"])) if has_schema else "",
        message=given.text(specs["message"]),
        registry=registry,
        subject=given.text(specs["registry.subject"]) or None,
        version=read_version(given, specs["registry.version"]),
        registers=given.value(specs["registry.register"]),
    )


def _refuse_what_needs_a_registry(given: RawOptions, column: str, registry: Registry | None) -> None:
    specs = SPECS[column]
    has_schema = given.has(specs["schema"])
    for name in ("registry.subject", "registry.version", "registry.register"):
        if registry is None and given.has(specs[name]):
            raise given.error(specs[name].name, f"is for a registry, and there is no {specs['registry.url'].name}")
    if has_schema and given.has(specs["registry.version"]):
        raise given.error(specs["registry.version"].name, f"says the same as {specs['schema'].name}: keep one of them")
    if given.value(specs["registry.register"]) and not has_schema:
        raise given.error(
            specs["registry.register"].name, f"registers a schema, and there is no {specs['schema'].name}"
        )


def _refuse_what_the_format_does_not_take(
    given: RawOptions, column: str, form: WrittenFormat, registry: Registry | None
) -> None:
    specs = SPECS[column]
    has_schema = given.has(specs["schema"])
    if form in _SCHEMAS and registry is None and not has_schema:
        raise given.error(specs["schema"].name, f"is missing: {column}.format = {form} needs {_SCHEMAS[form]}")
    if form != "protobuf" and given.has(specs["message"]):
        raise given.error(specs["message"].name, f"means nothing to {column}.format = {form}")
    if form == "json" and registry is None and has_schema:
        raise given.error(specs["schema"].name, "means nothing to JSON without a registry")


def _schema(given: RawOptions, spec: OptionSpec, form: WrittenFormat, message: str) -> str:
    try:
        text = given.text(spec)
        if form == "avro":
            text = schema_of_avro(text)
            avro_column(text)
        elif form == "protobuf":
            text = schema_of_proto(text)
            read_schema(form, text, message)
        else:
            json_schema_type([text], [""])
    except ValueError as error:
        raise given.error(spec.name, str(error)) from None
    return text
