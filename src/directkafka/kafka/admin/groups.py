"""Offsets that a program sets for a consumer group from outside.

API: OffsetCommit (8, up to v7) without member id and with generation -1, which the coordinator takes only from somebody
who is no member, and only while the group has none: otherwise ``UNKNOWN_MEMBER_ID`` (25). So nothing has to be asked
before, and no member can join in between.
"""

from __future__ import annotations

from collections.abc import Mapping

from directkafka.errors import BrokerResponseError
from directkafka.kafka.admin.topics import by_topic, check_answered
from directkafka.kafka.network.client import KafkaClient, raise_for
from directkafka.kafka.protocol.error_codes import ErrorCode, error_name
from directkafka.offsets import TopicPartition

__all__ = ["commit_offsets"]


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
            lambda one: dict(partition_index=one.partition, committed_offset=offsets[one], committed_metadata=""),
        ),
    )
    answered = []
    for topic in response.topics:
        for one in topic.partitions:
            subject = f"group {group}, topic {topic.name}"
            if one.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                raise BrokerResponseError(
                    api="OffsetCommit",
                    code=one.error_code,
                    name=error_name(one.error_code),
                    retriable=False,
                    subject=subject,
                    remedy="The group has members, which commit for themselves: stop them first, or choose another "
                    "group. One that has just died counts until its session.timeout.ms is over.",
                )
            raise_for("OffsetCommit", one.error_code, subject, client.options)
            answered.append(TopicPartition(topic.name, one.partition_index))
    check_answered("OffsetCommit", offsets, answered)
