"""The options of payloads: what the bytes of values and keys stand for, and which columns a read has then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args
from zoneinfo import ZoneInfoNotFoundError

from directkafka.errors import OptionError
from directkafka.options.config_providers import with_provided_values
from directkafka.options.registry import REGISTRY_SPECS, Registry, read_registry
from directkafka.options.schemas.ddl import FieldType
from directkafka.options.schemas.declared import read_schema
from directkafka.options.spec import Mistakes, OptionSpec, RawOptions, shown
from directkafka.options.texts import whole_number
from directkafka.options.time_zones import time_zone

Format = Literal["json", "avro", "protobuf", "string", "debezium-json", "debezium-avro"]
OnError = Literal["fail", "null", "dead-letter"]

#: In place of a version's number.
LATEST: Final = "latest"

_HEADERS: Final = "headers"
_KEY: Final = "key"

#: The columns that may hold a payload.
PAYLOAD_COLUMNS: Final = ("value", "key")

#: Columns that a pipeline's source has beside the decoded ones, where records that are rejected are kept as they came:
#: the bytes of a payload, and why it could not be read.
AS_IT_CAME: Final = {"value": "directkafka_value", "key": "directkafka_key"}
UNREAD: Final = "directkafka_unread"

_DOCS: Final = {
    "format": "What the bytes of a {column} are: json (fields by a schema, as Spark's from_json reads them), avro "
    "(Avro's binary encoding, by a schema), protobuf (Protocol Buffers, by a .proto file) or string (UTF-8). The "
    "column {column} is a struct, or a string, then. Bytes when not given. debezium-json and debezium-avro, for values "
    "alone, are a database's changes: value is the row, and beside it there are op, deleted, source_ts and position.",
    "schema": "The fields of a JSON {column}, in Spark's DDL: id BIGINT, legs ARRAY<STRUCT<carrier: STRING>>; for "
    "debezium-json those of a row. Of an Avro {column}, a schema as JSON, for debezium-avro that of an event; for "
    "Protocol Buffers the text of a .proto file, or the base64 of its descriptor. Of both also the name of a file with "
    "it (.avsc, .proto, .desc, .pb). With a registry it is the reader's schema, else the writer's, too.",
    "message": "The message of a .proto file that each {column} is; its first one when not given.",
    "registry.subject": "The subject of the registry whose schema each {column} is read with; the topic's name and "
    "-{column} when there is one topic.",
    "registry.version": "The version of that schema: a number, or latest, which is looked up when a run begins.",
    "on.error": "What becomes of a record whose {column} cannot be read as a whole: fail (an error that names it), "
    "null (of JSON the fields that can be read stay, of the others none; what cannot be read is null, and a column "
    "{column}_error says why) or dead-letter (it goes to the pipeline's dead letters, and not to the transform). "
    "A null {column} is null, and no error.",
    "time.zone": "The time zone of timestamps in a JSON {column} that name none: a name, or an offset such as +02:00. "
    "The session's when not given.",
}


def _specs(column: str) -> dict[str, OptionSpec]:
    docs = {name: doc.format(column=column) for name, doc in _DOCS.items()}
    return {
        "format": OptionSpec(name=f"{column}.format", kind="choice", choices=get_args(Format), doc=docs["format"]),
        "schema": OptionSpec(name=f"{column}.schema", kind="text", bytes_max=1 << 20, doc=docs["schema"]),
        "message": OptionSpec(
            name=f"{column}.message", aliases=(f"{column}.registry.message",), kind="text", doc=docs["message"]
        ),
        "on.error": OptionSpec(
            name=f"{column}.on.error", kind="choice", choices=get_args(OnError), default="fail", doc=docs["on.error"]
        ),
        "time.zone": OptionSpec(name=f"{column}.time.zone", kind="text", doc=docs["time.zone"]),
        "registry.subject": OptionSpec(name=f"{column}.registry.subject", kind="text", doc=docs["registry.subject"]),
        "registry.version": OptionSpec(
            name=f"{column}.registry.version", kind="text", default=LATEST, doc=docs["registry.version"]
        ),
        **registry_specs(column),
    }


def registry_specs(column: str) -> dict[str, OptionSpec]:
    """The options of the registry that a column's schemas are in, by their names behind the column's."""
    return {f"registry.{spec.name}": replace(spec, name=f"{column}.registry.{spec.name}") for spec in REGISTRY_SPECS}


#: The formats that need a schema, and in which words it comes.
_SCHEMAS: Final[dict[Format, str]] = {
    "json": "the fields, as Spark's DDL",
    "avro": "the schema, as JSON",
    "protobuf": "the .proto file",
    "debezium-json": "the columns of a row, as Spark's DDL",
    "debezium-avro": "the schema of an event, as JSON",
}
#: The formats of a database's changes, and the columns that there are beside its rows, with Spark's types.
_OF_CHANGES: Final = ("debezium-json", "debezium-avro")
_CHANGE_COLUMNS: Final = {"op": "string", "deleted": "boolean", "source_ts": "timestamp", "position": "decimal(38,0)"}
#: The formats whose records may name a schema of a registry.
_REGISTERED: Final = ("json", "avro", "protobuf", "debezium-avro")

SPECS: Final = {column: _specs(column) for column in PAYLOAD_COLUMNS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """How one column's bytes are read.

    Attributes:
        column: its name.
        format: what they are.
        schema: what the column is then; None for a string.
        reader_schema: the schema of Avro or Protocol Buffers that records are read with, as one text; empty where a
            registry must be asked.
        message: of a ``.proto`` file the one that records are; empty: its first.
        on_error: what becomes of a record that cannot be read as a whole.
        time_zone: of timestamps that name none; None: the session's.
        registry: which has the schemas that records were written with; None: it is ``reader_schema``.
        subject: whose schema records are read with; None: the topic's.
        version: of that schema.
        schema_id: the registry's id of ``reader_schema``, where it was asked for that.
    """

    column: str
    format: Format
    schema: FieldType | None = None
    reader_schema: str = ""
    message: str = ""
    on_error: OnError = "fail"
    time_zone: str | None = None
    registry: Registry | None = None
    subject: str | None = None
    version: str = LATEST
    schema_id: int | None = None

    @property
    def type(self) -> FieldType:
        """What the column is then."""
        return self.schema or FieldType("string")

    @property
    def added_columns(self) -> dict[str, str]:
        """The columns that there are beside it, with Spark's types."""
        added = dict(_CHANGE_COLUMNS) if self.is_of_changes else {}
        added |= {} if self.schema_id_column is None else {self.schema_id_column: "int"}
        return added if self.error_column is None else added | {self.error_column: "string"}

    @property
    def is_of_changes(self) -> bool:
        """Whether the records are a database's changes, so that keys say which rows are no more."""
        return self.format in _OF_CHANGES

    @property
    def schema_id_column(self) -> str | None:
        """The column with the number of the schema that a record was written with, if there is one."""
        return f"{self.column}_schema_id" if self.registry is not None else None

    @property
    def error_column(self) -> str | None:
        """The column that says why a record could not be read as a whole, if there is one."""
        return f"{self.column}_error" if self.on_error == "null" else None


#: The payloads of a read, at most one for each column.
Payloads = tuple[Payload, ...]


def read_payloads(given: RawOptions) -> Payloads:
    """The payloads that the options name.

    Raises:
        OptionError: a schema that is missing or malformed, for example; all at once.
    """
    mistakes, payloads = Mistakes(), []
    for column in PAYLOAD_COLUMNS:
        with mistakes.kept():
            if (payload := _read(given, column)) is not None:
                payloads.append(payload)
    mistakes.raise_if_any()
    return tuple(payloads)


def payload_params(kafka_params: Mapping[str, object]) -> tuple[Payloads, dict[str, object]]:
    """The payloads that a program names among Kafka's settings, and the settings without them.

    Raises:
        OptionError: as :func:`read_payloads`; or records that cannot be read are to become dead letters.
    """
    given = with_provided_values(RawOptions.read(kafka_params, where="kafka_params"))
    names = {name.lower() for spec in payload_specs() for name in (spec.name, *spec.aliases)}
    payloads = read_payloads(given)
    check_dead_letters(payloads, ())
    return payloads, {name: value for name, value in kafka_params.items() if name.lower() not in names}


def in_time_zone(payloads: Payloads, name: str) -> Payloads:
    """The same, with the time zone of those that name none."""
    return tuple(replace(payload, time_zone=payload.time_zone or name) for payload in payloads)


def decodes(payload: Payload, columns: Sequence[str]) -> bool:
    """Whether columns of decoded records have something of a payload."""
    own = {payload.column, *payload.added_columns, AS_IT_CAME[payload.column]}
    return not own.isdisjoint(columns) or (payload.on_error == "dead-letter" and UNREAD in columns)


def undecoded_columns(columns: Sequence[str], payloads: Payloads) -> tuple[str, ...]:
    """The columns that must be read to decode records with ``columns``."""
    added = {UNREAD, *AS_IT_CAME.values(), *(name for payload in payloads for name in payload.added_columns)}
    decoded = [payload for payload in payloads if decodes(payload, columns)]
    # A header may name a record's schema.
    headers = [_HEADERS] if any(payload.registry is not None for payload in decoded) else []
    keys = [_KEY] if any(payload.is_of_changes for payload in decoded) else []
    named = (payload.column for payload in decoded)
    return tuple(dict.fromkeys([*(name for name in columns if name not in added), *named, *keys, *headers]))


def kept_columns(columns: tuple[str, ...], payloads: Payloads) -> dict[str, str]:
    """The columns that keep what payloads were, with Spark's types, for a source that has dead letters.

    Args:
        columns: of the source.
        payloads: what values and keys are.
    """
    kept = {AS_IT_CAME[payload.column]: "binary" for payload in payloads if payload.column in columns}
    if any(payload.on_error == "dead-letter" for payload in payloads):
        kept[UNREAD] = "string"
    return kept


def check_dead_letters(payloads: Payloads, columns: tuple[str, ...]) -> None:
    """See that records which cannot be read have a place to go, if that is what becomes of them.

    Raises:
        OptionError: nobody would take them.
    """
    for payload in payloads:
        if payload.on_error == "dead-letter" and UNREAD not in columns:
            raise OptionError(
                option=f"{payload.column}.on.error",
                reason="dead-letter is for pipelines with a place for such records: the section [dead_letters], or the "
                "argument dead_letters; elsewhere take null, and the column "
                f"{payload.column}_error",
            )


def payload_specs() -> tuple[OptionSpec, ...]:
    """Every option of payloads, in the order of the reference page."""
    return tuple(spec for specs in SPECS.values() for spec in specs.values())


def _read(given: RawOptions, column: str) -> Payload | None:
    specs = SPECS[column]
    if not given.has(specs["format"]):
        for spec in specs.values():
            if given.has(spec):
                raise given.error(spec.name, f"says how a {column} is read, and there is no {column}.format")
        return None
    form: Format = given.value(specs["format"])
    if form in _OF_CHANGES and column == _KEY:
        raise given.error(specs["format"].name, f"{form} is for values, which take what they need of the keys")
    registry = _registry(given, column, form)
    if form in _SCHEMAS and registry is None and not given.has(specs["schema"]):
        raise given.error(specs["schema"].name, f"is missing: {column}.format = {form} needs {_SCHEMAS[form]}")
    for name, forms in (
        ("schema", tuple(_SCHEMAS)),
        ("time.zone", ("json", "debezium-json")),
        ("message", ("protobuf",)),
    ):
        if form not in forms and given.has(specs[name]):
            raise given.error(specs[name].name, f"means nothing to {column}.format = {form}")
    message = given.text(specs["message"])
    schema, reader_schema = _schema(given, specs["schema"], form, message) if given.has(specs["schema"]) else (None, "")
    return Payload(
        column=column,
        format=form,
        schema=schema,
        reader_schema=reader_schema,
        message=message,
        registry=registry,
        subject=given.text(specs["registry.subject"]) or None,
        version=read_version(given, specs["registry.version"]),
        on_error=given.value(specs["on.error"]),
        time_zone=_time_zone(given, specs["time.zone"]),
    )


def _registry(given: RawOptions, column: str, form: Format) -> Registry | None:
    registry = read_registry(given, f"{column}.registry.")
    specs = SPECS[column]
    if registry is not None and form not in _REGISTERED:
        raise given.error(specs["registry.url"].name, f"means nothing to {column}.format = {form}")
    for name in ("registry.subject", "registry.version"):
        if registry is None and given.has(specs[name]):
            raise given.error(specs[name].name, f"is for a registry, and there is no {specs['registry.url'].name}")
        if given.has(specs["schema"]) and given.has(specs[name]):
            raise given.error(specs[name].name, f"says the same as {specs['schema'].name}: keep one of them")
    return registry


def read_version(given: RawOptions, spec: OptionSpec) -> str:
    """The version of a subject's schema: a number, or :data:`LATEST`.

    Raises:
        OptionError: it is neither.
    """
    version: str = given.value(spec).lower()
    if version != LATEST and not (whole_number(version) or 0) > 0:
        raise given.error(spec.name, f"expected a number from 1, or {LATEST}, found {shown(version)}")
    return version


def _schema(given: RawOptions, spec: OptionSpec, form: Format, message: str) -> tuple[FieldType, str]:
    try:
        return read_schema(form, given.text(spec), message)
    except ValueError as error:
        raise given.error(spec.name, str(error)) from None


def _time_zone(given: RawOptions, spec: OptionSpec) -> str | None:
    if not given.has(spec):
        return None
    name = given.text(spec)
    try:
        time_zone(name)
    except ZoneInfoNotFoundError:
        raise given.error(spec.name, f"expected a time zone such as Europe/Berlin or +02:00, found {name!r}") from None
    return name
