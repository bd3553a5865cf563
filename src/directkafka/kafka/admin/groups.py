"""Offsets of consumer groups, read and set from outside.

APIs: OffsetFetch (9), and OffsetCommit (8, up to v7) without member id and with generation -1. The coordinator takes
such a commit only from somebody who is no member, and only while the group has none: otherwise it says
``UNKNOWN_MEMBER_ID`` (25). So nothing has to be asked before, and no member can join in between.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from directkafka.kafka.admin.topics import by_topic, check_answered
from directkafka.kafka.network.client import KafkaClient, raise_for
from directkafka.kafka.protocol.error_codes import ErrorCode, broker_error
from directkafka.offsets import TopicPartition


def commit_offsets(client: KafkaClient, node_id: int, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets to a group without being a member of it.

    Args:
        client: the connections to use.
        node_id: the group's coordinator.
        group: the group's name.
        offsets: the next offset to read, by partition.

    Raises:
        BrokerResponseError: the group has members, this user has no READ right on it or on a topic, or there is no
            such partition; partitions of other topics may be committed.
    """
    response = client.call(
        "OffsetCommit",
        node_id,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=by_topic(
            offsets,
            "partitions",
            lambda partition: dict(
                partition_index=partition.partition, committed_offset=offsets[partition], committed_metadata=""
            ),
        ),
    )
    answered = []
    for topic in response.topics:
        for partition in topic.partitions:
            subject = f"group {group}, topic {topic.name}"
            if partition.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                remedy = (
                    "The group has members, which commit for themselves: stop them first, or choose another group. One "
                    "that has just died counts until its session.timeout.ms is over."
                )
                raise broker_error("OffsetCommit", partition.error_code, subject, remedy=remedy)
            raise_for("OffsetCommit", partition.error_code, subject, client.options)
            answered.append(TopicPartition(topic.name, partition.partition_index))
    check_answered("OffsetCommit", offsets, answered)


def committed_offsets(
    client: KafkaClient,
    node_id: int,
    group: str,
    partitions: Collection[TopicPartition] | None,
    *,
    require_stable: bool,
) -> dict[TopicPartition, int | None]:
    """The offsets that a group has committed, None where it has none.

    Args:
        client: the connections to use.
        node_id: the group's coordinator.
        group: the group's name.
        partitions: which; None for all of which it has an offset.
        require_stable: whether offsets of open transactions are waited for (KIP-447).

    Raises:
        BrokerResponseError: this user may not read the group, for example.
    """
    wanted = (
        None if partitions is None else by_topic(partitions, "partition_indexes", lambda partition: partition.partition)
    )
    response = client.call("OffsetFetch", node_id, group_id=group, topics=wanted, require_stable=require_stable)
    raise_for("OffsetFetch", response.error_code, f"group {group}", client.options)
    offsets: dict[TopicPartition, int | None] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            raise_for("OffsetFetch", partition.error_code, f"group {group}, topic {topic.name}", client.options)
            offset = partition.committed_offset
            offsets[TopicPartition(topic.name, partition.partition_index)] = offset if offset >= 0 else None
    return offsets
