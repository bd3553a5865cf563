"""Deleted topics as brokers tell of them, with a client that answers from a script."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from directkafka.errors import BrokerResponseError, BrokerUnreachableError
from directkafka.kafka.admin.topics import deleted_topics

GONE, KEPT = str(uuid.uuid4()), str(uuid.uuid4())
AWAY = BrokerUnreachableError(addresses=("two:9092",), timeout_ms=1, cause="refused")
TOO_OLD = BrokerResponseError(api="Metadata", code=35, name="UNSUPPORTED_VERSION", retriable=False, subject="")


class Client:
    """Brokers 1, 2...: what each says of the ids, or its failure."""

    def __init__(self, *brokers: dict[str, int] | Exception) -> None:
        self.brokers = brokers

    def call(self, _: str, node_id: int | None = None, **__: Any) -> Any:
        if node_id is None:
            return SimpleNamespace(brokers=[SimpleNamespace(node_id=index + 1) for index in range(len(self.brokers))])
        answer = self.brokers[node_id - 1]
        if isinstance(answer, Exception):
            raise answer
        topics = [SimpleNamespace(topic_id=uuid.UUID(topic_id), error_code=code) for topic_id, code in answer.items()]
        return SimpleNamespace(topics=topics)


@pytest.mark.parametrize(
    ("brokers", "deleted"),
    [
        pytest.param([{GONE: 100, KEPT: 0}] * 2, {GONE}, id="all agree"),
        pytest.param([{GONE: 100, KEPT: 100}, {GONE: 100, KEPT: 0}], {GONE}, id="one has just started"),
        pytest.param([{GONE: 100, KEPT: 0}, {GONE: 100, KEPT: 100}], {GONE}, id="the other one has just started"),
        pytest.param([{GONE: 100, KEPT: 29}], {GONE}, id="one may not be seen"),
        pytest.param([{GONE: 100, KEPT: 0}, AWAY], set(), id="a broker is away"),
        pytest.param([], set(), id="there is no broker"),
        pytest.param([AWAY, AWAY], set(), id="no broker answers"),
        pytest.param([TOO_OLD], set(), id="a broker that is too old to say"),
    ],
)
def test_a_topic_is_deleted_when_no_broker_knows_its_id(
    brokers: list[dict[str, int] | Exception], deleted: set[str]
) -> None:
    client: Any = Client(*brokers)
    assert deleted_topics(client, [GONE, KEPT]) == deleted
