"""Types of sinks by name: those of this package, and one of a package that is installed beside it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from directkafka.errors import OptionError
from directkafka.pipeline.file import load
from directkafka.sinks import registry
from directkafka.sinks.api import Sink
from directkafka.sinks.config import SinkConfig
from directkafka.sinks.files.sink import FilesSink
from directkafka.sinks.registry import own_types, sink_type, store_at

MODULE = """
from dataclasses import KW_ONLY
from typing import Annotated
from pydantic import Field
from directkafka.sinks.api import Sink
from directkafka.sinks.config import SinkConfig, sink_config

@sink_config
class MineConfig(SinkConfig):
    path: Annotated[str, Field(description="Where the rows go.")]
    _: KW_ONLY
    retries: Annotated[int, Field(ge=0, description="How often.")] = 3

class MineSink(MineConfig, Sink):
    "Rows into a place of mine."
    name = store = check = prepare = task_writer = apply = recount = None

class Plain: ...
"""
FILE = """
[pipeline]
name = "flights"
[source]
"kafka.bootstrap.servers" = "b:1"
subscribe = "flights"
[transform]
sql = "SELECT 1"
[[sink]]
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with three types of sinks, one good and two bad, as pip installs it."""
    (tmp_path / "mine_sinks.py").write_text(MODULE)
    metadata = tmp_path / "mine_sinks-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mine-sinks\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[directkafka.sinks]\nmine = mine_sinks:MineSink\nplain = mine_sinks:Plain\ngone = mine_sinks:Gone\n"
        "postgres = mine_sinks:MineSink\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._others.cache_clear()
    yield
    registry._others.cache_clear()
    sys.modules.pop("mine_sinks", None)


@pytest.mark.parametrize("name", own_types())
def test_a_type_of_this_package_is_a_sink_with_a_configuration(name: str) -> None:
    sink_class = sink_type(name)
    assert issubclass(sink_class, Sink)
    assert issubclass(sink_class, SinkConfig)
    assert sink_class.__doc__ is not None
    assert all(f"\n    {argument}: " in sink_class.__doc__ for argument in sink_class.__pydantic_fields__)


def test_a_former_name_is_the_same_type() -> None:
    assert sink_type("parquet") is sink_type("files") is FilesSink


@pytest.mark.usefixtures("installed")
def test_a_package_s_type_is_named_in_a_pipeline_file(tmp_path: Path) -> None:
    path = tmp_path / "flights.toml"
    path.write_text(FILE + 'type = "mine"\npath = "here"\nretries = 5\n')
    ((sink,), dead_letters) = (load(path).sinks()[0]["default"], load(path).sinks()[1])
    assert (type(sink).__name__, sink.path, sink.retries, dead_letters) == ("MineSink", "here", 5, None)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("installed")
def test_its_mistakes_are_told_like_those_of_any_sink(tmp_path: Path) -> None:
    path = tmp_path / "flights.toml"
    path.write_text(FILE + 'type = "mine"\npaht = "here"\nretries = -1\n')
    with pytest.raises(OptionError) as caught:
        load(path)
    told = str(caught.value)
    assert "sink.0.paht" in told
    assert "did you mean 'path'" in told
    assert re.search(r"sink\.0\.retries.*line 12: Input should be greater than or equal to 0", told)


@pytest.mark.usefixtures("installed")
def test_nobody_takes_the_place_of_a_type_of_this_package() -> None:
    assert sink_type("postgres").__name__ == "PostgresSink"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("plain", "mine-sinks names mine_sinks:Plain, which is no directkafka.Sink with a SinkConfig"),
        ("gone", "mine-sinks names mine_sinks:Gone, which cannot be imported: AttributeError"),
        ("mime", r"expected one of 'postgres', .*'mine'.*found 'mime'; did you mean 'mine'"),
        (None, r"this name is missing; expected one of 'postgres'"),
    ],
)
def test_what_cannot_be_used_is_told_with_who_named_it(name: str | None, reason: str) -> None:
    with pytest.raises(OptionError, match=reason) as caught:
        sink_type(name)
    assert caught.value.option == "type"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@far/air", "PostgresStore('postgres far:5432/air')"),
        ("postgres://me:secret@far/air", "PostgresStore('postgres far:5432/air')"),
        ("postgresql://bücher.example/air", "PostgresStore('postgres bücher.example:5432/air')"),
        ("mysql://me:secret@far/air", "MySQLStore('mysql far:3306/air')"),
        ("sqlite:/data/air.db", "SQLiteStore('/data/air.db')"),
        ("duckdb:/data/air.db", "DuckDBStore('/data/air.db')"),
        ("files:/data/air", "FilesStore('/data/air')"),
        ("delta:/data/air", "DeltaStore('/data/air')"),
        ("kafka://far:9092,near:9093", "KafkaStore('kafka far:9092,near:9093')"),
    ],
)
def test_a_store_is_found_by_its_url(url: str, shown: str) -> None:
    store = store_at(url)
    assert repr(store) == shown
    store.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("/data/air.db", "it has no scheme; expected one like postgresql://HOST/DATABASE"),
        ("oracle:secret", "'oracle' is none of its schemes: postgresql, sqlite, duckdb, kafka, files, delta, mysql"),
        ("sqlite:", "expected the path of a file on this machine, found nothing"),
        ("kafka://far", "far"),
        ("kafka://me:secret@far:9092", "takes no user: name a pipeline file instead"),
        ("host=far password=secret:x", "it has no scheme"),
        ("sqlite:" + "n" * 300, "a part of it has 300 bytes; 255 is the most"),
        ("files:a/" + "ü" * 128, "a part of it has 256 bytes; 255 is the most"),
        ("postgresql://a\u202eb:1,near/air", "has a host whose name no name server takes"),
        ("mysql://" + "n" * 300 + "/air", "has a host whose name no name server takes"),
        ("postgresql://far/air?secret", "is not a Postgres connection string"),
    ],
)
def test_a_url_that_is_none_is_refused_and_not_repeated(url: str, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)) as raised:
        store_at(url)
    assert "secret" not in str(raised.value)


@pytest.mark.usefixtures("installed")
def test_a_type_of_another_package_may_have_no_url() -> None:
    with pytest.raises(OptionError, match=r"the store of a MineSink has no URL: name a pipeline file"):
        store_at("mine:/data/air")
