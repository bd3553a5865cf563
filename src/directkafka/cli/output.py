"""How commands speak: data to stdout as text or JSON, messages to stderr."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["Format", "messages", "print_record", "print_records", "set_up_logging"]


class Format(StrEnum):
    """What stdout carries."""

    TEXT = "text"
    JSON = "json"


#: Where messages, progress and errors go.
messages = Console(stderr=True, highlight=False)


def print_record(record: Mapping[str, Any], form: Format, *, text: str) -> None:
    """One result: a JSON object on a line, or the text."""
    print(json.dumps(record) if form is Format.JSON else text, flush=True)


def print_records(records: Sequence[Mapping[str, Any]], form: Format, *, title: str) -> None:
    """Several results of one shape: JSON lines, or a table."""
    if form is Format.JSON:
        for record in records:
            print(json.dumps(record), flush=True)
        return
    table = Table(title=title, title_justify="left")
    for column in records[0] if records else ():
        is_number = isinstance(records[0][column], int)
        table.add_column(column, justify="right" if is_number else "left")
    for record in records:
        table.add_row(*(_shown(value) for value in record.values()))
    Console(file=sys.stdout).print(table)


def set_up_logging(*, verbose: bool) -> None:
    """Log lines to stderr: ours at INFO, everybody else's at WARNING; with ``verbose``, ours at DEBUG."""
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    logging.getLogger("directkafka").setLevel(logging.DEBUG if verbose else logging.INFO)
    # kafka-python's loggers repeat as errors what reaches the user as one of ours, with the remedy.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
