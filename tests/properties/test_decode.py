"""The decoder against an encoder written from the format description, on records and on hostile bytes.

Whatever the bytes, there are two outcomes: rows, or an error that says where. Checksums are set right after a mutation,
so that the deeper checks are reached. ``python tests/properties/test_decode.py SECONDS [SEED]`` goes on for as long
as one likes, without shrinking; with ``NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(mktemp -d)`` the kernels check every
index.
"""

from __future__ import annotations

import random
import struct
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.record_encoder import (
    ABORT,
    CODECS,
    COMMIT,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Record,
    compress,
    decode,
    decode_rows,
    decoder,
    encode_batch,
    encode_record,
    expected_row,
    index_of,
    lz4_frame,
    marker,
    seal,
    varint,
    with_crc,
)

from directkafka.errors import MalformedBatchError
from directkafka.errors.streams import DecompressionLimitError

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
    batches = list(decode(decoder(**options), buffer))
    buffer[:] = bytes(len(buffer))
    rows = []
    for batch in batches:
        batch.validate(full=True)
        times = batch.column("timestamp").cast("int64").to_pylist()
        rows += zip(batch.drop_columns(["timestamp"]).to_pylist(), times, strict=True)
    return rows


@calm
@given(logs(), st.lists(codecs, min_size=5, max_size=5), st.integers(1, 20), st.integers(1, 1000))
def test_what_is_encoded_is_decoded_whatever_the_limits(
    log: list[list[Record]], with_codecs: list[str], rows_max: int, bytes_max: int
) -> None:
    data = b"".join(encode_batch(batch, codec=codec) for batch, codec in zip(log, with_codecs, strict=False))
    expected = [(expected_row(record), record.timestamp_ms * 1000) for batch in log for record in batch]
    assert rows_and_times(data, batch_rows_max=rows_max, batch_bytes_max=bytes_max) == expected
    assert index_of(data).next_offset == log[-1][-1].offset + 1


@calm
@given(logs(), codecs, st.data())
def test_exactly_the_wanted_offsets_are_decoded(log: list[list[Record]], codec: str, data: st.DataObject) -> None:
    records = [record for batch in log for record in batch]
    offsets = st.integers(records[0].offset, records[-1].offset + 2)
    lower, upper = sorted((data.draw(offsets), data.draw(offsets)))
    using = decoder(lower, upper, include_headers=False)
    rows = decode_rows(b"".join(encode_batch(batch, codec=codec) for batch in log), using=using)
    assert [row["offset"] for row in rows] == [record.offset for record in records if lower <= record.offset < upper]
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
    assert using.position == index_of(response[:cut]).next_offset
    rows += decode_rows(response, using=using)
    assert [row["offset"] for row in rows] == [record.offset for batch in log for record in batch]


@settings(calm, max_examples=300)
@given(st.integers(0, 2**63))
def test_hostile_bytes_give_every_row_before_them_and_then_rows_or_one_error(seed: int) -> None:
    check(some_log(random.Random(seed)), random.Random(seed + 1))


@calm
@given(logs(), codecs)
def test_a_log_cut_at_any_byte_gives_its_complete_batches(log: list[list[Record]], codec: str) -> None:
    batches = [encode_batch(batch, codec=codec) for batch in log]
    whole, ends = b"".join(batches), [sum(map(len, batches[: at + 1])) for at in range(len(batches))]
    using = decoder(batch_bytes_max=400)
    for cut in random.Random(len(whole)).sample(range(len(whole) + 1), min(40, len(whole))):
        using.position = 0
        offsets = [offset for batch in decode(using, whole[:cut]) for offset in batch["offset"].to_pylist()]
        complete = [batch for batch, end in zip(log, ends, strict=True) if end <= cut]
        assert offsets == [record.offset for batch in complete for record in batch]


@calm
@given(st.binary(max_size=300))
def test_noise_gives_rows_or_one_error(noise: bytes) -> None:
    refusal = refusal_of(noise, random.Random(0))
    assert refusal is None or names_its_place(refusal, noise)


class Batch(NamedTuple):
    """A batch as it was encoded, before anything happened to it."""

    data: bytes
    offsets: list[int]
    attributes: int
    producer_id: int
    marker: int | None = None


ABORTED_FROM = ((0, 0), (7, 3))
BOMB_LIMIT = 20_000


def some_log(chance: random.Random) -> list[Batch]:
    """A few batches of random records, markers among them."""
    batches, offset = [], chance.randrange(10)
    for _ in range(chance.randrange(1, 5)):
        producer_id = chance.choice((-1, 7, 8))
        if chance.random() < 0.15:
            kind = chance.choice((ABORT, COMMIT))
            batches.append(Batch(marker(offset, 7, kind), [offset], TRANSACTIONAL | CONTROL, 7, kind))
        else:
            records = [some_record(offset + at, chance) for at in range(chance.randrange(1, 5))]
            attributes = chance.choice((0, 0, LOG_APPEND_TIME, TRANSACTIONAL))
            codec = chance.choice(("none", "none", "lz4", "lz4", "snappy", "zstd", "gzip"))
            data = encode_batch(records, codec=codec, attributes=attributes, producer_id=producer_id)
            batches.append(Batch(data, [record.offset for record in records], attributes, producer_id))
        offset = batches[-1].offsets[-1] + chance.choice((1, 1, 3))
    return batches


def some_record(offset: int, chance: random.Random) -> Record:
    """A record of random fields."""
    key, value, pair = (
        None if chance.random() < 0.2 else chance.randbytes(chance.choice((0, 1, 4, 10, 70, 200))) for _ in range(3)
    )
    return Record(
        offset=offset,
        key=key,
        value=value if chance.random() < 0.7 else b"to be compressed " * chance.randrange(20),
        headers=((b"name", pair), (b"n", key)) if chance.random() < 0.5 else (),
        timestamp_ms=chance.choice((0, -1, 1_700_000_000_000 + offset, 9223372036854775)),
    )


def visible(batches: Sequence[Batch], from_offset: int, read_committed: bool) -> list[int]:
    """Offsets of the records a reader gets, by the book: one batch after the other, a set of aborting producers."""
    offsets: list[int] = []
    waiting, aborting = sorted((first, producer_id) for producer_id, first in ABORTED_FROM), set()
    for batch in batches:
        while waiting and batch.producer_id >= 0 and waiting[0][0] <= batch.offsets[-1]:
            aborting.add(waiting.pop(0)[1])
        if batch.marker is not None:
            aborting -= {batch.producer_id} if batch.marker == ABORT else set()
        elif not (read_committed and batch.attributes & TRANSACTIONAL and batch.producer_id in aborting):
            offsets += [offset for offset in batch.offsets if offset >= from_offset]
    return offsets


def check(log: Sequence[Batch], chance: random.Random) -> bool:
    """Spoil one batch of a log and decode it; whether it was refused.

    Raises:
        AssertionError: a record before the spoilt batch was not delivered, or the error names no place.
    """
    spoilt = chance.randrange(len(log))
    healthy, rest = log[:spoilt], [batch.data for batch in log[spoilt:]]
    rest[0] = chance.choice(SPOILERS)(rest[0], chance)
    data = b"".join([*(batch.data for batch in healthy), *rest])
    if chance.random() < 0.1:
        data = data[: chance.randrange(sum(len(batch.data) for batch in healthy), len(data) + 1)]
    from_offset, read_committed = chance.choice((0, 0, 5)), chance.random() < 0.5
    offsets: list[int] = []
    refusal = refusal_of(data, chance, from_offset, read_committed, offsets)
    expected = visible(healthy, from_offset, read_committed)
    assert offsets[: len(expected)] == expected, data.hex()
    assert refusal is None or names_its_place(refusal, data), data.hex()
    return refusal is not None


def mutated(batch: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, cut out or put in; length and checksum mostly fit again."""
    data = bytearray(batch)
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        # The leading header fields are easy to refuse; most changes go where records are.
        change(data, 0 if chance.random() < 0.3 else min(57, len(data)), chance)
    if len(data) > 61 and chance.random() < 0.95:
        if chance.random() < 0.9:
            data[8:12] = (len(data) - 12).to_bytes(4, "big")
        return with_crc(bytes(data))
    return bytes(data)


def change(data: bytearray, first: int, chance: random.Random) -> None:
    """Change a few bytes at or behind a position."""
    position = chance.randrange(first, len(data) + 1)
    width = chance.choice((1, 1, 1, 2, 4))
    action = chance.random()
    if action < 0.7:
        data[position : position + width] = chance.choice(_BYTES)[:width] or chance.randbytes(width)
    elif action < 0.85:
        del data[position : position + width]
    else:
        data[position:position] = chance.randbytes(width)


_BYTES = (
    b"",
    b"",
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x00",
    b"\x7f\xff\xff\xff",
    b"\x80\x80\x80\x80",
    b"\x01\x01\x01\x01",
)


def hostile_inside(batch: bytes, chance: random.Random) -> bytes:
    """A frame that its codec reads well, of records that are none."""
    count = chance.randrange(1, 4)
    records = bytearray(b"".join(encode_record(some_record(at, chance), 0, 0) for at in range(count)))
    for _ in range(chance.randrange(4)):
        change(records, 0, chance)
    return sealed(batch, bytes(records), count, chance)


def lying_header(batch: bytes, chance: random.Random) -> bytes:
    """Counts and offsets that are huge, negative, or simply not those of the records."""
    layout, position = chance.choice(
        ((">i", 57), (">i", 23), (">q", 0), (">q", 27), (">q", 35), (">q", 43), (">h", 21))
    )
    bits = struct.calcsize(layout) * 8 - 1
    value = chance.choice((-1, 0, 1, 2, 3, 100, 2**bits - 1, -(2**bits), 2 ** (bits - 1), chance.randrange(2**bits)))
    data = bytearray(batch)
    struct.pack_into(layout, data, position, value)
    return with_crc(bytes(data))


def huge_lengths(batch: bytes, chance: random.Random) -> bytes:
    """Records whose lengths and counts are any number at all."""
    numbers = (-1, -2, 0, 1, 5, 2**31 - 1, -(2**31), 2**32, 2**63 - 1, -(2**63), 10**6)
    fields = b"".join(
        varint(chance.choice(numbers)) if chance.random() < 0.3 else varint(chance.randrange(4)) for _ in range(8)
    )
    length = len(fields) + 1 if chance.random() < 0.8 else chance.choice(numbers)
    records = (varint(length) + b"\x00" + fields + chance.randbytes(chance.randrange(6))) * chance.randrange(1, 3)
    return sealed(batch, records, chance.choice((1, 1, 2, 0, -1, 2**31 - 1)), chance)


def bomb(batch: bytes, chance: random.Random) -> bytes:
    """A few bytes that decompress to more than the limit, or to almost that."""
    return sealed(batch, bytes(BOMB_LIMIT + chance.choice((-1, 0, 1, 1000, 10**6))), 1, chance)


def lz4_noise(batch: bytes, chance: random.Random) -> bytes:
    """LZ4 blocks with some changes, and noise in plain LZ4 frames."""
    frame = bytearray(lz4_frame(b"some text, some more text, and text again. " * chance.randrange(8)))
    if chance.random() < 0.5:
        for _ in range(chance.randrange(1, 4)):
            change(frame, min(11, len(frame)), chance)
    else:
        block = chance.randbytes(chance.randrange(60))
        frame = bytearray(frame[:7] + struct.pack("<I", len(block)) + block + bytes(chance.choice((4, 4, 3))))
    return seal(base_offset(batch), bytes(frame), count=chance.randrange(3), attributes=CODECS["lz4"])


def sealed(batch: bytes, records: bytes, count: int, chance: random.Random) -> bytes:
    """Record bytes in place of a batch's, compressed somehow."""
    codec = chance.choice(("none", "lz4", "lz4", "snappy", "zstd", "gzip"))
    attributes = CODECS[codec] | chance.choice((0, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL))
    return seal(
        base_offset(batch),
        compress(codec, records),
        count=count,
        attributes=attributes,
        last_offset_delta=chance.choice((count - 1, 3, 2**31 - 1)) if count > 0 else 0,
        producer_id=chance.choice((-1, 7)),
    )


def base_offset(batch: bytes) -> int:
    return int.from_bytes(batch[:8], "big")


SPOILERS = (mutated, mutated, mutated, hostile_inside, hostile_inside, lying_header, huge_lengths, lz4_noise, bomb)


def refusal_of(
    data: bytes,
    chance: random.Random,
    from_offset: int = 0,
    read_committed: bool = True,
    offsets: list[int] | None = None,
) -> MalformedBatchError | DecompressionLimitError | None:
    """Decode, and note the offsets found; None when all was read. Any other error is raised to the caller."""
    following = index_of(data).next_offset
    assert following >= 0
    using = decoder(
        from_offset,
        UNTIL,
        include_headers=chance.random() < 0.7,
        read_committed=read_committed,
        batch_rows_max=chance.choice((2, 1000)),
        batch_bytes_max=chance.choice((100, 10_000)),
        decompressed_bytes_max=BOMB_LIMIT,
    )
    try:
        for batch in decode(using, data, ABORTED_FROM):
            batch.validate(full=True)
            if offsets is not None:
                offsets += batch.column("offset").to_pylist()
    except (MalformedBatchError, DecompressionLimitError) as refusal:
        return refusal
    assert using.position >= min(following, UNTIL)
    return None


def names_its_place(refusal: MalformedBatchError | DecompressionLimitError, data: bytes) -> bool:
    if isinstance(refusal, DecompressionLimitError):
        return (refusal.topic, refusal.partition, refusal.limit_bytes) == ("flights", 3, BOMB_LIMIT)
    has_valid_position = (refusal.topic, refusal.partition) == ("flights", 3) and 0 <= refusal.position <= len(data)
    return has_valid_position and bool(refusal.reason)


def fuzz(seconds: float, seed: int) -> None:
    """Spoil batches until the time is over."""
    chance = random.Random(seed)
    counts = {True: 0, False: 0}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        log = some_log(chance)
        for _ in range(50):
            counts[check(log, chance)] += 1
    print(f"seed {seed}: {sum(counts.values())} inputs, {counts[True]} refused, {counts[False]} read")


if __name__ == "__main__":
    fuzz(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns())
