"""Topics that somebody has made: a broker with old metadata does not know a new one yet, and is asked again.

Java's clients wait for it as long as for any metadata (``max.block.ms``; KAFKA-7703 tells of the old metadata).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import tenacity

from directkafka.kafka.admin.admin_client import AdminClient
from directkafka.kafka.admin.topics import Leader, TopicDescription
from directkafka.kafka.protocol.error_codes import ErrorCode, broker_error
from directkafka.offsets import TopicPartition

#: A topic that no broker knows for so many seconds is not there.
_KNOWN_S_MAX: Final = 3.0
_LOOK_S: Final = 0.2


def known_topics(admin: AdminClient, names: Collection[str]) -> dict[str, TopicDescription]:
    """Describe topics, and ask again for three seconds while one is missing; those that still are, are left out.

    Raises:
        BrokerResponseError: a topic this user may not describe, for example.
    """

    def lacks_one(described: dict[str, TopicDescription]) -> bool:
        return len(described) < len(set(names))

    asking = tenacity.Retrying(
        retry=tenacity.retry_if_result(lacks_one),
        stop=tenacity.stop_after_delay(_KNOWN_S_MAX),
        wait=tenacity.wait_fixed(_LOOK_S),
        retry_error_callback=lambda state: state.outcome and state.outcome.result(),
    )
    described: dict[str, TopicDescription] = asking(admin.topics, names)
    return described


def leader_of(admin: AdminClient, partition: TopicPartition) -> Leader:
    """Who leads a partition of a topic that must be there.

    Raises:
        BrokerResponseError: no broker knows the topic; retriable.
    """
    described = known_topics(admin, [partition.topic]).get(partition.topic)
    leader = None if described is None else described.leaders.get(partition.partition)
    if leader is None:
        raise broker_error("Metadata", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(partition))
    return leader
