from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from kafka.partitioner.default import murmur2

from directkafka.errors import OptionError
from directkafka.kafka.producer.partitioner import key_hashes, partitions_of_keys

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
    assert key_hashes(pa.array(list(PUBLISHED))).tolist() == [one & 0x7FFFFFFF for one in PUBLISHED.values()]


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


def test_a_key_s_partition_is_the_rest_by_the_number_of_partitions() -> None:
    keys = pa.array([b"21", b"21", b"abc"])
    own = np.array([], np.int32)
    positive = [-973932308 & 0x7FFFFFFF, -973932308 & 0x7FFFFFFF, 479470107]
    assert partitions_of_keys(keys, 7, own).tolist() == [one % 7 for one in positive]
    counts = np.array([5, 1, 9], np.int32)
    assert partitions_of_keys(keys, counts, own).tolist() == [positive[0] % 5, 0, positive[2] % 9]


def test_rows_without_key_are_dealt_in_turn_to_one_s_own_partitions() -> None:
    keys = pa.array([None, b"21", None, None, None], pa.binary())
    own = np.array([4, 9, 2], np.int32)
    keyed = (-973932308 & 0x7FFFFFFF) % 12
    assert partitions_of_keys(keys, 12, own).tolist() == [4, keyed, 9, 2, 4]
    assert partitions_of_keys(keys, 12, own, first=4).tolist() == [9, keyed, 2, 4, 9]


def test_keys_of_another_type_are_refused() -> None:
    with pytest.raises(OptionError, match="int64"):
        key_hashes(pa.array([1]))
