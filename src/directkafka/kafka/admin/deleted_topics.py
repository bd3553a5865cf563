"""Deleted topics: told from those that are only not to be seen for a moment.

API: Metadata by topic id (3, v12; KIP-516). A topic that is missing among all topics may have been left out of the
answer because this user has lost the right to see it, or because the broker has just started. Asked for its id, a
broker says which: ``UNKNOWN_TOPIC_ID`` (100) where no topic has it, ``TOPIC_AUTHORIZATION_FAILED`` (29) where it may
not be seen. Every broker that answers is asked, so that one with old metadata does not decide. An id is never used
again.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection

from directkafka.errors import BrokerResponseError, BrokerUnreachableError
from directkafka.kafka.network.client import KafkaClient
from directkafka.kafka.protocol.api_versions import TOPIC_ID_ONLY_VERSION
from directkafka.kafka.protocol.error_codes import ErrorCode

__all__ = ["deleted_topics"]

log = logging.getLogger(__name__)


def deleted_topics(client: KafkaClient, topic_ids: Collection[str]) -> frozenset[str]:
    """Those of the topic ids that no broker knows any more.

    Args:
        client: the connections to use.
        topic_ids: UUIDs as text.

    Returns:
        None of them where no broker can say (older than 2.8, or none answers).
    """
    deleted = frozenset(topic_ids)
    answers = 0
    try:
        brokers = client.call("Metadata", topics=[], allow_auto_topic_creation=False).brokers
        for broker in brokers:
            try:
                deleted &= _unknown_to(client, int(broker.node_id), topic_ids)
                answers += 1
            except BrokerUnreachableError as error:
                log.info("broker %s is not asked for deleted topics: %s", broker.node_id, error)
    except (BrokerUnreachableError, BrokerResponseError) as error:
        log.info("whether topics are deleted cannot be said: %s", error)
        return frozenset()
    return deleted if answers else frozenset()


def _unknown_to(client: KafkaClient, node_id: int, topic_ids: Collection[str]) -> frozenset[str]:
    response = client.call(
        "Metadata",
        node_id,
        version_min=TOPIC_ID_ONLY_VERSION,
        topics=[{"topic_id": uuid.UUID(one), "name": None} for one in sorted(topic_ids)],
        allow_auto_topic_creation=False,
    )
    return frozenset(str(one.topic_id) for one in response.topics if one.error_code == ErrorCode.UNKNOWN_TOPIC_ID)
