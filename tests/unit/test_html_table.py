"""Tables of notebooks: whatever is in a cell is text."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from tests.hostile import HOSTILE, assert_harmless

from directkafka.html_table import ROWS_MAX, html_of_records, html_table
from directkafka.offsets import OffsetRange, OffsetRangeList, OffsetRangeTuple

_OURS = {"table", "caption", "tr", "th", "td"}


class _Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_numbers_stand_to_the_right_and_nothing_is_a_dash() -> None:
    table = html_table("Rows", ("name", "rows"), [("a", 1_234), ("b", None), ("c", True)])
    assert table == (
        "<table><caption>Rows</caption><tr><th>name</th><th>rows</th></tr>"
        '<tr><td style="text-align: left">a</td><td style="text-align: right">1,234</td></tr>'
        '<tr><td style="text-align: left">b</td><td style="text-align: left">-</td></tr>'
        '<tr><td style="text-align: left">c</td><td style="text-align: left">True</td></tr></table>'
    )


@pytest.mark.parametrize("value", [*HOSTILE.values(), "<script>alert(1)</script>", "</table><img src=x onerror=a>"])
def test_no_value_becomes_markup(value: str) -> None:
    table = html_table(value, (value,), [(value,)])
    assert _Tags(table).tags <= _OURS
    assert_harmless(table)


def test_what_is_too_much_is_counted() -> None:
    tags = _Tags(html_table("Rows", ("n",), [(number,) for number in range(ROWS_MAX + 5)]))
    assert tags.texts[-1] == "5 more"
    assert _Tags(html_table("Rows", ("n",), [(number,) for number in range(ROWS_MAX)])).texts[-1] == f"{ROWS_MAX - 1}"


def test_records_have_their_names_as_heads() -> None:
    assert _Tags(html_of_records("Rows", [{"a": 1, "b": "x"}])).texts == ["Rows", "a", "b", "1", "x"]
    assert _Tags(html_of_records("Rows", [])).texts == ["Rows"]


@pytest.mark.parametrize("kind", [OffsetRangeList, OffsetRangeTuple])
def test_ranges_are_a_table_with_their_sum(kind: type[OffsetRangeList | OffsetRangeTuple]) -> None:
    ranges = kind([OffsetRange("air", 0, 5, 25), OffsetRange("air", 1, 0, 1_000)])
    texts = _Tags(ranges._repr_html_()).texts
    assert texts[0] == "2 offset ranges, 1,020 offsets"
    assert texts[6:11] == ["air", "0", "5", "25", "20"]
    assert ranges == kind(list(ranges))
