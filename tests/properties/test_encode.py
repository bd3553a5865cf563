"""The encoder against the decoder and the format's description, on rows, targets and sizes of any kind."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.record_encoder import CODECS, Record, decode_rows, encode_record, expected_row

from directkafka.kafka.records.encoder import ProducerIdentity, RecordEncoder
from directkafka.kafka.records.record_batch import HEADER_SIZE
from directkafka.offsets import TopicPartition
from directkafka.options.producer import ProducerOptions

PARTITIONS = [TopicPartition("flights", number) for number in range(4)]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: How long an example takes says more about the machine than about the encoder.
calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

texts = st.text(max_size=12)
perhaps_bytes = st.none() | st.binary(max_size=40) | st.binary(min_size=120, max_size=300)
#: Those of Python's datetime, in milliseconds; what others become is for the second test to say.
timestamps_ms = st.integers(0, 250_000_000_000_000) | st.integers(1_700_000_000_000, 1_700_000_100_000)


def records_at(times: st.SearchStrategy[int]) -> st.SearchStrategy[Record]:
    return st.builds(
        Record,
        offset=st.just(0),
        key=perhaps_bytes,
        value=perhaps_bytes,
        headers=st.lists(st.tuples(texts.map(str.encode), perhaps_bytes), max_size=3).map(tuple),
        timestamp_ms=times,
    )


def table(rows: list[Record]) -> pa.RecordBatch:
    headers = [[{"key": key.decode(), "value": value} for key, value in row.headers] for row in rows]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.record_batch(
        {
            "key": pa.array([row.key for row in rows], pa.binary()),
            "value": pa.array([row.value for row in rows], pa.binary()),
            "headers": pa.array(headers, kind),
            "timestamp": pa.array([row.timestamp_ms for row in rows], pa.int64()),
        }
    )


@calm
@given(
    st.lists(st.tuples(st.integers(0, 3), records_at(timestamps_ms)), max_size=40),
    st.sampled_from(sorted(CODECS)),
    st.integers(0, 1500),
    st.integers(0, 5),
)
def test_what_was_encoded_is_decoded_again_in_order_at_its_target(
    rows: list[tuple[int, Record]], codec: str, batch_size: int, skipped: int
) -> None:
    encoder = RecordEncoder(
        ProducerOptions(compression=codec, batch_size_bytes=batch_size), ProducerIdentity(producer_id=1, epoch=0)
    )
    kept = rows[skipped:]
    target_of = np.array([target for target, _ in kept], np.int32)
    batches = encoder.encode(table([row for _, row in rows]).slice(skipped), PARTITIONS, target_of)
    decoded, expected, sequences = defaultdict(list), defaultdict(list), defaultdict(int)
    for batch in batches:
        assert batch.base_sequence == sequences[batch.target]
        sequences[batch.target] += batch.records
        for row in decode_rows(bytes(batch.data)):
            time = row.pop("timestamp")
            decoded[batch.target].append((row | {"offset": 0}, (time - EPOCH) // timedelta(milliseconds=1)))
    for target, record in kept:
        expected[PARTITIONS[target]].append((expected_row(record), record.timestamp_ms))
    assert decoded == expected
    if codec == "none":
        assert all(len(batch.data) <= batch_size or batch.records == 1 for batch in batches)


@calm
@given(st.lists(records_at(st.integers(0, 2**63 - 1)), min_size=1, max_size=20))
def test_records_are_those_of_an_encoder_that_was_written_from_the_format_description(rows: list[Record]) -> None:
    encoder = RecordEncoder(ProducerOptions(), ProducerIdentity(producer_id=1, epoch=0))
    (batch,) = encoder.encode(table(rows), PARTITIONS, np.zeros(len(rows), np.int32))
    base = rows[0].timestamp_ms
    numbered = [
        Record(offset=number, key=row.key, value=row.value, headers=row.headers, timestamp_ms=row.timestamp_ms)
        for number, row in enumerate(rows)
    ]
    assert bytes(batch.data[HEADER_SIZE:]) == b"".join(encode_record(row, 0, base) for row in numbered)
