"""Options of the source: names, values, strategies and what is refused."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Mapping

import pytest

from directkafka.errors import OptionError
from directkafka.offsets import Committed, Latest, TopicPartition
from directkafka.options.consumer import consumer_specs
from directkafka.options.limits import NO_LIMITS, MinOffsets, OffsetLimits, rate_specs
from directkafka.options.payloads import payload_specs
from directkafka.options.producer import TransactionOptions, producer_specs, sink_specs
from directkafka.options.read_policy import read_specs
from directkafka.options.source import AssignedPartitions, SourceOptions, TopicNames, TopicPattern, option_table
from directkafka.options.spec import OptionSpec, RawOptions, specs_of

BASE = {"kafka.bootstrap.servers": "b:9092", "subscribe": "flights"}


def parse(options: Mapping[str, str] | None = None, *, streaming: bool = True) -> SourceOptions:
    return SourceOptions.parse({**BASE, **(options or {})}, streaming=streaming)


def refused(options: Mapping[str, str], *, streaming: bool = True) -> OptionError:
    with pytest.raises(OptionError) as caught:
        SourceOptions.parse(options, streaming=streaming)
    return caught.value


def refused_besides(options: Mapping[str, str], *, streaming: bool = True) -> OptionError:
    return refused({**BASE, **options}, streaming=streaming)


def test_what_is_not_given_has_sparks_default() -> None:
    options = parse()
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert (options.min_offsets_per_trigger, options.min_partitions, options.max_records_per_partition) == (None,) * 3
    assert options.limits == NO_LIMITS
    assert options.max_trigger_delay_ms == 15 * 60 * 1000
    assert options.commit_to_group is None
    assert options.poll_timeout_ms == 120_000
    assert (options.fetch_offset_num_retries, options.fetch_offset_retry_interval_ms) == (3, 1_000)
    assert options.client.isolation_level == "read_uncommitted"


def test_names_are_case_insensitive_and_values_are_trimmed() -> None:
    options = SourceOptions.parse(
        {
            "KAFKA.Bootstrap.Servers": " b:9092 ",
            "SUBSCRIBE": "flights",
            "MaxOffsetsPerTrigger": " 7 ",
            "failondataloss": "FALSE",
            "INCLUDEHEADERS": "True",
        },
        streaming=True,
    )
    assert options.client.bootstrap_servers == ("b:9092",)
    assert options.limits == OffsetLimits(total=7)
    assert not options.fail_on_data_loss
    assert options.include_headers


def test_a_name_given_twice_in_different_case_is_refused() -> None:
    assert "twice" in refused({**BASE, "Subscribe": "routes"}).reason


def test_defaults_count_only_where_nothing_is_given() -> None:
    defaults = {"kafka.isolation.level": "read_committed", "failOnDataLoss": "false"}
    options = SourceOptions.parse({**BASE, "FAILONDATALOSS": "true"}, streaming=True, defaults=defaults)
    assert options.client.isolation_level == "read_committed"
    assert options.fail_on_data_loss


def test_topics_are_trimmed_and_named_once() -> None:
    options = SourceOptions.parse({**BASE, "subscribe": " routes,flights , ,routes"}, streaming=True)
    assert options.strategy == TopicNames(("routes", "flights"))


def test_a_pattern_and_an_assignment_are_strategies_as_well() -> None:
    bootstrap = {"kafka.bootstrap.servers": "b:9092"}
    pattern = SourceOptions.parse({**bootstrap, "subscribePattern": " flights.* "}, streaming=True)
    assert pattern.strategy == TopicPattern("flights.*")
    assigned = SourceOptions.parse({**bootstrap, "assign": '{"Topic-A":[1,0],"b":[2]}'}, streaming=True)
    assert assigned.strategy == AssignedPartitions(
        (TopicPartition("Topic-A", 0), TopicPartition("Topic-A", 1), TopicPartition("b", 2))
    )


@pytest.mark.parametrize(
    "strategies",
    [
        {},
        {"subscribe": "a", "subscribePattern": "a"},
        {"subscribe": "a", "assign": '{"a":[0]}'},
        {"subscribePattern": "a", "assign": '{"a":[0]}'},
    ],
)
def test_exactly_one_strategy_must_be_given(strategies: dict[str, str]) -> None:
    error = refused({"kafka.bootstrap.servers": "b:9092", **strategies})
    assert "exactly one of subscribe, subscribePattern, assign" in error.reason


@pytest.mark.parametrize(
    "strategy",
    [
        {"subscribe": ""},
        {"subscribe": " , "},
        {"subscribePattern": " "},
        {"subscribePattern": "("},
        {"assign": ""},
        {"assign": "[]"},
        {"assign": "{}"},
        {"assign": '{"a":[]}'},
        {"assign": '{"a":0}'},
        {"assign": '{"a":["0"]}'},
        {"assign": '{"a":[true]}'},
        {"assign": '{"a":[-1]}'},
    ],
)
def test_an_empty_or_malformed_strategy_is_refused_under_its_own_name(strategy: dict[str, str]) -> None:
    error = refused({"kafka.bootstrap.servers": "b:9092", **strategy})
    assert {error.option} == set(strategy)


@pytest.mark.parametrize("name", ["subscribe", "minPartitions", "startingOffsets", "kafka.security.protocol"])
def test_a_nul_is_told_by_its_position_in_values_of_every_kind(name: str) -> None:
    error = refused({**BASE, name: "ab\0c"})
    assert (error.option, error.reason.partition(",")[0]) == (name, "has a NUL character (U+0000) at position 3")


def test_json_that_is_nested_deeper_than_python_reads_is_refused() -> None:
    error = refused({"kafka.bootstrap.servers": "b:9092", "assign": "[" * 200_000})
    assert error.option == "assign"
    assert "nested too deep" in error.reason


@pytest.mark.parametrize("value", ["a", "1.0", "0", "-1", "", "1_000", "\u0661", "2147483648"])
def test_min_partitions_must_be_a_positive_int(value: str) -> None:
    error = refused_besides({"minPartitions": value})
    assert error.option == "minPartitions"
    assert "a whole number from 1 to 2147483647" in error.reason
    assert repr(value) in error.reason


@pytest.mark.parametrize(
    ("name", "largest"),
    [("maxOffsetsPerTrigger", 2**63 - 1), ("maxRecordsPerPartition", 2**63 - 1), ("minPartitions", 2**31 - 1)],
)
def test_bounds_are_those_of_javas_numbers(name: str, largest: int) -> None:
    assert str(largest) in str(parse({name: str(largest)}))
    assert refused_besides({name: str(largest + 1)}).option == name


@pytest.mark.parametrize("value", ["yes", "1", "", "tru"])
def test_a_boolean_is_true_or_false(value: str) -> None:
    assert refused_besides({"failOnDataLoss": value}).reason == f"expected true or false, found {value!r}"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("startingOffset", "startingOffsets"),
        ("subscribepatern", "subscribePattern"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("fetch.max.bytes", "kafka.fetch.max.bytes"),
        ("kafka.fetch.max.byte", "fetch.max.bytes"),
        ("kafka.sesion.timeout.ms", "session.timeout.ms"),
    ],
)
def test_a_name_that_nobody_knows_is_refused_with_the_nearest_one(name: str, nearest: str) -> None:
    error = refused_besides({name: "x"})
    assert error.option == name.lower()
    assert error.reason.endswith(f"; the nearest one is {nearest!r}")


def test_a_name_like_nothing_else_is_refused_without_a_guess() -> None:
    assert refused_besides({"zzzzzz": "x"}).reason == "is not an option of this source"


def test_limits_by_topic_are_of_topics_and_of_partitions() -> None:
    options = parse({"maxOffsetsPerTriggerByTopic": '{"flights": 5000, "Planes": {"0": 100, "7": 1}}'})
    assert options.limits == OffsetLimits(
        topics={"flights": 5000}, partitions={TopicPartition("Planes", 0): 100, TopicPartition("Planes", 7): 1}
    )


@pytest.mark.parametrize(
    "text",
    [
        "7",
        "[]",
        '{"t": 0}',
        '{"t": true}',
        '{"t": "7"}',
        '{"t": {"x": 7}}',
        '{"t": {"0": -1}}',
        '{"t": {"\u0663": 7}}',
        pytest.param('{"t": {"' + "9" * 5000 + '": 7}}', id="a partition of 5000 digits"),
        pytest.param('{"t": ' + "9" * 5000 + "}", id="a limit of 5000 digits"),
    ],
)
def test_what_is_no_limit_by_topic_is_refused_with_the_form(text: str) -> None:
    error = refused_besides({"maxOffsetsPerTriggerByTopic": text})
    assert error.option == "maxOffsetsPerTriggerByTopic"
    assert '{"flights": 5000, "planes": {"0": 100}}' in error.reason


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("15m", 900_000), ("10s", 10_000), ("250", 250), ("250ms", 250), ("1H", 3_600_000)]
)
def test_a_trigger_delay_is_a_duration_or_milliseconds(text: str, milliseconds: int) -> None:
    options = parse({"minOffsetsPerTrigger": "20", "maxTriggerDelay": text})
    assert options.min_offsets == MinOffsets(20, milliseconds)


@pytest.mark.parametrize("text", ["soon", "-1", "1 fortnight", ""])
def test_what_is_no_trigger_delay_is_refused(text: str) -> None:
    assert "expected a duration" in refused_besides({"maxTriggerDelay": text}).reason


def test_a_batch_cannot_wait_for_more_than_it_may_have() -> None:
    error = refused_besides({"minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"})
    assert error.option == "minOffsetsPerTrigger"
    assert "20 is more than maxOffsetsPerTrigger, 15" in error.reason


def test_streaming_options_have_no_effect_on_a_batch_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    options = SourceOptions.parse(
        {**BASE, "maxOffsetsPerTrigger": "7", "minOffsetsPerTrigger": "2", "maxTriggerDelay": "1s"}, streaming=False
    )
    assert options.limits == NO_LIMITS
    assert "maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay: no effect on a batch read" in caplog.text


@pytest.mark.parametrize(("text", "fits"), [("-1", True), ("1", True), ("0", False), ("-2", False), ("1s", False)])
def test_a_list_of_partitions_is_kept_never_or_for_a_time(text: str, fits: bool) -> None:
    option = {"partition.metadata.cache.ttl.ms": text}
    if fits:
        assert SourceOptions.parse({**BASE, **option}, streaming=True).metadata_ttl_ms == int(text)
    else:
        assert refused_besides(option).option == "partition.metadata.cache.ttl.ms"


def test_columns_are_named_as_spark_spells_them_in_the_order_given() -> None:
    assert parse().columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert parse({"columns": "VALUE, timestamptype,offset"}).columns == ("value", "timestampType", "offset")
    assert parse({"columns": "headers,value"}).include_headers


@pytest.mark.parametrize("text", ["", "value,values", "value,VALUE", ","])
def test_columns_that_are_none_or_doubled_are_refused(text: str) -> None:
    error = refused_besides({"columns": text})
    assert error.option == "columns"
    assert "key, value, topic, partition, offset, timestamp, timestampType, headers" in error.reason


def test_headers_that_are_asked_for_cannot_be_left_out() -> None:
    assert "includeHeaders" in refused_besides({"columns": "value", "includeHeaders": "true"}).reason


def test_a_group_that_a_provider_names_is_the_group_whose_offsets_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUP", "air")
    given = {
        "startingOffsets": "committed-or-latest",
        "kafka.group.id": "${env:GROUP}",
        "kafka.config.providers": "env",
    }
    options = parse(given)
    assert options.group_id == "air"
    assert options.starting.default == Committed("air", Latest())


@pytest.mark.parametrize("value", [None, b"air", ["air"]])
def test_what_is_neither_a_text_nor_a_number_is_no_text(value: object) -> None:
    with pytest.raises(
        OptionError, match=f"expected a text, a number, True, False or a path, found {type(value).__name__}"
    ):
        SourceOptions.parse({"subscribe": "flights", "kafka.group.id": value}, streaming=True)  # type: ignore[dict-item]


def test_two_names_of_one_option_may_not_say_different_things() -> None:
    login = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.username": "ann", "kafka.sasl.password": "x"}
    mechanisms = {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.mechanisms": "SCRAM-SHA-512"}
    told = refused_besides(login | mechanisms)
    assert told.option == "kafka.sasl.mechanisms"
    assert told.reason == "means the same as kafka.sasl.mechanism, and says something else"


def test_a_group_to_commit_to_has_a_name() -> None:
    assert parse({"commitToGroup": "dashboards"}).commit_to_group == "dashboards"
    assert refused_besides({"commitToGroup": " "}).option == "commitToGroup"


@pytest.mark.parametrize(
    "name", ["auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes"]
)
@pytest.mark.parametrize("value", ["none", "earliest", "anything"])
def test_the_five_settings_that_sparks_source_refuses_are_refused(name: str, value: str) -> None:
    assert refused_besides({f"kafka.{name}": value}).option == f"kafka.{name}"


def test_the_refusal_of_a_reset_names_what_to_set_instead() -> None:
    assert "startingOffsets" in refused_besides({"kafka.auto.offset.reset": "latest"}).reason


def test_settings_of_the_java_client_are_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="directkafka.options"):
        parse({"kafka.session.timeout.ms": "1", "kafka.max.poll.records": "2", "kafka.acks": "all"})
    assert len(caplog.messages) == 1
    for name in ("kafka.session.timeout.ms", "kafka.max.poll.records", "kafka.acks"):
        assert name in caplog.messages[0]


def test_a_group_is_accepted_with_a_warning_that_it_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="directkafka.options"):
        options = parse({"kafka.group.id": "g", "groupIdPrefix": "p"})
    assert options.group_id == "g"
    assert caplog.messages == ["kafka.group.id, groupIdPrefix: no effect, records are read without a consumer group"]


def test_a_batch_limit_is_ignored_by_a_batch_read_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="directkafka.options"):
        options = parse({"maxOffsetsPerTrigger": "5"}, streaming=False)
    assert options.limits == NO_LIMITS
    assert caplog.messages == ["maxOffsetsPerTrigger: no effect on a batch read"]


def test_a_limit_that_is_no_number_is_refused_for_a_batch_read_too() -> None:
    assert refused_besides({"maxOffsetsPerTrigger": "x"}, streaming=False).option == "maxOffsetsPerTrigger"


def test_nothing_is_logged_when_nothing_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="directkafka.options"):
        parse({"kafka.fetch.max.bytes": "1000", "startingOffsets": "earliest"})
    assert caplog.messages == []


def test_an_error_names_the_place_when_there_is_one() -> None:
    with pytest.raises(OptionError) as caught:
        SourceOptions.parse({**BASE, "minPartitions": "x"}, streaming=True, where="flights.toml, [source]")
    assert str(caught.value).startswith("option 'minPartitions' in flights.toml, [source]: expected")


def test_options_survive_pickling_and_do_not_show_secrets() -> None:
    options = parse(
        {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "ann",
            "kafka.sasl.password": "hunter2",
        }
    )
    assert pickle.loads(pickle.dumps(options)) == options
    assert "hunter2" not in f"{options!r} {options} {options.client.sasl_password}"
    assert options.client.sasl_password is not None
    assert options.client.sasl_password.reveal() == "hunter2"


def test_the_option_table_names_every_option_once_and_explains_it() -> None:
    table = option_table()
    names = [spec.name for spec in table]
    assert len(set(names)) == len(names)
    assert [spec.name for spec in table if not spec.doc.endswith(".")] == []
    defaults = {spec.name: spec.default for spec in table}
    assert defaults["failOnDataLoss"] == "true"
    assert defaults["fetch.min.bytes"] == "1"
    assert defaults["maxOffsetsPerTrigger"] == ""
    assert {spec.name for spec in table if spec.scope == "batch"} == {
        "endingOffsets",
        "endingOffsetsByTimestamp",
        "endingTimestamp",
    }


def test_every_default_in_the_option_table_is_the_one_that_counts() -> None:
    given = {
        ("" if "." not in spec.name or spec.name in OWN_DOTTED else "kafka.") + spec.name: spec.default
        for spec in option_table()
        if spec.default and spec.kind in ("integer", "boolean", "choice") and spec not in payload_specs()
    }
    assert "kafka.fetch.max.bytes" in given
    assert parse(given) == parse()


EVERY_SPEC = (
    *option_table(), *sink_specs(), *producer_specs(), *specs_of(TransactionOptions).values(),
    *consumer_specs(), *rate_specs(), *read_specs(),
)  # fmt: skip


@pytest.mark.parametrize(
    "spec", [option_spec for option_spec in EVERY_SPEC if option_spec.default], ids=lambda option_spec: option_spec.name
)
def test_a_default_that_is_written_out_is_taken(spec: OptionSpec) -> None:
    # Where reads differ, the page says both: "latest (streaming), earliest (batch)".
    for text in (part.partition(" (")[0] for part in spec.default.split("), ")):
        assert RawOptions.read({spec.name: text}).value(spec) is not None


OWN_DOTTED = {
    *(spec.name for spec in payload_specs()),
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
}
