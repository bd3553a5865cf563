"""The contract suite on a real Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract.kafka_harness import KafkaHarness

from directkafka.testing import KafkaBroker
from directkafka.testing.rehearsal_contract import RehearsalContract
from directkafka.testing.store_contract import StoreContract

pytestmark = pytest.mark.real


class TestKafkaStore(StoreContract, RehearsalContract):
    @pytest.fixture
    def harness(self, kafka_broker: KafkaBroker) -> Iterator[KafkaHarness]:
        harness = KafkaHarness(kafka_broker.bootstrap_servers)
        yield harness
        harness.close()
        assert harness.leftovers() == []
