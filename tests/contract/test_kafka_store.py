"""The contract suite on a real Kafka, as far as it is about appended rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract.kafka_harness import KafkaHarness

from directkafka.testing import KafkaBroker
from directkafka.testing.store_contract import StoreContract

pytestmark = pytest.mark.real


class TestKafkaStore(StoreContract):
    @pytest.fixture
    def harness(self, kafka_broker: KafkaBroker) -> Iterator[KafkaHarness]:
        harness = KafkaHarness(kafka_broker.bootstrap_servers)
        yield harness
        harness.close()
        assert harness.leftovers() == []

    test_ignore_keeps_the_row_that_was_there = None  # type: ignore[assignment]
    test_merge_adds_up_by_key = None  # type: ignore[assignment]
    test_a_recount_sees_what_a_reader_sees = None  # type: ignore[assignment]
