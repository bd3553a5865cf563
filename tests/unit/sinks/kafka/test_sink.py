"""What a Kafka sink refuses before it asks anybody."""

from __future__ import annotations

import pyarrow as pa
import pytest

from directkafka import Pipeline
from directkafka.errors import OptionError
from directkafka.sinks.kafka.sink import KafkaSink
from directkafka.spark.source_cluster import SourceCluster

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


def pipeline(subscription: dict[str, str], sink: KafkaSink) -> Pipeline:
    source = {"kafka.bootstrap.servers": "127.0.0.1:2", **subscription}
    return Pipeline("flights", source=source, transform="SELECT value FROM source", sinks=sink)


@pytest.mark.parametrize(
    ("subscription", "prefix", "refused"),
    [
        ({"subscribePattern": "fl.*"}, "directkafka", "flights_late"),
        ({"subscribe": "flights,flights_late"}, "directkafka", "flights_late"),
        ({"assign": '{"flights_late": [7]}'}, "directkafka", "flights_late"),
        ({"subscribePattern": "ledger"}, "mine", "mine.ledger.flights"),
        ({"subscribe": "directkafka.ledger.flights"}, "directkafka", "directkafka.ledger.flights"),
    ],
)
def test_a_pipeline_does_not_write_what_it_reads(
    subscription: dict[str, str], prefix: str, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SourceCluster, "cluster_id", lambda _: "one")
    sink = KafkaSink(NOWHERE, "flights_late", name_prefix=prefix)
    sink.store._cluster_id = "one"
    pipeline(subscription, sink)
    with pytest.raises(OptionError, match=rf"{refused} is read by this very pipeline"):
        sink.check(SCHEMA)


def test_a_topic_of_the_same_name_in_another_cluster_is_another_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SourceCluster, "cluster_id", lambda _: "another")
    sink = KafkaSink(NOWHERE, "flights_late")
    sink.store._cluster_id, sink.store._is_checked = "one", True
    monkeypatch.setattr(sink, "_partition_counts", lambda topics: dict.fromkeys(topics, 1))
    pipeline({"subscribePattern": "fl.*"}, sink)
    sink.check(SCHEMA)


def test_nobody_is_asked_while_the_names_differ() -> None:
    sink = KafkaSink(NOWHERE, "delays")
    pipeline({"subscribePattern": "fl.*"}, sink)
    assert not sink._is_read("delays")


@pytest.mark.parametrize(
    "options", [{"tasks_max": 0}, {"ledger_replicas": 0}, {"name_prefix": "of ours"}, {"name_prefix": "x" * 242}]
)
def test_options_out_of_bounds_are_refused(options: dict[str, int | str]) -> None:
    (name,) = options
    with pytest.raises(OptionError) as caught:
        KafkaSink(NOWHERE, "flights", **options)  # type: ignore[arg-type]
    assert caught.value.option == name
