"""SQL of the stores: blocks of ``.sql`` files, and names of tables and columns as users write them.

A file is a list of blocks::

    -- name: read_entry
    -- The entry of one pipeline as last committed.
    SELECT ... ;

The statements are package data, not user input; names of tables and columns that vary are ``{placeholders}``
for :class:`psycopg.sql.SQL`, values are ``%(parameters)s``.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from importlib import resources

__all__ = ["free_name", "load_blocks", "lower", "parse_blocks", "parse_name"]

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load_blocks(package: str, file: str) -> dict[str, str]:
    """The blocks of a ``.sql`` file that lies in a package, by name.

    Args:
        package: dotted name of the package, for example ``directkafka.sinks.postgres``.
        file: the file's name.

    Raises:
        ValueError: a block has no description, no statement, or a name that is taken.
    """
    return parse_blocks((resources.files(package) / file).read_text(encoding="utf-8"), file)


def parse_blocks(text: str, file: str) -> dict[str, str]:
    """The blocks of one file's text, by name; comments and the last semicolon are left out."""
    parts = _NAME.split(text)
    blocks: dict[str, str] = {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        lines = body.strip().splitlines()
        statement = "\n".join(line for line in lines if not line.startswith("--")).strip()
        if name in blocks or not statement or not lines[0].startswith("-- "):
            raise ValueError(f"{file}: block {name} needs its own name, a description, a statement")
        blocks[name] = statement.removesuffix(";")
    return blocks


def parse_name(text: str, *, parts_max: int = 2, fold: bool = True) -> tuple[str, ...]:
    """Split ``schema.table`` as SQL does.

    Args:
        text: the name; parts in double quotes stand as they are.
        parts_max: how many parts it may have.
        fold: whether other parts become lower case, as in Postgres.

    Raises:
        ValueError: empty parts, too many parts, an open quote.
    """
    parts: list[str] = []
    rest = text
    while True:
        part, rest = _next_part(rest, fold=fold)
        parts.append(part)
        if not rest:
            break
        if not rest.startswith(".") or len(parts) == parts_max:
            forms = "table" if parts_max == 1 else "table, schema.table"
            raise ValueError(f"{text!r} is not a table's name: write {forms} or quote it")
        rest = rest[1:]
    if not all(parts):
        raise ValueError(f"{text!r} is not a table's name: a part of it is empty")
    return tuple(parts)


def free_name(wanted: str, taken: Collection[str]) -> str:
    """A name for a column of our own that no column of a DataFrame has; case is ignored, as in SQLite and DuckDB."""
    known = {name.lower() for name in taken}
    while wanted in known:
        wanted += "_"
    return wanted


def lower(name: str) -> str:
    """A name as SQLite and DuckDB compare it: A to Z are a to z, and no other letters have a case."""
    return "".join(one.lower() if one.isascii() else one for one in name)


def _next_part(text: str, *, fold: bool) -> tuple[str, str]:
    if not text.startswith('"'):
        part, dot, rest = text.partition(".")
        return part.strip().lower() if fold else part.strip(), dot + rest
    position = 1
    while (end := text.find('"', position)) >= 0:
        if text[end + 1 : end + 2] != '"':
            return text[1:end].replace('""', '"'), text[end + 1 :]
        position = end + 2
    raise ValueError(f"{text!r} has an open quote")
