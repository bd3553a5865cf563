"""The decoder against an encoder written from the format description, on records and on hostile bytes.

Whatever the bytes, there are two outcomes: rows, or a MalformedBatchError. Checksums are set right after a mutation,
so that the deeper checks are reached. ``python tests/properties/test_decode.py SECONDS [SEED]`` goes on for as long
as one likes, without shrinking; with ``NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(mktemp -d)`` the kernels check every
index.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.record_encoder import (
    CODECS,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Record,
    decode_rows,
    decoder,
    encode_batch,
    expected_row,
    with_crc,
)

from directkafka.errors import MalformedBatchError
from directkafka.kafka.record_batch import next_offset

UNTIL = 2**62
#: How long an example takes says more about the machine than about the decoder.
calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

small_bytes = st.binary(max_size=40)
perhaps_bytes = st.none() | small_bytes | st.binary(min_size=120, max_size=300)
header = st.tuples(small_bytes, perhaps_bytes)
timestamps_ms = st.integers(-(10**12), 10**13)
codecs = st.sampled_from(sorted(CODECS))


@st.composite
def logs(draw: st.DrawFn) -> list[list[Record]]:
    """Records of several batches, offsets rising with gaps."""
    offset = draw(st.integers(0, 2**40))
    batches = []
    for size in draw(st.lists(st.integers(1, 8), min_size=1, max_size=5)):
        batch = []
        for _ in range(size):
            batch.append(
                Record(
                    offset=offset,
                    key=draw(perhaps_bytes),
                    value=draw(perhaps_bytes),
                    headers=tuple(draw(st.lists(header, max_size=3))),
                    timestamp_ms=draw(timestamps_ms),
                )
            )
            offset += draw(st.integers(1, 3))
        batches.append(batch)
    return batches


def rows_and_times(data: bytes, **options: object) -> list[tuple[dict[str, object], int]]:
    buffer = bytearray(data)
    batches = list(decoder(**options).decode(memoryview(buffer), ()))
    buffer[:] = bytes(len(buffer))
    found = []
    for batch in batches:
        batch.validate(full=True)
        times = batch.column("timestamp").cast("int64").to_pylist()
        found += zip(batch.drop_columns(["timestamp"]).to_pylist(), times, strict=True)
    return found


@calm
@given(logs(), st.lists(codecs, min_size=5, max_size=5), st.integers(1, 20), st.integers(1, 1000))
def test_what_is_encoded_is_decoded_whatever_the_limits(
    log: list[list[Record]], with_codecs: list[str], rows_max: int, bytes_max: int
) -> None:
    data = b"".join(encode_batch(batch, codec=codec) for batch, codec in zip(log, with_codecs, strict=False))
    expected = [(expected_row(one), one.timestamp_ms * 1000) for batch in log for one in batch]
    assert rows_and_times(data, batch_rows_max=rows_max, batch_bytes_max=bytes_max) == expected
    assert next_offset(memoryview(data)) == log[-1][-1].offset + 1


@calm
@given(logs(), codecs, st.data())
def test_exactly_the_wanted_offsets_are_decoded(log: list[list[Record]], codec: str, data: st.DataObject) -> None:
    records = [one for batch in log for one in batch]
    offsets = st.integers(records[0].offset, records[-1].offset + 2)
    lower, upper = sorted((data.draw(offsets), data.draw(offsets)))
    using = decoder(lower, upper, include_headers=False)
    rows = decode_rows(b"".join(encode_batch(batch, codec=codec) for batch in log), using=using)
    assert [row["offset"] for row in rows] == [one.offset for one in records if lower <= one.offset < upper]
    assert using.position == max(lower, min(upper, records[-1].offset + 1))


@calm
@given(logs(), codecs, st.data())
def test_a_response_cut_anywhere_and_fetched_again_loses_and_doubles_nothing(
    log: list[list[Record]], codec: str, data: st.DataObject
) -> None:
    response = b"".join(encode_batch(batch, codec=codec) for batch in log)
    cut = data.draw(st.integers(0, len(response)))
    using = decoder()
    rows = decode_rows(response[:cut], using=using)
    assert using.position == (next_offset(memoryview(response[:cut])) or 0)
    rows += decode_rows(response, using=using)
    assert [row["offset"] for row in rows] == [one.offset for batch in log for one in batch]


@settings(calm, max_examples=300)
@given(logs(), codecs, st.randoms(use_true_random=False), st.booleans())
def test_hostile_bytes_give_rows_or_one_error(
    log: list[list[Record]], codec: str, chance: random.Random, fixed: bool
) -> None:
    data = mutated([encode_batch(batch, codec=codec) for batch in log], chance, fix_checksums=fixed)
    refusal = refusal_of(data, chance)
    assert refusal is None or names_its_place(refusal, data)


@calm
@given(st.binary(max_size=300))
def test_noise_gives_rows_or_one_error(noise: bytes) -> None:
    refusal = refusal_of(noise, random.Random(0))
    assert refusal is None or names_its_place(refusal, noise)


def mutated(batches: Sequence[bytes], chance: random.Random, *, fix_checksums: bool) -> bytes:
    """Some bytes of some batches changed, cut out or put in."""
    changed = []
    for batch in batches:
        data = bytearray(batch)
        for _ in range(chance.choice((0, 1, 1, 2, 5))):
            # The leading header fields are easy to refuse; most changes go where records are.
            first = 0 if chance.random() < 0.3 else min(57, len(data))
            position = chance.randrange(first, len(data) + 1)
            width = chance.choice((1, 1, 1, 2, 4))
            action = chance.random()
            if action < 0.7:
                data[position : position + width] = chance.choice(_BYTES)[:width] or chance.randbytes(width)
            elif action < 0.85:
                del data[position : position + width]
            else:
                data[position:position] = chance.randbytes(width)
        if fix_checksums and len(data) > 61:
            if chance.random() < 0.9:
                data[8:12] = (len(data) - 12).to_bytes(4, "big")
            data = bytearray(with_crc(bytes(data)))
        changed.append(bytes(data))
    whole = b"".join(changed)
    return whole[: chance.randrange(len(whole) + 1)] if chance.random() < 0.1 else whole


_BYTES = (
    b"",
    b"",
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x00",
    b"\x7f\xff\xff\xff",
    b"\x80\x80\x80\x80",
    b"\x01\x01\x01\x01",
)


def refusal_of(data: bytes, chance: random.Random) -> MalformedBatchError | None:
    """Decode; None when it was read. Any other error is raised to the caller."""
    following = next_offset(memoryview(data))
    assert following is None or following > 0
    using = decoder(
        chance.choice((0, 0, 5)),
        UNTIL,
        include_headers=chance.random() < 0.7,
        read_committed=chance.random() < 0.5,
        batch_bytes_max=chance.choice((100, 10_000)),
        decompressed_bytes_max=1 << 20,
    )
    try:
        for batch in using.decode(memoryview(data), ((0, 0), (7, 3))):
            batch.validate(full=True)
    except MalformedBatchError as refusal:
        return refusal
    assert using.position >= min(following or 0, UNTIL)
    return None


def names_its_place(refusal: MalformedBatchError, data: bytes) -> bool:
    place = (refusal.topic, refusal.partition) == ("flights", 3) and 0 <= refusal.position <= len(data)
    return place and bool(refusal.reason)


def fuzz(seconds: float, seed: int) -> None:
    """Mutate encoded batches until the time is over."""
    chance = random.Random(seed)
    counts = {True: 0, False: 0}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        attributes = chance.choice((0, 0, 0, LOG_APPEND_TIME, TRANSACTIONAL, TRANSACTIONAL | CONTROL))
        batches, offset = [], chance.randrange(10)
        for _ in range(chance.randrange(1, 4)):
            records = [some_record(offset + at, chance) for at in range(chance.randrange(1, 5))]
            codec = chance.choice(("none", "none", "lz4", "snappy", "zstd", "gzip"))
            batches.append(
                encode_batch(records, codec=codec, attributes=attributes, producer_id=chance.choice((-1, 7)))
            )
            offset += len(records)
        for _ in range(50):
            data = mutated(batches, chance, fix_checksums=chance.random() < 0.95)
            refusal = refusal_of(data, chance)
            assert refusal is None or names_its_place(refusal, data), data.hex()
            counts[refusal is not None] += 1
    print(f"seed {seed}: {sum(counts.values())} inputs, {counts[True]} refused, {counts[False]} read")


def some_record(offset: int, chance: random.Random) -> Record:
    """A record of random fields."""
    key, value, pair = (
        None if chance.random() < 0.2 else chance.randbytes(chance.choice((0, 1, 4, 10, 70, 200))) for _ in range(3)
    )
    return Record(
        offset=offset,
        key=key,
        value=value,
        headers=((b"name", pair), (b"n", key)) if chance.random() < 0.5 else (),
        timestamp_ms=chance.choice((0, -1, 1_700_000_000_000 + offset, 9223372036854775)),
    )


if __name__ == "__main__":
    fuzz(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns())
