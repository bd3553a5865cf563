"""``python -m soak.json_texts``: so many random texts, most of them odd, read by the kernel and by the slow way.

Rows, and what is said to be wrong with them, must be the same. Behind the last text of each 2,000 there are 16 bytes
that may be read; the next one ends the process.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
from collections.abc import Iterator
from typing import Annotated, Final

import pyarrow as pa
import typer
from rich.progress import track
from tests.guarded_texts import FILLERS, GuardedTexts
from tests.json_documents import EVERY_TYPE, comparable, documents

from directkafka.options.schemas.ddl import parse_ddl
from directkafka.payloads.arrow_types import arrow_type
from directkafka.payloads.json.decoder import JsonDecoder
from directkafka.payloads.json.values import JsonReader

_SCHEMA: Final = arrow_type(parse_ddl(EVERY_TYPE))
_AT_ONCE: Final = 2_000
_ODD: Final = (0.0, 0.05, 0.1, 0.3, 0.6)


def main(
    count: Annotated[int, typer.Option(help="How many texts.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="The same makes the same texts.")] = 1,
    processes: Annotated[int, typer.Option(help="How many work at a time.")] = 2,
) -> None:
    """Compare the kernel with the slow way; the first difference ends it."""
    seeds = range(seed * 1_000_000, seed * 1_000_000 + -(-count // _AT_ONCE))
    left = 0
    with multiprocessing.Pool(processes) as pool:
        parts = pool.imap_unordered(_compare, seeds)
        for left_of_part, difference in track(parts, "texts", total=len(seeds)):
            left += left_of_part
            if difference:
                sys.exit(difference)
    print(f"{len(seeds) * _AT_ONCE:,} texts, no difference; the kernel left {left:,} of them")


def _compare(seed: int) -> tuple[int, str]:
    """How many of a seed's texts the kernel left, and the first difference."""
    texts = list(_texts(seed))
    decoder, reader = JsonDecoder(_SCHEMA), JsonReader(_SCHEMA)
    with GuardedTexts(texts, FILLERS[seed % len(FILLERS)]) as column:
        array = decoder.decode(column)
        array.validate(full=True)
        read = [reader.read(text) for text in texts]
        wanted = pa.array([row for row, _ in read], _SCHEMA)
        if not array.equals(wanted):
            # Or they differ by NaN alone, which is not equal to itself.
            for text, row, wanted_row in zip(texts, comparable(array), comparable(wanted), strict=True):
                if row != wanted_row:
                    return 0, f"seed {seed}: {text!r}: {row}, by the slow way {wanted_row}"
        del array
    for number, (text, (_, problem)) in enumerate(zip(texts, read, strict=True)):
        if decoder.problems.get(number, "") != problem:
            return 0, f"seed {seed}: {text!r}: {decoder.problems.get(number)!r}, by the slow way {problem!r}"
    return decoder.left_count, ""


def _texts(seed: int) -> Iterator[bytes]:
    odd = random.Random(seed).choice(_ODD)
    return documents(_AT_ONCE, seed, odd=odd)


if __name__ == "__main__":
    typer.run(main)
