"""Our reading of a Fetch response's header against kafka-python's, for every version, and on hostile bytes."""

from __future__ import annotations

import uuid
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.fetch import FetchResponse as Theirs

from directkafka.kafka.consumer.fetch import FetchResponse, parse_fetch_response
from directkafka.kafka.network.receive import ResponseError

VERSIONS = range(4, 18)
TOPIC_ID = uuid.UUID(int=0x1234_5678_9ABC_DEF0)
CORRELATION_ID = 0x0BADCAFE
INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)

Pairs = list[tuple[int, int]] | None


def encode(
    version: int,
    *,
    aborted: Pairs = None,
    records: bytes | None = b"",
    error_code: int = 0,
    response_error: int = 0,
    topic: str = "flights",
    topic_id: uuid.UUID = TOPIC_ID,
    **numbers: int,
) -> bytes:
    """A response without its length, by kafka-python's schema."""
    partition_type = Theirs.FetchableTopicResponse.PartitionData
    partition = partition_type(
        version=version,
        partition_index=numbers.get("partition", 3),
        error_code=error_code,
        high_watermark=numbers.get("high_watermark", 1_000),
        last_stable_offset=numbers.get("last_stable_offset", 900),
        log_start_offset=numbers.get("log_start_offset", 7),
        preferred_read_replica=numbers.get("preferred_read_replica", -1),
        aborted_transactions=None
        if aborted is None
        else [
            partition_type.AbortedTransaction(version=version, producer_id=producer, first_offset=first)
            for producer, first in aborted
        ],
        records=records,
    )
    whole = Theirs.FetchableTopicResponse(version=version, topic=topic, topic_id=topic_id, partitions=[partition])
    response = Theirs(
        version=version,
        throttle_time_ms=numbers.get("throttle_ms", 0),
        error_code=response_error,
        session_id=0,
        responses=[whole] if numbers.get("topic_count", 1) else [],
    )
    response.with_header(correlation_id=CORRELATION_ID)
    return bytes(response.encode(header=True))


def parsed(frame: bytes, version: int) -> tuple[FetchResponse, bytes]:
    response = parse_fetch_response(memoryview(frame), version)
    return response, frame[response.records_start : response.records_end]


def as_they_read(frame: bytes, version: int) -> tuple[dict[str, Any], bytes]:
    """The fields of ours, from kafka-python's decoding."""
    theirs = Theirs.decode(frame, version=version, header=True)
    partition = theirs.responses[0].partitions[0]
    fields = {
        "correlation_id": theirs.header.correlation_id,
        "throttle_ms": theirs.throttle_time_ms,
        "error_code": partition.error_code,
        "partition": partition.partition_index,
        "high_watermark": partition.high_watermark,
        "last_stable_offset": partition.last_stable_offset,
        "log_start_offset": partition.log_start_offset if version >= 5 else -1,
        "aborted": tuple(
            (transaction.producer_id, transaction.first_offset) for transaction in partition.aborted_transactions or ()
        ),
        "preferred_read_replica": partition.preferred_read_replica if version >= 11 else -1,
    }
    return fields, bytes(partition.records or b"")


def assert_read_as_they_do(frame: bytes, version: int) -> None:
    ours, our_records = parsed(frame, version)
    theirs, their_records = as_they_read(frame, version)
    fields = asdict(ours)
    del fields["records_start"], fields["records_end"]
    assert fields == theirs
    assert our_records == their_records


@pytest.mark.parametrize("version", VERSIONS)
@given(
    aborted=st.none() | st.lists(st.tuples(INT64, INT64), max_size=4),
    records=st.none() | st.binary(max_size=300),
    error_code=st.sampled_from([0, 1, 3, 6, 100]),
    high_watermark=INT64,
    last_stable_offset=INT64,
    log_start_offset=INT64,
    preferred_read_replica=INT32,
    partition=INT32,
    throttle_ms=st.integers(0, 2**31 - 1),
)
def test_every_version_is_read_as_kafka_python_reads_it(version: int, **fields: Any) -> None:
    assert_read_as_they_do(encode(version, **fields), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_found_where_they_lie_whatever_stands_before_them(version: int) -> None:
    frame = encode(version, aborted=[(7, 0), (8, 5)], records=bytes(range(256)) * 3)
    response, records = parsed(frame, version)
    assert records == bytes(range(256)) * 3
    assert response.aborted == ((7, 0), (8, 5))


@pytest.mark.parametrize("version", VERSIONS)
def test_null_records_are_no_records(version: int) -> None:
    response, records = parsed(encode(version, records=None), version)
    assert records == b""
    assert response.records_start == response.records_end


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 12])
def test_unknown_tagged_fields_are_passed_over(version: int) -> None:
    pair = (1).to_bytes(8, "big") + (2).to_bytes(8, "big")
    head, tail = encode(version, aborted=[(1, 2)], records=b"records").split(pair)
    # Two fields, of tags 100 and 300 (a varint of two bytes), of 200 bytes (another one) and of none. They stand
    # where there are no tagged fields now: after the correlation id and after the aborted transaction.
    fields = bytes([2, 100, 0xC8, 0x01]) + b"x" * 200 + bytes([0xAC, 0x02, 0])
    assert head[4] == tail[0] == 0
    tagged = head[:4] + fields + head[5:] + pair + fields + tail[1:]
    assert_read_as_they_do(tagged, version)
    assert parsed(tagged, version)[0].aborted == ((1, 2),)


def with_known_tags(version: int) -> bytes:
    """Every tagged field that kafka-python knows, in the partition and (from version 16 on) in the response."""
    partition_type = Theirs.FetchableTopicResponse.PartitionData
    partition = partition_type(
        version=version,
        partition_index=3,
        error_code=6,
        high_watermark=1_000,
        last_stable_offset=900,
        log_start_offset=7,
        diverging_epoch=partition_type.EpochEndOffset(version=version, epoch=4, end_offset=55),
        current_leader=partition_type.LeaderIdAndEpoch(version=version, leader_id=2, leader_epoch=9),
        snapshot_id=partition_type.SnapshotId(version=version, end_offset=12, epoch=3),
        aborted_transactions=[],
        preferred_read_replica=-1,
        records=b"records",
    )
    topic = Theirs.FetchableTopicResponse(version=version, topic="flights", topic_id=TOPIC_ID, partitions=[partition])
    response = Theirs(version=version, throttle_time_ms=0, error_code=0, session_id=0, responses=[topic])
    if version >= 16:
        node = Theirs.NodeEndpoint(version=version, node_id=2, host="elsewhere", port=9092, rack="near")
        response.node_endpoints = [node]
    response.with_header(correlation_id=CORRELATION_ID)
    return bytes(response.encode(header=True))


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 12])
def test_known_tagged_fields_change_nothing(version: int) -> None:
    frame = with_known_tags(version)
    assert len(frame) > len(encode(version, error_code=6, aborted=[], records=b"records"))
    assert_read_as_they_do(frame, version)
    assert parsed(frame, version)[1] == b"records"


@pytest.mark.parametrize("version", VERSIONS)
@given(name=st.text("abc._-", min_size=1, max_size=249), topic_id=st.uuids())
def test_the_topic_is_passed_over_whatever_it_is_called(version: int, name: str, topic_id: uuid.UUID) -> None:
    frame = encode(version, topic=name, topic_id=topic_id, aborted=[(1, 2)], records=b"records")
    assert_read_as_they_do(frame, version)
    assert parsed(frame, version)[1] == b"records"


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 12])
@given(
    fields=st.lists(st.tuples(st.integers(0, 2**31 - 1), st.binary(max_size=200)), min_size=1, max_size=4),
)
def test_any_unknown_tagged_fields_are_passed_over(version: int, fields: list[tuple[int, bytes]]) -> None:
    """After the correlation id, where kafka-python knows no tag: it must pass over all of them, and so must we."""
    frame = encode(version, aborted=[(1, 2)], records=b"records")
    tagged = unsigned(len(fields)) + b"".join(unsigned(tag) + unsigned(len(data)) + data for tag, data in fields)
    assert frame[4] == 0
    assert parsed(frame[:4] + tagged + frame[5:], version)[1] == b"records"


def unsigned(number: int) -> bytes:
    """An unsigned varint (KIP-482)."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_null_array_of_topics_holds_no_partition(version: int) -> None:
    frame = encode(version, topic_count=0, throttle_ms=250)
    # The count is the last thing before the tagged fields of the response.
    null = frame[:-2] + b"\0\0" if version >= 12 else frame[:-4] + b"\xff" * 4
    response, records = parsed(null, version)
    assert (response.partition, response.throttle_ms, records) == (-1, 250, b"")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_without_partitions_is_refused(version: int) -> None:
    frame = encode(version, records=b"")
    partition_count = bytes([2]) if version >= 12 else (1).to_bytes(4, "big")
    at = frame.index(partition_count + (3).to_bytes(4, "big"))
    for none in (0, 1) if version >= 12 else (0, -1):
        count = bytes([none]) if version >= 12 else none.to_bytes(4, "big", signed=True)
        with pytest.raises(ResponseError, match="asked for one partition"):
            parse_fetch_response(memoryview(frame[:at] + count + frame[at + len(count) :]), version)


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 12])
def test_every_truncation_of_tagged_fields_is_refused(version: int) -> None:
    frame = encode(version, aborted=[(1, 2)], records=b"records")
    tagged = frame[:4] + bytes([1, 100, 0xC8, 0x01]) + b"x" * 200 + frame[5:]
    for length in range(parse_fetch_response(memoryview(tagged), version).records_end):
        with pytest.raises(ResponseError):
            parse_fetch_response(memoryview(tagged[:length]), version)


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 7])
def test_an_error_of_the_whole_response_is_the_error(version: int) -> None:
    response, _ = parsed(encode(version, response_error=70, topic_count=0), version)
    assert response.error_code == 70
    assert response.partition == -1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_without_topics_holds_no_partition(version: int) -> None:
    """What a broker sends to a client that it throttles."""
    response, records = parsed(encode(version, topic_count=0, throttle_ms=250), version)
    assert (response.partition, response.throttle_ms, records) == (-1, 250, b"")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_truncation_before_the_records_end_is_refused(version: int) -> None:
    frame = encode(version, aborted=[(7, 0), (8, 5)], records=b"records")
    end = parse_fetch_response(memoryview(frame), version).records_end
    for length in range(end):
        with pytest.raises(ResponseError):
            parse_fetch_response(memoryview(frame[:length]), version)
    assert parsed(frame[:end], version)[1] == b"records"


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_hostile_bytes_are_refused_or_read_within_their_bounds(version: int, data: st.DataObject) -> None:
    frame = bytearray(encode(version, aborted=[(7, 0), (8, 5)], records=b"records" * 5))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(frame) - 1))
        frame[position] = data.draw(st.integers(0, 255) | st.sampled_from([0x7F, 0x80, 0xFF]))
    try:
        response = parse_fetch_response(memoryview(frame), version)
    except ResponseError:
        return
    assert 0 <= response.records_start <= response.records_end <= len(frame)
    assert len(response.aborted) <= len(frame) // 16


@pytest.mark.parametrize("version", VERSIONS)
@given(noise=st.binary(max_size=200))
def test_noise_is_refused_or_read_within_its_bounds(version: int, noise: bytes) -> None:
    try:
        response = parse_fetch_response(memoryview(noise), version)
    except ResponseError:
        return
    assert 0 <= response.records_start <= response.records_end <= len(noise)


def test_a_count_of_aborted_transactions_that_cannot_be_there_is_refused() -> None:
    frame = bytearray(encode(11, aborted=[(7, 0)], records=b""))
    count_at = frame.index((1).to_bytes(4, "big") + (7).to_bytes(8, "big"))
    frame[count_at : count_at + 4] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(ResponseError, match="2147483647 aborted transactions"):
        parse_fetch_response(memoryview(frame), 11)


def test_more_than_the_one_partition_that_was_asked_for_is_refused() -> None:
    frame = bytearray(encode(4))
    # correlation id, throttle time, number of topics
    frame[8:12] = (2).to_bytes(4, "big")
    with pytest.raises(ResponseError, match="2 topics"):
        parse_fetch_response(memoryview(frame), 4)
