"""What a Kafka sink refuses before it asks anybody."""

from __future__ import annotations

import pyarrow as pa
import pytest

from directkafka.errors import OptionError
from directkafka.sinks.kafka import KafkaSink

SCHEMA = pa.schema([("value", pa.binary())])
NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize("topic", ["directkafka.ledger.flights", "directkafka.ledger.another"])
def test_a_pipelines_ledger_is_no_target(topic: str) -> None:
    with pytest.raises(OptionError, match=rf"{topic} is where a pipeline keeps its ledger"):
        KafkaSink(NOWHERE, topic).check(SCHEMA)


def test_ledgers_are_known_by_the_prefix_of_the_store() -> None:
    store = KafkaSink(NOWHERE, "flights", name_prefix="mine").store
    assert store.is_ledger("mine.ledger.flights")
    assert not store.is_ledger("directkafka.ledger.flights")


@pytest.mark.parametrize("options", [{"tasks_max": 0}, {"ledger_replicas": 0}])
def test_options_out_of_bounds_are_refused(options: dict[str, int]) -> None:
    (name,) = options
    with pytest.raises(OptionError) as caught:
        KafkaSink(NOWHERE, "flights", **options)  # type: ignore[arg-type]
    assert caught.value.option == name
