"""How fast record bytes in memory become Arrow: ``python -m benchmarks.decode [--repeat N]``.

One process, no socket; the best of N runs over the same bytes. Values are text like a flight's line, batches are
those of Java's producer (``batch.size`` 16384), larger ones (librdkafka with linger) and those of transactions of one
record each. CPU time is measured, not wall time, so that other programs on the machine disturb less.

Where it goes, in ns a record of 87 bytes without headers, batches of 170, on an EPYC of 2024:

=====================================  ====  ===
part                                   none  lz4
=====================================  ====  ===
CRC32C (google_crc32c's C function)       4    3
LZ4 (liblz4's C function)                 -   25
records: check and copy                  15   15
all else: headers, Python, Arrow          3    3
=====================================  ====  ===

What limits it now: of lz4, the chain of dependent loads from token to token, two nanoseconds each; of records, the
number of instructions for seven varints and their checks. Neither waits for memory as long as a run of batches
(``decode._RUN_BYTES``) fits into the processor's second cache. A batch costs 50 ns by itself, a response some 50
microseconds of Python and Arrow.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from typing import NamedTuple

from tests.record_encoder import CODECS, Record, decode, decoder, encode_batch, index_of

#: A fetch response; `max.partition.fetch.bytes` is 1 MiB unless set.
RESPONSE_BYTES = 4 * 1024 * 1024
HEADERS = ((b"trace", b"0123456789abcdef"), (b"source", None))


class Case(NamedTuple):
    """What is decoded: sizes in bytes."""

    codec: str
    value_bytes: int
    records_per_batch: int
    with_headers: bool


class Result(NamedTuple):
    """What one case took."""

    records: int
    seconds: float
    bytes: int


def cases() -> Iterator[Case]:
    """Every codec, small and large values and batches, with and without headers."""
    for codec in CODECS:
        for value_bytes, records_per_batch in ((87, 1), (87, 170), (87, 10_000), (1000, 16), (1000, 1000)):
            for with_headers in (False, True):
                yield Case(codec, value_bytes, records_per_batch, with_headers)


def text(size: int, chance: random.Random) -> bytes:
    """Comma-separated fields of a flight, cut at this size; lz4 makes it 1.7 times smaller."""
    fields: list[str] = []
    while sum(map(len, fields)) < size:
        fields.append(
            f"{chance.choice(('UA', 'AA', 'DL', 'B6'))},{chance.randrange(9999)},N{chance.randrange(99999)},EWR,"
            f"{chance.choice(('IAH', 'MIA', 'ORD', 'ATL'))},{chance.randrange(-20, 200)},{chance.randrange(30, 600)},"
            f"2013-01-{chance.randrange(1, 32):02d}T{chance.randrange(24):02d}:00:00Z,"
        )
    return "".join(fields).encode()[:size]


def response(case: Case) -> tuple[bytearray, int]:
    """Record bytes of about 4 MiB before compression, and how many records they are."""
    chance = random.Random(1)
    values = [text(case.value_bytes, chance) for _ in range(5000)]
    batches = max(1, RESPONSE_BYTES // ((case.value_bytes + 20) * case.records_per_batch + 61))
    made = bytearray()
    for first in range(0, batches * case.records_per_batch, case.records_per_batch):
        records = [
            Record(
                offset=offset,
                value=values[offset % len(values)],
                headers=HEADERS * case.with_headers,
                timestamp_ms=1_700_000_000_000 + offset,
            )
            for offset in range(first, first + case.records_per_batch)
        ]
        made += encode_batch(records, codec=case.codec)
    return made, batches * case.records_per_batch


def measured(case: Case, repeat: int) -> Result:
    """The best of several runs; batches are let go as soon as they are there, as Spark's writer does."""
    data, count = response(case)
    assert index_of(data).next_offset == count
    best = float("inf")
    for _ in range(repeat):
        using = decoder(include_headers=case.with_headers, read_committed=False)
        started = time.thread_time()
        decoded = sum(batch.num_rows for batch in decode(using, data))
        best = min(best, time.thread_time() - started)
        assert decoded == count
    return Result(count, best, len(data))


def line(case: Case, result: Result) -> str:
    """One line of the table."""
    rate, each = result.records / result.seconds / 1e6, result.seconds / result.records * 1e9
    volume = result.records * case.value_bytes / result.seconds / 1e9
    headers = "yes" if case.with_headers else "no"
    return (
        f"{case.codec:7} {case.value_bytes:5}  {case.records_per_batch:9}  {headers:7}"
        f"  {rate:11.1f}  {each:9.1f}  {volume:14.2f}"
    )


def main() -> None:
    """Print one line a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=25)
    parser.add_argument("--codec", choices=list(CODECS), help="only this one")
    arguments = parser.parse_args()
    print("codec   value  per batch  headers  M records/s  ns/record  GB/s of values")
    for case in cases():
        if arguments.codec in (None, case.codec):
            result = measured(case, arguments.repeat)
            print(line(case, result))


if __name__ == "__main__":
    main()
