"""What direct streams refuse, and when they say so, against a real broker."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.streaming import StreamingContext
from tests.real.spark.dstreams import Collected

import directkafka as dk
from directkafka import TopicPartition
from directkafka.errors import OptionError
from directkafka.options.limits import RatePolicy

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore:DStream is deprecated:FutureWarning")]


def test_wrong_settings_are_told_before_anything_starts(
    context: StreamingContext, params: dict[str, object], hundred: str
) -> None:
    for strategy, message in (
        (dk.Subscribe([], params), "names no topic"),
        (dk.SubscribePattern("(", params), "is not a Python regular expression"),
        (dk.Assign([], params), "names no partition"),
        (dk.Subscribe(hundred, {}), "is required"),
        (dk.Subscribe(hundred, params, {TopicPartition(hundred, 0): -1}), "expected an offset from 0"),
        (dk.Subscribe(hundred, params | {"auto.offset.reset": "middle"}), "expected earliest, smallest"),
    ):
        with pytest.raises(OptionError, match=message):
            dk.create_direct_stream(context, strategy)
    partition = TopicPartition(hundred, 0)
    strategies: list[tuple[Any, str]] = [
        (hundred, "expected Subscribe"),
        (dk.Subscribe([1], params), "expected names of topics, found int"),  # type: ignore[list-item]
        (dk.Subscribe(hundred, params, {(hundred, 0): 5}), "by TopicPartition, found tuple"),  # type: ignore[dict-item]
        (dk.Subscribe(hundred, params, [partition]), "by TopicPartition, found list"),  # type: ignore[arg-type]
        (dk.Assign([(hundred, 0)], params), "list of TopicPartition, found tuple"),  # type: ignore[list-item]
        (dk.Assign(partition, params), "list of TopicPartition, found TopicPartition"),  # type: ignore[arg-type]
        (dk.Subscribe(hundred, "127.0.0.1:1"), "expected settings by name, found str"),  # type: ignore[arg-type]
    ]
    for strategy, message in strategies:
        with pytest.raises(OptionError, match=message):
            dk.create_direct_stream(context, strategy)
    right = dk.Subscribe(hundred, params)
    with pytest.raises(OptionError, match="expected a StreamingContext, found SparkContext"):
        dk.create_direct_stream(context.sparkContext, right)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="expected a PerPartitionConfig, found dict"):
        dk.create_direct_stream(context, right, per_partition_config={partition: 5})  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="expected a number from 1, found str"):
        dk.create_direct_stream(context, right, waiting_batches_max="3")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="expected PreferConsistent"):
        dk.create_direct_stream(context, dk.Subscribe(hundred, params), dk.PreferBrokers)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="from 1, found 0"):
        dk.create_direct_stream(context, dk.Subscribe(hundred, params), waiting_batches_max=0)


@pytest.mark.parametrize("rate", ["-5", "fast"])
def test_a_rate_below_zero_is_refused(rate: str) -> None:
    with pytest.raises(OptionError, match="maxRatePerPartition"):
        RatePolicy.from_spark_conf({"spark.streaming.kafka.maxRatePerPartition": rate})


@pytest.mark.slow
@pytest.mark.parametrize("what", ["broker", "topic"])
def test_a_broker_or_a_topic_that_is_not_there_reaches_the_caller(
    context: StreamingContext, params: dict[str, object], what: str
) -> None:
    nobody = {"bootstrap.servers": "127.0.0.1:1", "socket.connection.setup.timeout.ms": 300}
    stream = dk.create_direct_stream(context, dk.Subscribe("no-such-topic", nobody if what == "broker" else params))
    stream.foreachRDD(lambda rdd: None)
    context.start()
    expected = "BrokerUnreachableError.*127.0.0.1:1" if what == "broker" else "TopicNotFoundError.*no-such-topic"
    with pytest.raises(Py4JJavaError, match=f"(?s){expected}"):
        context.awaitTermination(60)


@pytest.mark.slow
def test_no_start_and_no_reset_is_an_error_of_the_first_batch(
    context: StreamingContext, servers: str, hundred: str
) -> None:
    params = {"bootstrap.servers": servers, "auto.offset.reset": "none"}
    Collected().of(dk.create_direct_stream(context, dk.Subscribe(hundred, params)))
    context.start()
    with pytest.raises(Py4JJavaError, match=f"nothing says where to start in {hundred}-0"):
        context.awaitTermination(60)


@pytest.mark.slow
def test_a_stream_that_is_made_after_the_start_is_refused(
    context: StreamingContext, params: dict[str, object], hundred: str
) -> None:
    Collected().of(dk.create_direct_stream(context, dk.Subscribe(hundred, params)))
    context.start()
    with pytest.raises(OptionError, match="has started already"):
        dk.create_direct_stream(context, dk.Subscribe(hundred, params))


def test_a_secret_of_the_strategy_is_not_shown() -> None:
    strategy = dk.Subscribe("flights", {"bootstrap.servers": "h:1", "sasl.password": "hunter2"})
    assert "hunter2" not in repr(strategy)
