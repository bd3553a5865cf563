"""Tables for notebooks: values of unknown origin as HTML, in which they are text and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from directkafka.plain_text import one_line

#: Rows of a table; a notebook with more is slow, and nobody reads them.
ROWS_MAX: Final = 200


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table, with numbers to the right and None as a dash.

    Args:
        caption: what stands above it.
        heads: names of the columns.
        rows: cells; those behind the first :data:`ROWS_MAX` are counted.
    """
    all_rows = list(rows)
    lines = [f"<tr>{''.join(f'<th>{_text(head)}</th>' for head in heads)}</tr>"]
    lines += [f"<tr>{''.join(map(_cell, row))}</tr>" for row in all_rows[:ROWS_MAX]]
    if left := len(all_rows) - ROWS_MAX:
        lines += [f'<tr><td colspan="{len(heads)}">{left:,} more</td></tr>'] if left > 0 else []
    return f"<table><caption>{_text(caption)}</caption>{''.join(lines)}</table>"


def html_of_records(caption: str, records: Sequence[Mapping[str, Any]]) -> str:
    """A table of records that have the same names."""
    heads = list(records[0]) if records else []
    return html_table(caption, heads, (record.values() for record in records))  # type: ignore[misc]


def _cell(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td style="text-align: right">{value:,}</td>'
    return f'<td style="text-align: left">{"-" if value is None else _text(str(value))}</td>'


def _text(text: str) -> str:
    return escape(one_line(text))
