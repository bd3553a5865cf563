from __future__ import annotations

import logging
import pickle

import pytest

from directkafka.errors import OptionError
from directkafka.options.names import IGNORED_CLIENT_NAMES, IGNORED_SINK_CLIENT_NAMES, REFUSED_SINK_CLIENT_NAMES
from directkafka.options.producer import SinkOptions, producer_specs, sink_specs
from directkafka.options.source import SourceOptions

PLAIN = {"kafka.bootstrap.servers": "one:9092,two:9092"}


def parse(**options: str) -> SinkOptions:
    return SinkOptions.parse(PLAIN | {name.replace("__", "."): text for name, text in options.items()})


def refused(**options: str) -> OptionError:
    with pytest.raises(OptionError) as caught:
        parse(**options)
    return caught.value


def test_producer_settings_are_read_behind_their_prefix() -> None:
    options = parse(
        topic=" flights ", kafka__compression__type="LZ4", kafka__batch__size="1000", kafka__client__id="writer"
    )
    assert options.topic == "flights"
    assert (options.producer.compression, options.producer.batch_size_bytes) == ("lz4", 1000)
    assert (options.client.client_id, options.client.bootstrap_servers) == ("writer", ("one:9092", "two:9092"))
    assert (options.include_headers, options.include_timestamp) == (True, False)


def test_names_are_case_insensitive() -> None:
    options = SinkOptions.parse({"KAFKA.Bootstrap.Servers": "one:9092", "Topic": "t", "INCLUDEHEADERS": "false"})
    assert (options.topic, options.include_headers) == ("t", False)


def test_a_topic_is_no_must() -> None:
    assert parse().topic is None
    assert parse(topic="  ").topic is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kafka.compression.type", "brotli"),
        ("kafka.compression.lz4.level", "0"),
        ("kafka.max.in.flight.requests.per.connection", "6"),
        ("kafka.buffer.memory", "0"),
        ("includeHeaders", "perhaps"),
    ],
)
def test_a_value_out_of_bounds_is_named_as_the_user_wrote_it(name: str, text: str) -> None:
    assert refused(**{name: text}).option == name


def test_a_name_that_nobody_knows_is_refused_with_the_nearest_one() -> None:
    assert "'kafka.batch.size'" in refused(batch__size="1").reason
    assert "is not a setting of any Kafka client" in refused(kafka__batch__sise="1").reason
    assert "is not an option of this sink" in refused(subscribe="t").reason


@pytest.mark.parametrize("name", sorted(REFUSED_SINK_CLIENT_NAMES))
def test_what_changes_the_records_or_where_they_go_is_refused(name: str) -> None:
    error = refused(**{f"kafka.{name}": "x"})
    assert (error.option, error.reason) == (f"kafka.{name}", REFUSED_SINK_CLIENT_NAMES[name])


def test_settings_that_mean_nothing_here_are_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="directkafka.options"):
        parse(kafka__acks="1", kafka__linger__ms="5", kafka__group__id="g", kafka__batch__size="100")
    (message,) = caplog.messages
    assert "kafka.acks (every write waits for all in-sync replicas)" in message
    assert "kafka.linger.ms" in message
    assert "kafka.group.id" in message
    assert "batch.size" not in message


def test_the_source_still_ignores_what_is_a_producer_s(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="directkafka.options"):
        SourceOptions.parse(PLAIN | {"subscribe": "t", "kafka.batch.size": "1"}, streaming=True)
    assert "kafka.batch.size (it is a producer's)" in caplog.text


def test_every_name_of_java_s_producer_is_used_ignored_or_refused() -> None:
    used = {spec.name for spec in producer_specs()}
    known_as_producer_s = {name for name, why in IGNORED_CLIENT_NAMES.items() if why == "it is a producer's"}
    assert known_as_producer_s == (used | set(IGNORED_SINK_CLIENT_NAMES) | set(REFUSED_SINK_CLIENT_NAMES)) - {
        "interceptor.classes", "key.serializer", "partitioner.class", "value.serializer",
    }  # fmt: skip
    assert set(IGNORED_SINK_CLIENT_NAMES) | set(REFUSED_SINK_CLIENT_NAMES) <= set(IGNORED_CLIENT_NAMES)
    assert not used & (set(IGNORED_SINK_CLIENT_NAMES) | set(REFUSED_SINK_CLIENT_NAMES))


def test_options_travel() -> None:
    options = parse(topic="t", kafka__compression__type="zstd")
    assert pickle.loads(pickle.dumps(options)) == options


def test_every_option_says_what_it_does() -> None:
    assert all(spec.doc.endswith(".") for spec in (*sink_specs(), *producer_specs()))
