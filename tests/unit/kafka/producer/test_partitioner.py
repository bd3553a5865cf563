from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from kafka.partitioner.default import murmur2

from directkafka.errors import OptionError
from directkafka.kafka.producer.partitioner import key_hashes, partitions_of

#: Kafka's own test of its hash, ``UtilsTest.testMurmur2``.
PUBLISHED = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_hashes_are_those_of_kafka_s_own_test() -> None:
    assert key_hashes(pa.array(list(PUBLISHED))).tolist() == [key_hash & 0x7FFFFFFF for key_hash in PUBLISHED.values()]


def test_hashes_are_those_of_kafka_python_for_keys_of_any_length() -> None:
    dice = random.Random(5)
    keys = [dice.randbytes(length) for length in range(70) for _ in range(20)]
    assert key_hashes(pa.array(keys)).tolist() == [murmur2(key) & 0x7FFFFFFF for key in keys]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()])
def test_text_is_hashed_as_utf_8(kind: pa.DataType) -> None:
    keys = pa.array(["", "für", None, "abc"], kind)
    assert key_hashes(keys.slice(1)).tolist() == [murmur2("für".encode()) & 0x7FFFFFFF, -1, 479470107]


def test_an_empty_key_is_a_key() -> None:
    assert key_hashes(pa.array([b""])).tolist() == [murmur2(b"") & 0x7FFFFFFF]


def keyed(keys: list[bytes | None]) -> pa.RecordBatch:
    return pa.record_batch({"key": pa.array(keys, pa.binary())})


def test_a_key_s_partition_is_the_rest_by_the_number_of_partitions() -> None:
    rows = keyed([b"21", b"21", b"abc"])
    positive = [-973932308 & 0x7FFFFFFF, -973932308 & 0x7FFFFFFF, 479470107]
    assert partitions_of(rows, 7)[0].tolist() == [key_hash % 7 for key_hash in positive]
    counts = np.array([5, 1, 9], np.int32)
    assert partitions_of(rows, counts)[0].tolist() == [positive[0] % 5, 0, positive[2] % 9]


def test_rows_without_key_take_the_partitions_in_turn_and_their_number_is_told() -> None:
    rows = keyed([None, b"21", None, None, None])
    of_key = (-973932308 & 0x7FFFFFFF) % 3
    partitions, in_turn = partitions_of(rows, 3)
    assert (partitions.tolist(), in_turn) == ([0, of_key, 1, 2, 0], 4)
    assert partitions_of(rows, 3, first=in_turn)[0].tolist() == [1, of_key, 2, 0, 1]
    assert partitions_of(pa.record_batch({"value": pa.array([b""] * 4)}), 3, 2)[0].tolist() == [2, 0, 1, 2]
    last = partitions_of(keyed([None, None]), 7, first=2**31 - 1)[0]
    assert last.tolist() == [(2**31 - 1) % 7, 0], "a turn is a number of 31 bits, as a hash is"


def test_a_partition_that_a_row_names_wins_over_its_key_and_its_turn() -> None:
    rows = keyed([b"21", b"21", None]).append_column("partition", pa.array([5, None, 6], pa.int32()))
    assert partitions_of(rows, 3)[0].tolist() == [5, (-973932308 & 0x7FFFFFFF) % 3, 6]
    assert partitions_of(rows.filter(rows.column("partition").is_valid()), 3)[0].tolist() == [5, 6]


def test_keys_of_another_type_are_refused() -> None:
    with pytest.raises(OptionError, match="int64"):
        key_hashes(pa.array([1]))
