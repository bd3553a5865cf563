"""Which of a record's columns are read."""

from __future__ import annotations

from typing import Final

from directkafka.options.spec import Given, OptionSpec

__all__ = ["COLUMNS", "HEADERS", "INCLUDE_HEADERS", "RECORD_COLUMNS", "read_columns"]

#: Spark's seven columns, in its order.
RECORD_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS: Final = "headers"

INCLUDE_HEADERS: Final = OptionSpec(
    name="includeHeaders",
    kind="boolean",
    default="false",
    doc="Whether there is a column headers.",
)
COLUMNS: Final = OptionSpec(
    name="columns",
    kind="list",
    doc="Only these columns, in this order: value,offset. What is not named is not shipped to Spark, which makes a "
    "read faster and changes its schema. All seven when not given.",
)


def read_columns(given: Given) -> tuple[str, ...]:
    """The names of the columns, as Spark spells them.

    Raises:
        OptionError: an unknown or doubled name, or headers that are asked for and left out.
    """
    with_headers = bool(given.value(INCLUDE_HEADERS))
    if not given.has(COLUMNS):
        return (*RECORD_COLUMNS, HEADERS) if with_headers else RECORD_COLUMNS
    known = {name.lower(): name for name in (*RECORD_COLUMNS, HEADERS)}
    wanted = tuple(given.value(COLUMNS))
    unknown = [name for name in wanted if name.lower() not in known]
    chosen = tuple(known[name.lower()] for name in wanted if name.lower() in known)
    if unknown or not chosen or len(set(chosen)) < len(chosen):
        found = ", ".join(wanted) or "nothing"
        raise given.error(COLUMNS.name, f"expected names out of {', '.join(known.values())}, each once, found {found}")
    if with_headers and HEADERS not in chosen:
        raise given.error(COLUMNS.name, f"leaves out {HEADERS}, which {INCLUDE_HEADERS.name} asks for")
    return chosen
