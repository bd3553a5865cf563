"""What is learned of brokers, of those that answer and that may be looked at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from directkafka.errors import BrokerUnreachableError
from directkafka.kafka.admin.configs import look_at_brokers, topic_settings
from directkafka.options.client import ClientOptions

CLUSTER_AUTHORIZATION_FAILED = 31
DEAD = BrokerUnreachableError(addresses=("two:1",), timeout_ms=1, cause="refused")


class Client:
    """Two brokers, of which some are dead, and settings that may be seen or not."""

    def __init__(self, *dead: int, refusal: int = 0) -> None:
        self.options = ClientOptions(bootstrap_servers=("one:1",))
        self._dead = dead
        self._refusal = refusal
        self.asked: list[tuple[str, int | None]] = []

    def call(self, api: str, node_id: int | None = None, **values: Any) -> Any:
        self.asked.append((api, node_id))
        if api == "Metadata":
            brokers = [SimpleNamespace(node_id=number, host=host, port=1) for number, host in ((2, "two"), (1, "one"))]
            return SimpleNamespace(brokers=brokers)
        if node_id in self._dead:
            raise DEAD
        if api == "ApiVersions":
            return SimpleNamespace(error_code=0, api_keys=[SimpleNamespace(api_key=24, min_version=0, max_version=5)])
        (resource,) = values["resources"]
        names = [*resource["configuration_keys"], "other"]
        configs = [SimpleNamespace(name=name, value=None if name == "unset" else "3") for name in names]
        return SimpleNamespace(results=[SimpleNamespace(error_code=self._refusal, configs=configs)])


def look(client: Any, *settings: str) -> Any:
    return look_at_brokers(client, settings)


def test_every_broker_is_asked_by_itself() -> None:
    brokers = look(Client(), "replicas", "unset")
    assert [(broker.node_id, broker.address) for broker in brokers] == [(1, "one:1"), (2, "two:1")]
    assert all(broker.versions == {24: (0, 5)} and broker.settings == {"replicas": "3"} for broker in brokers)


def test_a_broker_that_has_just_died_is_left_out_unless_all_have() -> None:
    assert [broker.node_id for broker in look(Client(2))] == [1]
    with pytest.raises(BrokerUnreachableError):
        look(Client(1, 2))


def test_settings_that_may_not_be_seen_are_none_and_no_error() -> None:
    client: Any = Client(refusal=CLUSTER_AUTHORIZATION_FAILED)
    assert all(broker.settings == {} for broker in look(client, "replicas"))
    assert topic_settings(client, "flights", ["max.message.bytes"]) == {}
    assert client.asked[-1] == ("DescribeConfigs", None)
