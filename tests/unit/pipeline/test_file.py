"""The pipeline file: what is accepted, and that each kind of mistake is named with place and remedy."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from directkafka.errors import OptionError
from directkafka.pipeline.file import PipelineSection, SparkSection, load, parse_duration_ms, parse_trigger
from directkafka.pipeline.pipeline import Pipeline
from directkafka.pipeline.sink_section import SinkSection
from directkafka.planning.trigger import AvailableNow, Backlog, Delay, Interval

GOOD = """\
[pipeline]
name = "flights"

[source]
"kafka.bootstrap.servers" = "${KAFKA}"
subscribe = "flights"
maxOffsetsPerTrigger = 50000
failOnDataLoss = false

[transform]
sql = "SELECT 1"

[[sink]]
type = "postgres"
dsn = "host=db password=${PASSWORD}"
table = "flights"
"""
ENVIRONMENT = {"KAFKA": "broker:9092", "PASSWORD": "hunter2"}


def mistake(tmp_path: Path, old: str, new: str) -> OptionError:
    """What is said of the good file with one change."""
    assert old in GOOD
    path = tmp_path / "flights.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(OptionError) as raised:
        load(path, ENVIRONMENT)
    assert str(path) in str(raised.value)
    assert "hunter2" not in str(raised.value)
    return raised.value


def test_a_file_gives_its_values_with_the_environments(tmp_path: Path) -> None:
    path = tmp_path / "flights.toml"
    path.write_text(GOOD)
    spec = load(path, ENVIRONMENT)
    assert spec.pipeline.name == "flights"
    assert spec.trigger == Interval(1_000)
    assert spec.source_options() == {
        "kafka.bootstrap.servers": "broker:9092",
        "subscribe": "flights",
        "maxOffsetsPerTrigger": "50000",
        "failOnDataLoss": "false",
    }
    section = SinkSection.of(spec.sink[0])
    assert section.arguments["dsn"] == "host=db password=hunter2"
    assert section.source_output == "default"
    assert "hunter2" not in repr(section) + repr(spec)
    assert spec.path == path
    assert (spec.pipeline.engine, spec.pipeline.checkpoint, spec.pipeline.output_mode) == ("direct", None, "append")


def test_sections_of_values_and_keys_are_the_source_s_options(tmp_path: Path) -> None:
    path = tmp_path / "flights.toml"
    sections = """
[source.value]
format = "avro"
schema = '"long"'
on.error = "null"
registry.url = "https://registry:8081"
[source.value.registry.bearer.auth]
token = "${PASSWORD}"
[source.key]
"format" = "string"

[transform]"""
    path.write_text(GOOD.replace("\n[transform]", sections, 1))
    spec = load(path, ENVIRONMENT)
    assert {name: text for name, text in spec.source_options().items() if name.startswith(("value.", "key."))} == {
        "value.format": "avro",
        "value.schema": '"long"',
        "value.on.error": "null",
        "value.registry.url": "https://registry:8081",
        "value.registry.bearer.auth.token": "hunter2",
        "key.format": "string",
    }
    assert len(spec.source_parsed().payloads) == 2


def test_what_such_a_section_says_wrongly_is_told(tmp_path: Path) -> None:
    twice = 'failOnDataLoss = false\n"value.format" = "json"\nvalue.format = "avro"'
    message = str(mistake(tmp_path, "failOnDataLoss = false", twice))
    assert f"option 'source.value.format' in {tmp_path / 'flights.toml'}, line 10: is given twice" in message
    message = str(mistake(tmp_path, "failOnDataLoss = false", "value.format = [5]"))
    assert "option 'source.value.format'" in message
    assert "found an array" in message


def test_a_file_names_the_structured_engine_s_checkpoint_and_output_mode(tmp_path: Path) -> None:
    path = tmp_path / "flights.toml"
    engine = 'engine = "structured"\ncheckpoint = "/data/flights"\noutput_mode = "update"\n'
    path.write_text(GOOD.replace("\n\n[source]", f"\n{engine}\n[source]", 1))
    section = load(path, ENVIRONMENT).pipeline
    assert (section.engine, section.checkpoint, section.output_mode) == ("structured", "/data/flights", "update")


def test_a_files_repr_holds_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "flights.toml"
    source = GOOD.replace("[source]", '[source]\n"kafka.sasl.password" = "${PASSWORD}"')
    path.write_text(source + '[spark]\nconf."spark.hadoop.secret" = "${PASSWORD}"\n')
    assert "hunter2" not in repr(load(path, ENVIRONMENT))


@pytest.mark.parametrize(
    ("old", "new", "option", "hint"),
    [
        ('name = "flights"', 'nme = "flights"', "pipeline.nme", "did you mean 'name'"),
        ('table = "flights"', 'tabel = "flights"', "sink.0.tabel", "did you mean 'table'"),
        ('table = "flights"', 'table = "x"\nsource_output = "y"', "sink.0.source_output", "no such name"),
        ("sql =", "sqll =", "transform.sqll", "did you mean 'sql'"),
        ("[transform]", "[transfrom]", "transfrom", "did you mean 'transform'"),
        ("[[sink]]", "[[sinks]]", "sinks", "did you mean 'sink'"),
        ("[pipeline]", 'path = "x"\n[pipeline]', "path", "known are pipeline, source, transform, sink, spark"),
        ("[pipeline]", "[spark]\nmastre = 'x'\n[pipeline]", "spark.mastre", "did you mean 'master'"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(
    tmp_path: Path, old: str, new: str, option: str, hint: str
) -> None:
    error = mistake(tmp_path, old, new)
    assert error.option == option
    assert hint in error.reason


@pytest.mark.parametrize(
    ("old", "option", "reason"),
    [
        ('[pipeline]\nname = "flights"\n', "pipeline", "the section [pipeline] is missing"),
        (GOOD[GOOD.index("[[sink]]") :], "sink", "the section [[sink]] is missing"),
        ('name = "flights"\n', "pipeline.name", "is missing"),
        ('table = "flights"\n', "sink.0.table", "is missing"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, old: str, option: str, reason: str) -> None:
    error = mistake(tmp_path, old, "")
    assert error.option == option
    assert reason in error.reason


@pytest.mark.parametrize(
    ("old", "new", "option", "reason"),
    [
        ('name = "flights"', "name = 5", "pipeline.name", "found an integer"),
        ('name = "flights"', 'name = "my flights"', "pipeline.name", "should match pattern"),
        ('name = "flights"', 'name = "flights"\ntrigger = 5', "pipeline.trigger", "found an integer"),
        ('name = "flights"', 'name = "flights"\ntrigger = ["1s"]', "pipeline.trigger", "found an array"),
        ('name = "flights"', 'name = "flights"\nengine = "magic"', "pipeline.engine", "'direct'"),
        ('subscribe = "flights"', "subscribe = 1.5", "source.subscribe", "found a float"),
        ('subscribe = "flights"', 'kafka.security.protocol = "SSL"', "source.kafka", '"kafka.security.protocol" = ...'),
        ("[pipeline]", "[spark]\nconf.spark.ui.enabled = true\n[pipeline]", "spark.conf.spark", '"spark.ui.enabled"'),
        ("[[sink]]", "[sink]", "sink", "write [[sink]]"),
        ('table = "flights"', 'table = "flights"\nkey = "carrier"', "sink.0.key", "valid list, found a string"),
        ('table = "flights"', 'table = "flights"\nkey = [1]', "sink.0.key.0", "found an integer"),
        (
            'table = "flights"',
            'table = "flights"\nmode = "upsrt"',
            "sink.0.mode",
            "'append', 'ignore', 'upsert', ",
        ),
        ('table = "flights"', 'table = "flights"\nconnections_max = "2"', "sink.0.connections_max", "found a string"),
        ('table = "flights"', 'table = "flights"\nconnections_max = 0', "sink.0.connections_max", "greater than or"),
        ('table = "flights"', 'table = ""', "sink.0.table", "at least 1 character"),
    ],
)
def test_a_value_of_a_wrong_type_or_range_is_refused_by_its_place_in_the_file(
    tmp_path: Path, old: str, new: str, option: str, reason: str
) -> None:
    error = mistake(tmp_path, old, new)
    assert error.option == option
    assert reason in error.reason


@pytest.mark.parametrize("second", ['python = "job:transform"', 'arrow = "job:transform"'])
def test_a_transform_is_at_most_one_of_three(tmp_path: Path, second: str) -> None:
    error = mistake(tmp_path, 'sql = "SELECT 1"', f'sql = "SELECT 1"\n{second}')
    assert error.option == "transform"
    assert error.reason == "only one of sql, python and arrow can be given"


@pytest.mark.parametrize("reference", ["job", "job:", ":transform", "job:a.b", "job transform"])
def test_a_python_transform_names_module_and_function(tmp_path: Path, reference: str) -> None:
    assert mistake(tmp_path, 'sql = "SELECT 1"', f'python = "{reference}"').option == "transform.python"


def test_a_variable_that_the_environment_lacks_is_named_with_its_place(tmp_path: Path) -> None:
    error = mistake(tmp_path, "${KAFKA}", "${KAFFKA}")
    assert error.option == "source.kafka.bootstrap.servers"
    assert "KAFFKA is not set" in error.reason


def test_a_variable_in_a_list_is_replaced_and_a_dollar_alone_stays(tmp_path: Path) -> None:
    path = tmp_path / "flights.toml"
    path.write_text(GOOD + 'mode = "ignore"\nkey = ["${KAFKA}", "$x", "${}"]\n')
    assert load(path, ENVIRONMENT).sink[0]["key"] == ["broker:9092", "$x", "${}"]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("$${KAFKA}", "${KAFKA}"),
        ("$$${KAFKA}", "$broker:9092"),
        ("$$$${KAFKA}", "$${KAFKA}"),
        ("a$${NOT_SET}b${KAFKA}", "a${NOT_SET}bbroker:9092"),
        # What was written before there was a way to write it stays as it was.
        ("$$ $x $1 ${} ${1} ^air$ {KAFKA} $$x ${a.b}", "$$ $x $1 ${} ${1} ^air$ {KAFKA} $$x ${a.b}"),
    ],
)
def test_two_dollars_before_a_brace_are_one_and_no_variable(tmp_path: Path, written: str, read: str) -> None:
    path = tmp_path / "flights.toml"
    path.write_text(GOOD.replace("SELECT 1", f"SELECT '{written}'"))
    assert load(path, ENVIRONMENT).transform.sql == f"SELECT '{read}'"


def test_all_mistakes_of_a_file_are_told_with_their_lines(tmp_path: Path) -> None:
    """One in each section, and one that the model finds, one of the source's table, one variable that is not set."""
    path = tmp_path / "flights.toml"
    wrong = (
        GOOD.replace("[pipeline]", '[pipeline]\ntriger = "1s"')
        .replace("subscribe", 'startingOffset = "latest"\nsubscribe')
        .replace('type = "postgres"', 'type = "postgres"\nmoed = "append"')
        .replace("SELECT 1", "SELECT ${NOT_SET}")
    )
    path.write_text(wrong + '[[sink]]\ntype = "sqlite"\ntabel = "t"\n')
    with pytest.raises(OptionError) as raised:
        load(path, ENVIRONMENT)
    lines = str(raised.value).splitlines()
    at = {line.split("'")[1]: int(line.partition(", line ")[2].split(":")[0]) for line in lines}
    text = path.read_text().splitlines()
    assert at.keys() == {
        "transform.sql", "pipeline.triger", "sink.0.moed", "sink.1.tabel", "sink.1.path", "startingoffset"
    }  # fmt: skip
    assert "triger" in text[at["pipeline.triger"] - 1]
    assert "NOT_SET" in text[at["transform.sql"] - 1]
    assert "moed" in text[at["sink.0.moed"] - 1]
    assert "tabel" in text[at["sink.1.tabel"] - 1]
    assert text[at["sink.1.path"] - 1] == "[[sink]]", "what is missing is missing in its table"
    assert text[at["startingoffset"] - 1] == "[source]"
    assert all("did you mean" in line for line in lines if "triger" in line or "moed" in line)
    assert "hunter2" not in str(raised.value)


def test_sinks_that_make_no_sense_are_told_together_with_the_source(tmp_path: Path) -> None:
    path = tmp_path / "flights.toml"
    sinks = (
        GOOD.replace('table = "flights"', 'table = "a.b.c"') + '[[sink]]\ntype = "postgres"\ndsn = "x"\ntable = ""\n'
    )
    path.write_text(sinks.replace('table = ""', 'table = "t"\nmode = "merge"').replace("50000", '"many"'))
    with pytest.raises(OptionError) as raised:
        load(path, ENVIRONMENT).sinks()
    assert [part in str(raised.value) for part in ("a.b.c", "key", "maxOffsetsPerTrigger")] == [True] * 3
    assert ", line 13" in str(raised.value), "of the sink"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a." * 5_000 + "b = 1", "nested"),
        ("x = " + "[" * 5_000 + "]" * 5_000, "nested"),
        ("x = " + "9" * 5_000, "not TOML"),
        ("x = 1\nx = 2", "not TOML"),
    ],
)
def test_what_no_parser_takes_is_told(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "flights.toml"
    path.write_text(text)
    with pytest.raises(OptionError, match=message):
        load(path, ENVIRONMENT)


@pytest.mark.parametrize("old", ['name = "fl', "SELECT", 'table = "fl', 'subscribe = "fl', 'dsn = "'])
def test_a_nul_is_told_wherever_it_stands(tmp_path: Path, old: str) -> None:
    assert "NUL" in str(mistake(tmp_path, old, old + "\\u0000"))


def test_a_file_s_name_may_be_wrong_too() -> None:
    with pytest.raises(OptionError, match="NUL"):
        load("a\0b", ENVIRONMENT)


def test_a_value_from_the_environment_is_not_looked_into_again(tmp_path: Path) -> None:
    path = tmp_path / "flights.toml"
    path.write_text(GOOD)
    dsn = load(path, {"KAFKA": "broker:9092", "PASSWORD": "${KAFKA}"}).sink[0]["dsn"]
    assert dsn == "host=db password=${KAFKA}"


def test_a_value_may_stand_in_a_file_or_a_folder_beside_the_pipeline_file(tmp_path: Path) -> None:
    path = tmp_path / "flights.toml"
    path.write_text(
        GOOD.replace("${PASSWORD}", "${file:secrets/db.properties:pass}").replace("${KAFKA}", "${dir:.:kafka}")
    )
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "db.properties").write_text("pass=hunter3\n")
    (tmp_path / "kafka").write_text("broker:9092\n")
    spec = load(path, {})
    assert spec.sink[0]["dsn"] == "host=db password=hunter3"
    assert spec.source_options()["kafka.bootstrap.servers"] == "broker:9092"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${file:secrets/db.properties:pass}", "secrets/db.properties cannot be read (No such file or directory)"),
        ("${dir:nowhere:pass}", "nowhere/pass cannot be read"),
        ("${env:KAFFKA}", "the environment variable KAFFKA is not set"),
    ],
)
def test_a_place_without_a_value_is_named_with_its_line(tmp_path: Path, reference: str, reason: str) -> None:
    error = mistake(tmp_path, "${KAFKA}", reference)
    assert error.option == "source.kafka.bootstrap.servers"
    assert reason in error.reason
    assert "line 5" in error.where


def test_a_value_of_a_file_is_not_shown_where_it_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "x")
    (tmp_path / "secret").write_text("hunter2 hunter3")
    path = tmp_path / "flights.toml"
    path.write_text(GOOD.replace("${KAFKA}", "${dir:.:secret}"))
    for parse in (lambda: load(path, ENVIRONMENT).source_parsed(), lambda: Pipeline.from_toml(path)):
        with pytest.raises(OptionError) as caught:
            parse()
        assert ("********" in str(caught.value), "hunter3" in str(caught.value)) == (True, False)


def test_providers_have_no_place_in_a_pipeline_file(tmp_path: Path) -> None:
    error = mistake(tmp_path, 'subscribe = "flights"', 'subscribe = "flights"\n"kafka.config.providers" = "file"')
    assert error.option == "source.kafka.config.providers"
    assert "has no place in a pipeline file" in error.reason


def test_a_doubled_dollar_before_a_place_is_text(tmp_path: Path) -> None:
    path = tmp_path / "flights.toml"
    path.write_text(GOOD.replace("${PASSWORD}", "$${file:a:b}"))
    assert load(path, ENVIRONMENT).sink[0]["dsn"] == "host=db password=${file:a:b}"


def test_a_syntax_error_is_told_with_its_line(tmp_path: Path) -> None:
    assert "line 2" in mistake(tmp_path, 'name = "flights"', 'name = "flights').reason


def test_a_file_that_is_no_text_or_not_there_is_an_option_error(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"name = '\xff'")
    with pytest.raises(OptionError, match="not UTF-8 text: byte 8"):
        load(binary, {})
    with pytest.raises(OptionError, match="cannot be read"):
        load(tmp_path / "none.toml", {})
    with pytest.raises(OptionError, match="cannot be read"):
        load(tmp_path, {})


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500ms", 500),
        ("1s", 1_000),
        ("1.5 s", 1_500),
        ("5m", 300_000),
        ("5 min", 300_000),
        ("1 second", 1_000),
        ("2 days", 172_800_000),
        ("2h", 7_200_000),
        ("0s", 0),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text, option="trigger") == milliseconds


@pytest.mark.parametrize("text", ["", "1", "s", "-1s", "1 secon", "1s 500ms", "1e3s", "nan s", 5, None, True])
def test_what_is_no_duration_is_refused_and_repeated(text: object) -> None:
    with pytest.raises(OptionError, match='such as "500ms"') as raised:
        parse_duration_ms(text, option="trigger.delay")
    assert raised.value.option == "trigger.delay"


@pytest.mark.parametrize(
    ("form", "trigger"),
    [
        ("100ms", Interval(100)),
        ("available-now", AvailableNow()),
        ({"delay": "1s"}, Delay(1_000)),
        ({"records": 5, "at_most": "2s"}, Backlog(5, 2_000)),
    ],
)
def test_the_four_triggers(form: object, trigger: object) -> None:
    assert parse_trigger(form) == trigger  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("form", "option"),
    [
        ("soon", "trigger"),
        ({}, "trigger"),
        ({"delay": "1s", "records": 5}, "trigger"),
        ({"records": 5}, "trigger"),
        ({"delay": 1}, "trigger.delay"),
        ({"records": 0, "at_most": "1s"}, "trigger.records"),
        ({"records": True, "at_most": "1s"}, "trigger.records"),
        ({"records": "5", "at_most": "1s"}, "trigger.records"),
        ({"records": 5, "at_most": "later"}, "trigger.at_most"),
        (5, "trigger"),
        (None, "trigger"),
    ],
)
def test_what_is_no_trigger_is_refused_by_its_part(form: object, option: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse_trigger(form, where="flights.toml")  # type: ignore[arg-type]
    assert (raised.value.option, raised.value.where) == (option, "flights.toml")


# Sinks by type.


def sink_file(tmp_path: Path, section: str) -> Path:
    path = tmp_path / "flights.toml"
    path.write_text(GOOD[: GOOD.index("[[sink]]")] + "[[sink]]\n" + section)
    return path


def test_a_file_says_how_long_its_steps_and_locks_are_tried(tmp_path: Path) -> None:
    path = tmp_path / "flights.toml"
    timeout = 'type = "sqlite"\npath = "/data/flights.db"\ntable = "t"\nlock_timeout_s = 2\n'
    section = f"[[sink]]\n{timeout}[[sink]]\n{timeout.replace('sqlite', 'duckdb').replace('= 2', '= 0.5')}"
    retry = GOOD.replace("\n\n[source]", "\nretry_ms_max = 5000\n\n[source]", 1)
    path.write_text(retry[: retry.index("[[sink]]")] + section)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        pipeline = Pipeline.from_toml(path)
    assert pipeline._retry_ms_max == 5_000
    stores: list[Any] = [route.sink.store for route in pipeline.routes]
    assert [store._lock_timeout_s for store in stores] == [2, 0.5]


def test_a_kafka_sink_s_names_begin_as_the_file_says(tmp_path: Path) -> None:
    section = 'type = "kafka"\ntopic = "t"\n"kafka.bootstrap.servers" = "b:1"\nname_prefix = "team"'
    (sink_section,) = load(sink_file(tmp_path, section), ENVIRONMENT).sink
    store: Any = SinkSection.of(sink_section).sinks()[0].store
    assert store.ledger_of("flights") == "team.ledger.flights"


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", '"10"'])
def test_a_file_s_lock_is_waited_for_some_time(tmp_path: Path, value: str) -> None:
    section = f'type = "sqlite"\npath = "x"\ntable = "t"\nlock_timeout_s = {value}'
    with pytest.raises(OptionError) as caught:
        load(sink_file(tmp_path, section), ENVIRONMENT)
    assert caught.value.option == "sink.0.lock_timeout_s"


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (
            'type = "postgres"\ndsn = "host=db"\ntable = "s.t"\nmode = "upsert"\nkey = ["id"]\norder = ["at"]',
            "PostgresSink('postgres db:5432/default database', 's.t', mode='upsert')",
        ),
        (
            'type = "sqlite"\npath = "/data/flights.db"\ntable = "t"\nstaging = "/shared"',
            "SQLiteSink('/data/flights.db', 't', mode='append')",
        ),
        (
            'type = "duckdb"\npath = "/data/flights.duckdb"\ntable = "t"\nmode = "replace"',
            "DuckDBSink('/data/flights.duckdb', 't', mode='replace')",
        ),
    ],
)
def test_a_section_stands_for_a_sink_of_its_type(tmp_path: Path, section: str, expected: str) -> None:
    (sink_section,) = load(sink_file(tmp_path, section), ENVIRONMENT).sink
    assert repr(SinkSection.of(sink_section).sinks()[0]) == expected


@pytest.mark.parametrize(
    ("section", "option", "reason"),
    [
        ('type = "duckbd"', "sink.0.type", "found 'duckbd'; did you mean 'duckdb'"),
        ('type = "oracle"', "sink.0.type", "expected one of 'postgres', 'sqlite'"),
        ('table = "t"', "sink.0.type", "this name is missing; expected one of 'postgres'"),
        ('type = "duckdb"\npath = "x"', "sink.0.table", "this name is missing"),
        ('type = "duckdb"\npath = "x"\ntable = "t"\ndsn = "y"', "sink.0.dsn", "known are"),
        ('type = "sqlite"\npath = "x"\ntable = "t"\nstagin = "y"', "sink.0.stagin", "did you mean 'staging'"),
        ('type = "sqlite"\npath = 5\ntable = "t"', "sink.0.path", "found an integer"),
    ],
)
def test_a_sink_s_mistakes_are_those_of_its_type(tmp_path: Path, section: str, option: str, reason: str) -> None:
    with pytest.raises(OptionError) as caught:
        load(sink_file(tmp_path, section), ENVIRONMENT)
    assert caught.value.option == option
    assert reason in caught.value.reason


def test_a_kafka_sink_s_client_settings_stand_beside_its_own_names(tmp_path: Path) -> None:
    section = (
        'type = "kafka"\ntopic = "late"\n"kafka.bootstrap.servers" = "broker:9092"\n"kafka.linger.ms" = 5\n'
        '"kafka.ssl.key.password" = "${PASSWORD}"'
    )
    (sink_section,) = load(sink_file(tmp_path, section), ENVIRONMENT).sink
    made = SinkSection.of(sink_section)
    assert made.arguments["kafka_params"] == {
        "bootstrap.servers": "broker:9092", "linger.ms": 5, "ssl.key.password": "hunter2"
    }  # fmt: skip
    assert "hunter2" not in repr(made)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ('type = "kafka"\n"kafka.bootstrap.servers" = "b:1"\ntopic = "t"', "KafkaSink('kafka b:1', 't')"),
        ('type = "parquet"\npath = "/data"\nformat = "json"', "FilesSink('/data', table='.', format='json')"),
        ('type = "delta"\npath = "/data"\ncompression = "snappy"', "DeltaSink('/data', mode='append')"),
    ],
)
def test_topics_and_files_have_sections_too(tmp_path: Path, section: str, expected: str) -> None:
    (sink_section,) = load(sink_file(tmp_path, section), ENVIRONMENT).sink
    assert repr(SinkSection.of(sink_section).sinks()[0]) == expected


@pytest.mark.parametrize(
    ("section", "option", "reason"),
    [
        ('type = "kafka"\ntopic = "t"', "sink.0.kafka", "this name is missing"),
        ('type = "kafka"\n"kafka.bootstrap.servers" = "b:1"\ntopc = "t"', "sink.0.topc", "did you mean 'topic'"),
        ('type = "parquet"\npath = "/d"\nmode = "merge"', "sink.0.mode", "'append'"),
        ('type = "delta"\npath = "/d"\ntable = "t"', "sink.0.table", "no such name"),
    ],
)
def test_their_mistakes_are_named_as_well(tmp_path: Path, section: str, option: str, reason: str) -> None:
    with pytest.raises(OptionError) as caught:
        load(sink_file(tmp_path, section), ENVIRONMENT)
    assert caught.value.option == option
    assert reason in caught.value.reason


LETTERS = '\n[dead_letters]\ntype = "sqlite"\npath = "/tmp/letters.db"\ntable = "letters"\n'


def test_dead_letters_say_what_becomes_of_records_that_make_their_batch_fail(tmp_path: Path) -> None:
    path = tmp_path / "flights.toml"
    path.write_text(GOOD + LETTERS + 'on_error = "isolate"\nmax_per_batch = 7\n')
    _, policy = load(path, ENVIRONMENT).sinks()
    assert policy is not None
    assert (policy.sink.name, policy.on_error, policy.max_per_batch) == ("letters", "isolate", 7)
    path.write_text(GOOD + LETTERS)
    _, policy = load(path, ENVIRONMENT).sinks()
    assert policy is not None
    assert (policy.isolates, policy.max_per_batch) == (False, 100)


@pytest.mark.parametrize(
    ("line", "option", "told"),
    [
        ('on_error = "retry"', "dead_letters.on_error", "'fail' or 'isolate'"),
        ("max_per_batch = 0", "dead_letters.max_per_batch", "greater than or equal to 1"),
        ('max_per_batch = "7"', "dead_letters.max_per_batch", "valid integer"),
        ('on_eror = "isolate"', "dead_letters.on_eror", "did you mean 'on_error'"),
    ],
)
def test_mistakes_in_what_becomes_of_them_are_told_with_their_lines(
    tmp_path: Path, line: str, option: str, told: str
) -> None:
    path = tmp_path / "flights.toml"
    path.write_text(GOOD + LETTERS + line + "\n")
    with pytest.raises(OptionError, match=told) as caught:
        load(path, ENVIRONMENT)
    assert caught.value.option == option
    assert "line 22" in str(caught.value)


def test_what_a_file_leaves_out_is_what_a_program_leaves_out() -> None:
    of_program = {name: parameter.default for name, parameter in inspect.signature(Pipeline).parameters.items()}
    of_file = {name: field.default for name, field in PipelineSection.model_fields.items() if not field.is_required()}
    of_file["master"] = SparkSection.model_fields["master"].default
    assert {name: of_program[name] for name in of_file} == of_file
    assert set(of_program) - set(of_file) == {
        "name", "source", "transform", "sinks", "dead_letters", "spark_conf", "report",
    }  # fmt: skip
