"""The columns of Spark's ``kafka`` format and their types, which are fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from directkafka.errors import OptionError
from directkafka.options.payloads import Payloads, kept_columns
from directkafka.options.producer import SinkOptions

_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}


#: What may be written: each column's types, as ``simpleString`` writes them.
_WRITTEN = {
    "key": ("string", "binary", "void"),
    "value": ("string", "binary", "void"),
    "headers": (_TYPES["headers"], "void"),
    "topic": ("string",),
    "partition": ("int", "void"),
    "timestamp": ("timestamp", "timestamp_ntz", "void"),
}


def record_columns(names: Sequence[str], payloads: Payloads = (), *, quoted: bool = False) -> list[tuple[str, str]]:
    """Each column's name and type, as ``simpleString`` writes types.

    Args:
        names: of the columns.
        payloads: what values and keys are, if they are more than bytes.
        quoted: whether names inside of types are quoted, so that Spark can read them.
    """
    types = dict(_TYPES)
    for payload in payloads:
        types[payload.column] = payload.type.simple_string(quoted=quoted)
        types |= payload.added_columns
    types |= kept_columns(tuple(types), payloads)
    return [(name, types[name]) for name in names]


def record_schema(names: Sequence[str], payloads: Payloads = ()) -> str:
    """The same as DDL."""
    return ", ".join(" ".join(column) for column in record_columns(names, payloads, quoted=True))


def check_written(columns: Mapping[str, str], options: SinkOptions) -> None:
    """See that rows have what a record needs, by their types.

    Args:
        columns: names and types, as ``simpleString`` writes them, of what is to be written; others than a record's
            are left alone.
        options: whether a topic is given for all, and which columns are written.

    Raises:
        OptionError: a column is missing or of another type.
    """
    if "value" not in columns:
        raise OptionError(option="value", reason="required attribute 'value' not found: a record's value comes from it")
    if options.topic is None and "topic" not in columns:
        reason = "is required when the rows have no attribute 'topic': the option for all rows, or the column for each"
        raise OptionError(option="topic", reason=reason)
    passed_over = {
        "headers": not options.include_headers,
        "timestamp": not options.include_timestamp,
        "topic": options.topic is not None,
        **{payload.column: True for payload in options.payloads},
    }
    for name, allowed in _WRITTEN.items():
        if name in columns and not passed_over.get(name) and columns[name] not in allowed:
            expected = " or ".join(kind for kind in allowed if kind != "void")
            raise OptionError(option=name, reason=f"the attribute must be {expected}, and is {columns[name]}")
