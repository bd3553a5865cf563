"""Tables that `make bench` writes into the pages: each group's into docs/performance.md, a few figures into README.

A group's table stands between two comments and is replaced as a whole, so that all its rows are from one run. Groups
that were not run stay as they are. The text around the tables is written by hand.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from figures import Figure

__all__ = ["HEADLINES", "PERFORMANCE", "README", "figures_on", "readme_rows", "write_pages"]

_ROOT: Final = Path(__file__).parents[1]
PERFORMANCE: Final = _ROOT / "docs" / "performance.md"
README: Final = _ROOT / "README.md"

#: README's rows: what is beside us, the measure (its first words), and whether it is a part of the other one's time.
HEADLINES: Final = (
    ("Spark's connector: reads of 87-byte records, uncompressed, into `noop`", "read, none, noop", False),
    ("Spark's connector: reads of 1 KB records, lz4, into `noop`", "read, 1,000 bytes, lz4, noop", False),
    ("Spark's connector: micro-batches of 2,000 records", "time of a batch of 2,000 records", True),
    ("Spark's connector: the first batch of a process", "first batch of a cold process", True),
    ("`foreachBatch` with JDBC, at least once: Kafka to Postgres", "Kafka to Postgres, 4,000,000 rows", False),
    ("Spark's streaming writer of Parquet files: Kafka to Parquet files", "Kafka to Parquet files, rows", False),
    ("Spark's source and sink: Kafka to Kafka", "Kafka to Kafka, records, beside", False),
    ("quixstreams: JSON from Kafka into ten columns of Postgres", "JSON to Postgres, beside quixstreams", False),
    ("a loop of confluent-kafka and COPY: the same", "JSON to Postgres, beside confluent-kafka and COPY", False),
)

_ROW: Final = re.compile(r"^\| (?P<measure>[^|]+?) \| (?P<value>-?[\d.]+) (?P<unit>[^|]+?) \|", re.MULTILINE)


def write_pages(figures_by_group: Mapping[str, Sequence[Figure]]) -> None:
    """Write the tables of the groups that were run.

    Args:
        figures_by_group: the figures by group.

    Raises:
        ValueError: the page has no place for a group.
    """
    text = PERFORMANCE.read_text()
    for group, figures in figures_by_group.items():
        text = _replaced(text, f"figures: {group}", f"{_made()}\n\n{_table(figures)}")
    PERFORMANCE.write_text(text)
    readme = README.read_text()
    if "<!-- measured -->" in readme:
        README.write_text(_replaced(readme, "measured", "\n".join(readme_rows(text))))


def figures_on(page: str) -> dict[str, float]:
    """The measures of docs/performance.md and their values.

    Args:
        page: its text.
    """
    return {row["measure"]: float(row["value"]) for row in _ROW.finditer(page)}


def readme_rows(page: str) -> Iterator[str]:
    """The rows of README's table, by the figures of docs/performance.md, for those that it has.

    Args:
        page: its text.
    """
    figures = figures_on(page)
    yield from ("| beside | times as fast |", "|---|---|")
    for shown, measure, is_time in HEADLINES:
        for value in [value for name, value in figures.items() if name.startswith(measure)][:1]:
            yield f"| {shown} | {1 / value if is_time else value:.1f} |"


def _replaced(text: str, mark: str, block: str) -> str:
    pattern = re.compile(
        rf"(<!-- {re.escape(mark)} -->\n).*?(<!-- /{re.escape(mark.partition(':')[0])} -->)", re.DOTALL
    )
    text, count = pattern.subn(lambda match: f"{match[1]}{block}\n{match[2]}", text)
    if count != 1:
        raise ValueError(f"{count} places for {mark!r}")
    return text


def _table(figures: Sequence[Figure]) -> str:
    lines = ["| measure | figure | required | medians (least to most) |", "|---|---|---|---|"]
    for figure in figures:
        bound = "" if figure.required is None else f"{'at most ' * figure.at_most}{figure.required:g}"
        missed = "" if figure.is_met else ", **missed**"
        lines.append(f"| {figure.name} | {figure.value:.2f} {figure.unit} | {bound}{missed} | {figure.detail} |")
    return "\n".join(lines)


def _made() -> str:
    """When and on what: only figures of one line can be compared."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    cores = f"{os.cpu_count()} cores of {_processor()}"
    return f"{day}, {cores}, Python {platform.python_version()}, PySpark {version('pyspark')}:"


def _processor() -> str:
    try:
        names = re.findall(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        names = []
    return names[0] if names else platform.machine()
