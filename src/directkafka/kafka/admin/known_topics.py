"""Topics that were just created: a broker with old metadata may not know them yet, so it is asked again.

Java's producer waits for a new topic as long as for any metadata (``max.block.ms``). KAFKA-7703 describes the old
metadata.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import tenacity

from directkafka.kafka.admin.admin_client import AdminClient
from directkafka.kafka.admin.topics import Leader, TopicDescription
from directkafka.kafka.protocol.error_codes import ErrorCode, broker_error
from directkafka.offsets import TopicPartition

#: A topic that stays unknown for this many seconds does not exist.
_KNOWN_S_MAX: Final = 3.0
#: Seconds between two requests.
_LOOK_S: Final = 0.2


def known_topics(admin: AdminClient, names: Collection[str]) -> dict[str, TopicDescription]:
    """Describe topics. While one is missing, ask again for up to three seconds; leave out those that stay missing.

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
        BrokerResponseError: the topic is unknown, or has no such partition (retriable); or the user may not describe
            the topic.
    """
    described = known_topics(admin, [partition.topic]).get(partition.topic)
    leader = None if described is None else described.leaders.get(partition.partition)
    if leader is None:
        raise broker_error("Metadata", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(partition))
    return leader
