"""Reads ``.sql`` files: named blocks, each with a sentence that says what it is for.

A file is a list of blocks::

    -- name: read_entry
    -- The entry of one pipeline as last committed.
    SELECT ... ;

The statements are package data, not user input; names of tables and columns that vary are ``{placeholders}``
for :class:`psycopg.sql.SQL`, values are ``%(parameters)s``.
"""

from __future__ import annotations

import re
from importlib import resources

__all__ = ["load_blocks", "parse_blocks"]

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
