"""Abilities and settings of brokers: versions of requests, and single settings.

API keys: ApiVersions 18 (v0 to v2), DescribeConfigs 32, Metadata 3. Settings of a broker may be seen with the right
(ACL) DESCRIBE_CONFIGS on the cluster, those of a topic with that on the topic; without it an answer has no settings,
which is no error here: what is asked for is only to be told.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from directkafka.errors import BrokerUnreachableError
from directkafka.kafka.network.auth_errors import address_text
from directkafka.kafka.network.client import KafkaClient, raise_for
from directkafka.kafka.protocol.error_codes import ErrorCode, error_name

log = logging.getLogger(__name__)

_TOPIC: Final = 2
_BROKER: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker that is up.

    Attributes:
        node_id: its number.
        address: ``host:port``.
        versions: lowest and highest version that it speaks, by API key.
        settings: values by name, of those that were asked for; without those that may not be seen or that it lacks.
    """

    node_id: int
    address: str
    versions: Mapping[int, tuple[int, int]]
    settings: Mapping[str, str]


def look_at_brokers(client: KafkaClient, settings: Collection[str] = ()) -> tuple[Broker, ...]:
    """The cluster's brokers, as far as they answer: one that has just died is left out.

    Args:
        client: the connections to use; stays open.
        settings: names of broker settings to ask for.

    Raises:
        BrokerUnreachableError: none answers.
        BrokerAccessError: TLS or the login failed.
        BrokerResponseError: a broker does not say what it speaks.
    """
    known = client.call("Metadata", topics=[], allow_auto_topic_creation=False).brokers
    brokers, silence = [], None
    for broker in sorted(known, key=lambda broker: int(broker.node_id)):
        try:
            brokers.append(_look(client, broker.node_id, address_text(broker.host, broker.port), settings))
        except BrokerUnreachableError as error:
            silence = error
            log.info("broker %s is not asked what it speaks: %s", broker.node_id, error)
    if not brokers and silence is not None:
        raise silence
    return tuple(brokers)


def topic_settings(client: KafkaClient, topic: str, names: Collection[str]) -> dict[str, str]:
    """Settings of a topic by name; empty where they may not be seen.

    Raises:
        BrokerUnreachableError: no broker answers.
    """
    return _settings(client, None, _TOPIC, topic, names)


def _look(client: KafkaClient, node_id: int, address: str, settings: Collection[str]) -> Broker:
    answer = client.call("ApiVersions", node_id)
    raise_for("ApiVersions", answer.error_code, f"broker {node_id}", client.options)
    return Broker(
        node_id=node_id,
        address=address,
        versions={api_key.api_key: (api_key.min_version, api_key.max_version) for api_key in answer.api_keys},
        settings=_settings(client, node_id, _BROKER, str(node_id), settings) if settings else {},
    )


def _settings(
    client: KafkaClient, node_id: int | None, kind: int, name: str, wanted: Collection[str]
) -> dict[str, str]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": sorted(wanted)}
    (result,) = client.call("DescribeConfigs", node_id, resources=[resource]).results
    if result.error_code != ErrorCode.NONE:
        log.debug("settings of %s may not be seen: %s", name, error_name(result.error_code))
        return {}
    return {
        config.name: str(config.value)
        for config in result.configs
        if config.name in wanted and config.value is not None
    }
