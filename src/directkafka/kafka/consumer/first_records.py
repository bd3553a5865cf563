"""The first records that a reader would get from partitions: their timestamps and headers, asked for many at once.

API: Fetch (1), one small request for each leader. The header of a record batch usually says the timestamp of its first
record (``DefaultRecordBatch.java``). A batch is decoded only if the reader is in its middle, if it was compacted, or if
its transaction may be aborted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from directkafka.kafka.admin.admin_client import AdminClient
from directkafka.kafka.admin.topics import TopicDescription, by_leader, by_topic, leader_of
from directkafka.kafka.network.client import KafkaClient, raise_for
from directkafka.kafka.protocol.api_versions import FetchVersion
from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.options.client import ClientOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from directkafka.kafka.records.decoder import RecordDecoder

#: Holds one batch of a producer with the usual ``batch.size``.
_PARTITION_MAX_BYTES: Final = 32 * 1024

#: How often a leader may answer with nothing where there must be something: it throttles this user, its high watermark
#: lags, or the records are in remote storage.
_EMPTY_ANSWERS_MAX: Final = 3

_NO_TOPIC_ID: Final = "00000000-0000-0000-0000-000000000000"

#: Bits of a batch's attributes.
_HAS_LOG_APPEND_TIME: Final = 1 << 3
_IS_TRANSACTIONAL: Final = 1 << 4
_IS_CONTROL: Final = 1 << 5
_HAS_DELETE_HORIZON: Final = 1 << 6

_MAGIC: Final = 2
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
#: Size of the fields baseOffset and batchLength, which batchLength does not count.
_LOG_OVERHEAD: Final = 12


class _Header(NamedTuple):
    """A batch header, field by field (KIP-98); timestamps in milliseconds since 1970."""

    base_offset: int
    batch_length: int
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
class FetchedPartition:
    """What a leader has sent of one partition.

    Attributes:
        records: bytes of record batches; the last one may be cut off.
        aborted_transactions: ``(producer id, first offset)`` of those in ``records``; empty where the reader sees
            uncommitted records too.
    """

    records: bytes = b""
    aborted_transactions: Sequence[tuple[int, int]] = ()


def first_timestamps(
    client: KafkaClient,
    admin: AdminClient,
    ranges: Iterable[OffsetRange],
    topics: Mapping[str, TopicDescription] | None = None,
) -> dict[TopicPartition, int | None]:
    """The timestamp of the first record of each range, in milliseconds since 1970.

    Args:
        client: the connections to use; its isolation level says which records are seen.
        admin: finds the leaders, and asks again where one has moved.
        ranges: one of each partition at most.
        topics: a fresh description of the partitions' topics.

    Returns:
        None where no record of a range is seen: it is empty, or holds aborted transactions and markers alone. A
        partition whose leader sends nothing of a range is left out.

    Raises:
        BrokerUnreachableError, BrokerResponseError: after the retries of ``admin``.
        MalformedBatchError: bytes that are not records.
    """
    by_partition = {offset_range.topic_partition: offset_range for offset_range in ranges}
    asked = {partition: offset_range for partition, offset_range in by_partition.items() if offset_range.count()}
    timestamps = admin.of_leaders(lambda described: _fetch_from_leaders(client, asked, described), asked, topics)
    return {partition: None for partition in by_partition if partition not in asked} | timestamps


def first_headers(
    client: KafkaClient,
    admin: AdminClient,
    ranges: Iterable[OffsetRange],
    topics: Mapping[str, TopicDescription] | None = None,
) -> list[list[tuple[str, bytes | None]]]:
    """The headers of the first records of each range, as far as one small answer of each leader has them.

    Args:
        client, admin, topics: as for :func:`first_timestamps`.
        ranges: one of each partition at most.

    Returns:
        One list for each record that has headers. What is not in the answers is left out.

    Raises:
        BrokerUnreachableError, BrokerResponseError, MalformedBatchError: as :func:`first_timestamps`.
    """
    asked = {each.topic_partition: each for each in ranges if each.count()}

    def fetch(described: Mapping[str, TopicDescription]) -> dict[TopicPartition, FetchedPartition]:
        fetched_partitions: dict[TopicPartition, FetchedPartition] = {}
        for node_id, partitions in by_leader(asked, described).items():
            fetched_partitions |= _fetch(
                client, node_id, {partition: asked[partition] for partition in partitions}, described
            )
        return fetched_partitions

    headers: list[list[tuple[str, bytes | None]]] = []
    for partition, fetched in admin.of_leaders(fetch, asked, topics).items():
        decoder = _decoder(asked[partition], client.options, include_headers=True)
        for batch in _decode(decoder, fetched):
            with_headers = (cell for cell in batch.column("headers").to_pylist() if cell)
            headers += [[(header["key"], header["value"]) for header in cell] for cell in with_headers]
    return headers


def _fetch_from_leaders(
    client: KafkaClient, ranges: Mapping[TopicPartition, OffsetRange], topics: Mapping[str, TopicDescription]
) -> dict[TopicPartition, int | None]:
    timestamps: dict[TopicPartition, int | None] = {}
    unresolved: list[OffsetRange] = []
    for node_id, partitions in by_leader(ranges, topics).items():
        fetched = _fetch(client, node_id, {partition: ranges[partition] for partition in partitions}, topics)
        for partition in partitions:
            timestamp_ms, rest = timestamp_in_response(
                ranges[partition], fetched.get(partition, FetchedPartition()), client.options
            )
            if timestamp_ms is None and rest.count():
                unresolved.append(rest)
            else:
                timestamps[partition] = timestamp_ms
    for rest in unresolved:
        timestamps |= _fetch_single_partition(client, rest, topics)
    return timestamps


def _fetch_single_partition(
    client: KafkaClient, offset_range: OffsetRange, topics: Mapping[str, TopicDescription]
) -> dict[TopicPartition, int | None]:
    """Fetch one partition alone, of which a leader sends at least one whole batch (KIP-74); nothing if it does not."""
    partition = offset_range.topic_partition
    node_id, rest, empty_answers = leader_of(partition, topics), offset_range, 0
    while rest.count() and empty_answers < _EMPTY_ANSWERS_MAX:
        fetched = _fetch(client, node_id, {partition: rest}, topics, max_wait_ms=client.options.fetch_max_wait_ms).get(
            partition, FetchedPartition()
        )
        position = rest.from_offset
        timestamp_ms, rest = timestamp_in_response(rest, fetched, client.options)
        if timestamp_ms is not None:
            return {partition: timestamp_ms}
        empty_answers += rest.from_offset == position
    return {} if rest.count() else {partition: None}


def _fetch(
    client: KafkaClient,
    node_id: int,
    ranges: Mapping[TopicPartition, OffsetRange],
    topics: Mapping[str, TopicDescription],
    *,
    max_wait_ms: int = 0,
) -> dict[TopicPartition, FetchedPartition]:
    """What a leader sends of partitions. Of some it may send nothing: its answer is full, or it throttles this user."""
    options = client.options
    names = {topics[partition.topic].topic_id: partition.topic for partition in ranges}

    def item(partition: TopicPartition) -> dict[str, int]:
        return {
            "partition": partition.partition,
            "fetch_offset": ranges[partition].from_offset,
            "partition_max_bytes": _PARTITION_MAX_BYTES,
        }

    asked = by_topic(ranges, "partitions", item, name="topic")
    response = client.call(
        "Fetch",
        node_id,
        # By name, where a topic has no id.
        version_max=FetchVersion.TOPIC_ID - 1 if "" in names else None,
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=options.fetch_max_bytes,
        isolation_level=int(options.isolation_level == "read_committed"),
        topics=[{**topic, "topic_id": topics[topic["topic"]].topic_id or _NO_TOPIC_ID} for topic in asked],
        forgotten_topics_data=[],
        rack_id="",
    )
    raise_for("Fetch", response.error_code or 0, f"broker {node_id}", options)
    fetched_partitions: dict[TopicPartition, FetchedPartition] = {}
    for topic in response.responses:
        for answer in topic.partitions:
            partition = TopicPartition(topic.topic or names.get(str(topic.topic_id), ""), answer.partition_index)
            raise_for("Fetch", answer.error_code, str(partition), options)
            aborted = [
                (transaction.producer_id, transaction.first_offset) for transaction in answer.aborted_transactions or ()
            ]
            fetched_partitions[partition] = FetchedPartition(
                records=bytes(answer.records or b""), aborted_transactions=aborted
            )
    return fetched_partitions


def timestamp_in_response(
    offset_range: OffsetRange, fetched: FetchedPartition, options: ClientOptions
) -> tuple[int | None, OffsetRange]:
    """The timestamp of the first record in a response, or None; and the range from there on."""
    rest = offset_range
    for header in _headers(fetched.records):
        if header.next_offset <= rest.from_offset:
            continue
        if header.base_offset >= rest.until_offset:
            return None, _from(rest, rest.until_offset)
        if header.attributes & _IS_CONTROL or header.record_count == 0:
            rest = _from(rest, header.next_offset)
            continue
        if (timestamp_ms := _timestamp_in_header(header, rest.from_offset, fetched.aborted_transactions)) is not None:
            return timestamp_ms, rest
        return _decoded(rest, fetched, options)
    return None, rest


def _from(offset_range: OffsetRange, offset: int) -> OffsetRange:
    return replace(offset_range, from_offset=min(offset, offset_range.until_offset))


def _headers(records: bytes) -> Iterator[_Header]:
    at = 0
    while at + _HEADER.size <= len(records):
        header = _Header._make(_HEADER.unpack_from(records, at))
        if header.magic != _MAGIC or header.batch_length < _HEADER.size - _LOG_OVERHEAD:
            return
        yield header
        at += _LOG_OVERHEAD + header.batch_length


def _timestamp_in_header(header: _Header, position: int, aborted: Sequence[tuple[int, int]]) -> int | None:
    """The timestamp of the first record from a position on; None if the batch has to be decoded for it."""
    if header.attributes & _IS_TRANSACTIONAL and any(header.producer_id == producer_id for producer_id, _ in aborted):
        return None
    if header.attributes & _HAS_LOG_APPEND_TIME:
        return header.max_timestamp_ms
    # Compaction takes records out of a batch, and leaves its base timestamp.
    is_compacted = header.record_count <= header.last_offset_delta or header.attributes & _HAS_DELETE_HORIZON
    return None if is_compacted or position > header.base_offset else header.base_timestamp_ms


def _decoded(
    offset_range: OffsetRange, fetched: FetchedPartition, options: ClientOptions
) -> tuple[int | None, OffsetRange]:
    decoder = _decoder(offset_range, options, include_headers=False)
    for batch in _decode(decoder, fetched):
        return batch.column("timestamp")[0].value // 1000, offset_range
    return None, _from(offset_range, decoder.position)


def _decoder(offset_range: OffsetRange, options: ClientOptions, *, include_headers: bool) -> RecordDecoder:
    # Not above: it is rarely needed, and numba is slow to import.
    from directkafka.kafka.records.decoder import RecordDecoder

    return RecordDecoder(
        offset_range.topic,
        offset_range.partition,
        offset_range.from_offset,
        offset_range.until_offset,
        include_headers=include_headers,
        read_committed=options.isolation_level == "read_committed",
        check_crcs=options.check_crcs,
        decompressed_bytes_max=options.max_decompressed_batch_bytes,
    )


def _decode(decoder: RecordDecoder, fetched: FetchedPartition) -> Iterator[pa.RecordBatch]:
    from directkafka.kafka.records.record_batch import index_batches, readonly_bytes

    index = index_batches(readonly_bytes(fetched.records))
    return decoder.decode(memoryview(fetched.records), index, fetched.aborted_transactions)
