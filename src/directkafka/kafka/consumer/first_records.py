"""The timestamps of the first records that a reader would get from partitions, asked for many of them at once.

API: Fetch (1), one request for each leader, which takes little of each partition. The header of a record batch usually
says the timestamp of its first record (``DefaultRecordBatch.java``); a batch is decoded only where it does not: the
reader is in its middle, records were compacted away, or its transaction may be aborted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from directkafka.kafka.admin.admin_client import AdminClient
from directkafka.kafka.admin.topics import TopicDescription, by_leader, by_topic, check_answered, leader_of
from directkafka.kafka.network.client import KafkaClient, raise_for
from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.options.client import ClientOptions

#: So much of each partition holds the first batch of a producer with the usual ``batch.size``.
_PARTITION_BYTES: Final = 32 * 1024

_NO_TOPIC_ID: Final = "00000000-0000-0000-0000-000000000000"

#: Bits of a batch's attributes.
_HAS_LOG_APPEND_TIME: Final = 1 << 3
_IS_TRANSACTIONAL: Final = 1 << 4
_IS_CONTROL: Final = 1 << 5
_HAS_DELETE_HORIZON: Final = 1 << 6

_MAGIC: Final = 2
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
#: Of the fields "base offset" and "length of what follows".
_LENGTH_AT_BYTES: Final = 12


class _Header(NamedTuple):
    """A batch header, field by field (KIP-98); timestamps in milliseconds since 1970."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What a leader has sent of one partition.

    Attributes:
        records: bytes of record batches; the last one may be cut off.
        aborted: ``(producer id, first offset)`` of transactions in them that are aborted; empty where the reader sees
            uncommitted records too.
    """

    records: bytes
    aborted: Sequence[tuple[int, int]]


def first_timestamps(
    client: KafkaClient,
    admin: AdminClient,
    ranges: Iterable[OffsetRange],
    topics: Mapping[str, TopicDescription] | None = None,
) -> dict[TopicPartition, int | None]:
    """The timestamp of the first record of each range, in milliseconds since 1970.

    Args:
        client: the connections to use; its isolation level says which records are seen.
        admin: asks again where a leader has moved.
        ranges: one of each partition at most.
        topics: a fresh description of the partitions' topics.

    Returns:
        None where a range has no record (any more): it is empty, or has markers of transactions alone.

    Raises:
        BrokerUnreachableError, BrokerResponseError: after the retries of ``admin``.
        MalformedBatchError: bytes that are not records.
    """
    unread = {offset_range.topic_partition: offset_range for offset_range in ranges}
    asked = {partition: offset_range for partition, offset_range in unread.items() if offset_range.count()}
    found = admin.of_leaders(lambda described: _ask_leaders(client, asked, described), asked, topics)
    return {partition: found.get(partition) for partition in unread}


def _ask_leaders(
    client: KafkaClient, unread: Mapping[TopicPartition, OffsetRange], topics: Mapping[str, TopicDescription]
) -> dict[TopicPartition, int | None]:
    found: dict[TopicPartition, int | None] = {}
    left: list[OffsetRange] = []
    for node_id, partitions in by_leader(unread, topics).items():
        asked = {partition: unread[partition] for partition in partitions}
        for partition, fetched in _fetch(client, node_id, asked, topics, bytes_max=_PARTITION_BYTES).items():
            found[partition], next_offset = first_timestamp(asked[partition], fetched, client.options)
            if found[partition] is None and next_offset < asked[partition].until_offset:
                left.append(replace(asked[partition], from_offset=next_offset))
    return found | {rest.topic_partition: _asked_alone(client, rest, topics) for rest in left}


def _asked_alone(client: KafkaClient, unread: OffsetRange, topics: Mapping[str, TopicDescription]) -> int | None:
    """Ask on for one partition: a broker sends at least one whole batch of it, however large that is (KIP-74)."""
    partition, bytes_max = unread.topic_partition, client.options.max_partition_fetch_bytes
    node_id = leader_of(partition, topics)
    while unread.from_offset < unread.until_offset:
        fetched = _fetch(client, node_id, {partition: unread}, topics, bytes_max=bytes_max)[partition]
        timestamp_ms, next_offset = first_timestamp(unread, fetched, client.options)
        if timestamp_ms is not None or next_offset == unread.from_offset:
            return timestamp_ms
        unread = replace(unread, from_offset=next_offset)
    return None


def _fetch(
    client: KafkaClient,
    node_id: int,
    unread: Mapping[TopicPartition, OffsetRange],
    topics: Mapping[str, TopicDescription],
    *,
    bytes_max: int,
) -> dict[TopicPartition, Fetched]:
    options = client.options
    names = {topic.topic_id: name for name, topic in topics.items() if topic.topic_id}

    def item(partition: TopicPartition) -> dict[str, int]:
        return {
            "partition": partition.partition,
            "fetch_offset": unread[partition].from_offset,
            "partition_max_bytes": bytes_max,
        }

    asked = by_topic(unread, "partitions", item, name="topic")
    response = client.call(
        "Fetch",
        node_id,
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=options.fetch_max_bytes,
        isolation_level=int(options.isolation_level == "read_committed"),
        topics=[{**topic, "topic_id": topics[topic["topic"]].topic_id or _NO_TOPIC_ID} for topic in asked],
        forgotten_topics_data=[],
        rack_id="",
    )
    raise_for("Fetch", response.error_code or 0, f"broker {node_id}", options)
    found: dict[TopicPartition, Fetched] = {}
    for topic in response.responses:
        name = topic.topic or names.get(str(topic.topic_id), str(topic.topic_id))
        for partition in topic.partitions:
            place = TopicPartition(name, partition.partition_index)
            raise_for("Fetch", partition.error_code, str(place), options)
            transactions = partition.aborted_transactions or ()
            aborted = [(transaction.producer_id, transaction.first_offset) for transaction in transactions]
            found[place] = Fetched(records=bytes(partition.records or b""), aborted=aborted)
    check_answered("Fetch", unread, found)
    return found


def first_timestamp(unread: OffsetRange, fetched: Fetched, options: ClientOptions) -> tuple[int | None, int]:
    """The timestamp of a range's first record by what was fetched; if that has none, the next offset to ask for."""
    position = unread.from_offset
    for header in _headers(fetched.records):
        if header.base_offset >= unread.until_offset:
            return None, unread.until_offset
        if header.next_offset <= position:
            continue
        if header.attributes & _IS_CONTROL or header.record_count == 0:
            position = header.next_offset
            continue
        if (timestamp_ms := _timestamp_of_first(header, position, fetched.aborted)) is not None:
            return timestamp_ms, position
        return _decoded(replace(unread, from_offset=position), fetched, options)
    # A leader whose answer is full sends nothing of the partitions that are left.
    return None, position


def _headers(records: bytes) -> Iterator[_Header]:
    at = 0
    while at + _HEADER.size <= len(records):
        header = _Header._make(_HEADER.unpack_from(records, at))
        if header.magic != _MAGIC:
            return
        yield header
        at += _LENGTH_AT_BYTES + header.length


def _timestamp_of_first(header: _Header, position: int, aborted: Sequence[tuple[int, int]]) -> int | None:
    """The timestamp of the first record from a position on, None if the batch has to be decoded for it."""
    if header.attributes & _IS_TRANSACTIONAL and any(header.producer_id == producer_id for producer_id, _ in aborted):
        return None
    if header.attributes & _HAS_LOG_APPEND_TIME or header.base_timestamp_ms == header.max_timestamp_ms:
        return header.max_timestamp_ms
    # Compaction takes records out of a batch, and leaves its base timestamp.
    is_whole = header.record_count == header.last_offset_delta + 1 and not header.attributes & _HAS_DELETE_HORIZON
    return header.base_timestamp_ms if is_whole and position <= header.base_offset else None


def _decoded(unread: OffsetRange, fetched: Fetched, options: ClientOptions) -> tuple[int | None, int]:
    # Not above: most answers need no kernels, and numba is slow to import.
    from directkafka.kafka.records.decoder import RecordDecoder
    from directkafka.kafka.records.record_batch import index_batches, readonly_bytes

    decoder = RecordDecoder(
        unread.topic,
        unread.partition,
        unread.from_offset,
        unread.until_offset,
        include_headers=False,
        read_committed=options.isolation_level == "read_committed",
        check_crcs=options.check_crcs,
        decompressed_bytes_max=options.max_decompressed_batch_bytes,
    )
    index = index_batches(readonly_bytes(fetched.records))
    for batch in decoder.decode(memoryview(fetched.records), index, fetched.aborted):
        return batch.column("timestamp")[0].value // 1000, decoder.position
    return None, decoder.position
