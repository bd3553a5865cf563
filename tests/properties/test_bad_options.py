"""Whatever stands in a pipeline file or in an option: it is accepted, or it is an OptionError that says what is wrong.

Nothing here starts Spark or asks a broker. Values are those that somebody types, and those of whom nobody thought:
numbers of 5,000 digits, digits of other scripts, JSON a thousand levels deep, NUL, halves of characters. They are the
same ones each time: 20,000 in `make test-all`, fewer in `make test`.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.hostile import HOSTILE, assert_harmless

from directkafka.errors import OptionError
from directkafka.offsets import TopicPartition
from directkafka.options.client import ClientOptions, client_specs
from directkafka.options.consumer import Assign, ConsumerOptions, Subscribe, SubscribePattern
from directkafka.options.limits import RatePolicy, rate_specs
from directkafka.options.positions import read_position
from directkafka.options.producer import SinkOptions, TransactionOptions, producer_specs, sink_specs
from directkafka.options.source import SourceOptions, option_table
from directkafka.pipeline.file import PipelineSection, SparkSection, TransformSection, parse_duration_ms, parse_trigger
from directkafka.pipeline.pipeline import Pipeline
from directkafka.plain_text import message
from directkafka.sinks.registry import own_types, sink_type

Test = TypeVar("Test", bound=Callable[..., None])

PATIENCE_S = 120
#: Of pipeline files and of options each.
FEW, MANY = 200, 10_000


def examples(count: int) -> Callable[[Test], Test]:
    return settings(
        max_examples=count, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )


DIGITS = st.sampled_from(
    ["0", "1", "-1", "-2", "00005", "4294967296", *("9" * count for count in (18, 19, 25, 400, 5000))]
)
WORDS = st.sampled_from(
    [
        "earliest",
        "latest",
        "committed",
        "committed-or-latest",
        "-10",
        "-1000",
        "true",
        "FALSE",
        "https",
        "none",
        "SASL_SSL",
        "SSL",
        "PEM",
        "PLAIN",
        "OAUTHBEARER",
        "SCRAM-SHA-256",
        "read_committed",
        "localhost:9092",
        "[::1]:9092",
        "a..b:1",
        ":9092",
        "host:99999",
        "1s",
        "٣s",
        "1e5s",
        "5min",
        "1.5h",
        "-10minutes",
        "flights",
        "a,b",
        "^air-.*$",
        "(a+)+$",
        "(",
        "[",
        "(?P<x>a)(?P<x>b)",
        "a{99999999999999999999}",
        "\\",
        "*",
        "..",
        "all",
        "1_000",
        "0x10",
        "NaN",
        "inf",
        "1e999",
        "append",
        "upsert",
        "merge",
        "replace",
        "ignore",
        "module:function",
        "${HOME}",
        "$${HOME}",
        "${NOT_SET}",
        "postgresql://h/db",
        "host=h",
        "available-now",
        "structured",
        "default",
        "dead_letters",
        "source",
        ".",
        "/",
        "\x00",
        "a.b.c",
        '"a"."b"',
        '"a',
    ]
)
DEEP = st.sampled_from(["[" * 3_000, '{"t":' * 2_000 + "1" + "}" * 2_000, "(" * 2_000 + ")" * 2_000])
NAMES = st.sampled_from(["flights", "0", "1", "-1", "٣", "9" * 5000, "a\0b", "\ud800", "..", "n" * 300, "kafka.acks"])
JSON_TEXTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["latest", "x", "\ud800", "9" * 5000]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
).map(json.dumps)
LONG_JSON = st.sampled_from(['{"flights": {"0": ' + "9" * 5000 + "}}", '{"flights": {"' + "9" * 5000 + '": 1}}'])
PEM = st.sampled_from(["-----BEGIN CERTIFICATE-----\né\n-----END CERTIFICATE-----", "-----BEGIN KEY-----"])
HOSTILE_TEXTS = st.sampled_from([text for name, text in HOSTILE.items() if len(text) < 1_000])
UNITS = st.sampled_from(["ms", " s", "m", ".h", ".5 d", "\tyears", ""])
DURATIONS = st.tuples(DIGITS, UNITS).map("".join)
TEXTS = WORDS | DIGITS | JSON_TEXTS | LONG_JSON | DEEP | PEM | HOSTILE_TEXTS | DURATIONS | st.text(max_size=8)
VALUES = TEXTS | st.integers() | st.just(10**6000) | st.booleans() | st.none() | st.floats() | st.just(b"x")

CLIENT_NAMES = [spec.name for spec in client_specs()]
SOURCE_NAMES = [spec.name for spec in option_table() if spec.name not in CLIENT_NAMES]
PRODUCER_NAMES = [spec.name for spec in producer_specs()]
RATE_NAMES = [spec.name for spec in rate_specs()]
WITH_PREFIX = [f"kafka.{name}" for name in (*CLIENT_NAMES, *PRODUCER_NAMES, "group.id", "transactional.id")]


def options_of(*names: str) -> st.SearchStrategy[dict[Any, Any]]:
    """A few options of these names, and now and then of one that nobody has."""
    return st.dictionaries(st.sampled_from([*names] * 8) | NAMES, VALUES, max_size=2)


SOURCES = st.builds(
    lambda wrong, base: {**base, **wrong},
    options_of(*SOURCE_NAMES, *WITH_PREFIX),
    st.sampled_from([{"kafka.bootstrap.servers": "localhost:9092", "subscribe": "flights"}] * 7 + [{}]),
)
PARAMS = st.builds(
    lambda wrong: {"bootstrap.servers": "localhost:9092", **wrong},
    options_of(*CLIENT_NAMES, *PRODUCER_NAMES, "group.id", "auto.offset.reset", "acks", "transaction.timeout.ms"),
)
OFFSETS = st.none() | st.dictionaries(st.builds(TopicPartition, NAMES, st.integers()), st.integers(), max_size=2)
TRIGGERS = TEXTS | st.dictionaries(st.sampled_from(["delay", "records", "at_most", "x"]), VALUES, max_size=2) | VALUES
CALLS: st.SearchStrategy[Callable[[], object]] = st.one_of(
    SOURCES.map(lambda given: lambda: SourceOptions.parse(given, streaming=True)),
    SOURCES.map(lambda given: lambda: SourceOptions.parse(given, streaming=False)),
    options_of(*(spec.name for spec in sink_specs()), *WITH_PREFIX).map(
        lambda given: lambda: SinkOptions.parse({"kafka.bootstrap.servers": "localhost:1"} | given)
    ),
    PARAMS.map(lambda given: lambda: ClientOptions.from_kafka_params(given)),
    PARAMS.map(lambda given: lambda: TransactionOptions.from_kafka_params(given)),
    st.builds(
        lambda strategy, what, given, offsets: lambda: ConsumerOptions.read(strategy(what, given, offsets)),
        st.sampled_from([Subscribe, SubscribePattern, Assign]),
        VALUES | st.lists(VALUES, max_size=2) | st.lists(st.builds(TopicPartition, NAMES, st.integers()), max_size=2),
        PARAMS,
        OFFSETS,
    ),
    options_of(*RATE_NAMES).map(lambda given: lambda: RatePolicy.from_spark_conf(given)),
    TRIGGERS.map(lambda given: lambda: parse_trigger(given)),
    VALUES.map(lambda given: lambda: parse_duration_ms(given, option="trigger")),
    VALUES.map(lambda given: lambda: read_position(given, option="start")),
)


def refusal(function: Callable[[], object]) -> OptionError | None:
    """The error of a call that is refused; every other error than ours ends the test."""
    try:
        function()
    except OptionError as error:
        refused = error
    else:
        return None
    assert refused.option
    assert refused.reason
    assert_harmless(message(str(refused)))
    return refused


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    """Settings that are passed over are logged, here by the thousand."""
    logger = logging.getLogger("directkafka.options")
    before, logger.disabled = logger.disabled, True
    yield
    logger.disabled = before


@examples(FEW)
@given(CALLS)
def test_an_option_is_accepted_or_told(call: Callable[[], object]) -> None:
    refusal(call)


@pytest.mark.slow
@examples(MANY)
@given(CALLS)
def test_10_000_options_are_accepted_or_told(call: Callable[[], object]) -> None:
    refusal(call)


# Pipeline files.

GOOD: dict[str, Any] = {
    "pipeline": {"name": "flights", "trigger": "1s"},
    "source": {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "flights"},
    "transform": {"sql": "SELECT 1"},
    "sink": [{"type": "sqlite", "path": "air.db", "table": "flights"}],
}
SECTIONS: dict[str, type[BaseModel]] = {
    "pipeline": PipelineSection,
    "spark": SparkSection,
    "transform": TransformSection,
}
FIELDS = {
    **{name: [field.alias or own for own, field in model.model_fields.items()] for name, model in SECTIONS.items()},
    **{
        name: ["type", "from", *(sink.SECTION_NAMES.get(own, own) for own in sink.__pydantic_fields__)]
        for name, sink in ((name, cast("Any", sink_type(name))) for name in own_types())
    },
}
#: What TOML can write: no lone surrogates, no null, no bytes.
TOML_TEXTS = TEXTS.map(lambda text: text.encode(errors="replace").decode())
TOML_NUMBERS = st.integers() | st.just(10**4000) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
TOML_VALUES = st.recursive(
    TOML_TEXTS | TOML_NUMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=4,
)


@st.composite
def sections(draw: st.DrawFn, name: str, base: Mapping[str, Any]) -> dict[str, Any]:
    """A section with a few values changed, taken out, or of names that it may not have."""
    wrong = draw(st.dictionaries(st.sampled_from([*FIELDS[name] * 4, "tabel", "a.b", "é"]), TOML_VALUES, max_size=3))
    left_out = draw(st.sets(st.sampled_from(sorted(base)), max_size=1)) if base else set()
    return {key: value for key, value in {**base, **wrong}.items() if key not in left_out}


NEEDED: dict[str, dict[str, Any]] = {
    "postgres": {"dsn": "host=db", "table": "flights"},
    "sqlite": {"path": "air.db", "table": "flights"},
    "duckdb": {"path": "air.duckdb", "table": "flights"},
    "kafka": {"kafka.bootstrap.servers": "localhost:9092", "topic": "air"},
    "files": {"path": "air"},
    "delta": {"path": "air-delta"},
}
SINKS = st.sampled_from(sorted(NEEDED)).flatmap(lambda name: sections(name, {"type": name, **NEEDED[name]}))


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    content = copy.deepcopy(GOOD)
    changed = draw(st.sets(st.sampled_from([*SECTIONS, "source", "sink", "dead_letters", "top"]), max_size=3))
    for name in sorted(changed & SECTIONS.keys()):
        content[name] = draw(sections(name, content.get(name, {})))
    if "source" in changed:
        names = st.sampled_from([*SOURCE_NAMES, *WITH_PREFIX, "subscirbe"])
        content["source"] |= draw(st.dictionaries(names, TOML_TEXTS | TOML_NUMBERS | TOML_VALUES, max_size=3))
    if "sink" in changed:
        content["sink"] = draw(st.lists(SINKS, min_size=1, max_size=2))
    if "dead_letters" in changed:
        content["dead_letters"] = draw(SINKS)
    if "top" in changed:
        content[draw(st.sampled_from([*content, "snik", "sinks", "a.b"]))] = draw(TOML_VALUES)
    return content


def toml(value: Any) -> str:
    """A value inline. JSON's escapes are TOML's, but for this one of ASCII."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(name)} = {toml(entry)}" for name, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int) and not isinstance(value, bool):
        return hex(value) if value > 10**4000 - 1 else str(value)
    return str(value).lower()


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A file; now and then with a byte changed, cut short, or of another kind altogether."""
    text = "\n".join(f"{toml(name)} = {toml(value)}" for name, value in draw(documents()).items())
    content = text.encode()
    match draw(st.sampled_from("asisasisasis" + "bcde")):
        case "b":
            position = draw(st.integers(0, len(content)))
            return content[:position] + draw(st.binary(min_size=1, max_size=3)) + content[position:]
        case "c":
            return content[: draw(st.integers(0, len(content)))]
        case "d":
            return draw(st.binary(max_size=50))
        case "e":
            deep = st.sampled_from(["x = " + "[" * 5000, "a." * 5000 + "b = 1", "x = " + "9" * 5000, "x = 2020-13-45"])
            return draw(deep).encode() + b"\n" + content
    return content


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working directory for relative paths; nothing may be made in it."""
    folder, before = tmp_path_factory.mktemp("bad"), Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)
    assert [path.name for path in folder.iterdir() if path.name != "pipeline.toml"] == []


def read(folder: Path, content: bytes) -> OptionError | None:
    path = folder / "pipeline.toml"
    path.write_bytes(content)
    return refusal(lambda: Pipeline.from_toml(path))


@examples(FEW)
@given(files())
def test_a_pipeline_file_is_accepted_or_told(folder: Path, content: bytes) -> None:
    read(folder, content)


@pytest.mark.slow
@examples(MANY)
@given(files())
def test_10_000_pipeline_files_are_accepted_or_told(folder: Path, content: bytes) -> None:
    read(folder, content)


def test_a_good_file_is_accepted_as_it_is_written_here(folder: Path) -> None:
    content = "\n".join(f"{toml(name)} = {toml(value)}" for name, value in GOOD.items())
    assert read(folder, content.encode()) is None


def refused_files(folder: Path, count: int) -> list[bytes]:
    """So many of the files that are refused, no two for the same reason."""
    contents: dict[str, bytes] = {}

    @examples(20 * count)
    @given(files())
    def look(content: bytes) -> None:
        error = read(folder, content)
        if error is not None:
            contents.setdefault(error.reason[:30], content)

    look()
    assert len(contents) >= count
    return list(contents.values())[:count]


def exit_of(path: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "directkafka", "check", str(path), "--format", "json"],
        capture_output=True, timeout=PATIENCE_S, check=False, text=True, encoding="utf-8",
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("count", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_what_is_refused_ends_the_command_with_2_and_no_traceback(folder: Path, tmp_path: Path, count: int) -> None:
    for number, content in enumerate(refused_files(folder, count)):
        path = tmp_path / f"{number}.toml"
        path.write_bytes(content)
        code, stdout, stderr = exit_of(path)
        assert (code, stdout) == (2, ""), stderr
        assert stderr.startswith("error ")
        assert "Traceback" not in stderr
        assert_harmless(stderr)
