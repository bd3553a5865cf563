from __future__ import annotations

from pathlib import Path

import pytest

from directkafka import sinks
from directkafka.sinks.databases import load_blocks, parse_blocks


def test_blocks_come_by_name_without_comments_and_semicolon() -> None:
    text = (
        "-- A file.\n\n-- name: one\n-- What it is for.\nSELECT 1\n  -- why\n FROM x;\n\n"
        "-- name: two\n-- Another.\nSELECT 2;\n"
    )
    assert parse_blocks(text, "f.sql")["two"] == "SELECT 2"
    assert parse_blocks(text, "f.sql")["one"].startswith("SELECT 1")


@pytest.mark.parametrize(
    "text",
    [
        "-- name: one\nSELECT 1;",
        "-- name: one\n-- No statement.\n",
        "-- name: one\n-- Twice.\nSELECT 1;\n-- name: one\n-- Twice.\nSELECT 2;",
    ],
)
def test_a_block_needs_its_own_name_a_description_and_a_statement(text: str) -> None:
    with pytest.raises(ValueError, match=r"^f\.sql: block one"):
        parse_blocks(text, "f.sql")


@pytest.mark.parametrize(
    ("package", "file"),
    [(path.parent.name, path.name) for path in sorted((Path(sinks.__file__).parent).glob("*/*.sql"))],
)
def test_the_files_that_are_shipped_can_be_read(package: str, file: str) -> None:
    assert load_blocks(f"directkafka.sinks.{package}", file)
