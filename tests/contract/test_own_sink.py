"""The example of a store and a sink in a package of their own: the contract, and a pipeline file that names it."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from directkafka.testing import KafkaBroker
from directkafka.testing.store_contract import StoreContract

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_sink"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as pip installs it."""
    folder = tmp_path_factory.mktemp("own_sink")
    source = folder / "source"
    subprocess.run(["cp", "-r", str(EXAMPLE), str(source)], check=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--target", str(folder / "site"), str(source)], check=True)
    return folder / "site"


@pytest.fixture
def json_book(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(installed))
    yield importlib.import_module("json_book")
    sys.modules.pop("json_book", None)


@dataclass(frozen=True)
class BookHarness:
    module: Any
    path: Path

    def open_store(self) -> Any:
        return self.module.JsonBookStore(str(self.path))

    def sink(self, table: str, *, mode: str = "append", order: Sequence[str] = (), staged: bool = False) -> Any:
        assert mode == "append"
        return self.module.JsonBookSink(str(self.path), table)

    def rows(self, sink: Any) -> list[tuple[Any, ...]]:
        page = sink.store.read_book()["pages"].get(sink.name, {"rows": []})
        return sorted(tuple(row.values()) for row in page["rows"])

    def leftovers(self) -> list[str]:
        return [path.name for path in self.path.parent.glob("*.draft")]


class TestJsonBookStore(StoreContract):
    @pytest.fixture
    def harness(self, json_book: Any, tmp_path: Path) -> Any:
        return BookHarness(json_book, tmp_path / "book.json")


def test_the_example_is_under_150_lines() -> None:
    lines = sum(len(path.read_text().splitlines()) for path in EXAMPLE.rglob("*.py"))
    assert lines < 150


@pytest.mark.real
@pytest.mark.slow
def test_a_pipeline_file_names_it(
    installed: Path, kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = create_topic(2)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for number in range(100):
        producer.produce(topic, str(number).encode(), partition=number % 2)
    producer.flush()
    file = tmp_path / "pipeline.toml"
    file.write_text((EXAMPLE / "pipeline.toml").read_text().replace('subscribe = "clicks"', f'subscribe = "{topic}"'))
    book = tmp_path / "clicks.json"
    env = os.environ | {"KAFKA": kafka_broker.bootstrap_servers, "BOOK": str(book), "PYTHONPATH": str(installed)}
    for command in ("check", "run", "run", "verify"):
        done = subprocess.run(
            [sys.executable, "-m", "directkafka", command, str(file)],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    clicks = [int(row["click"]) for row in json.loads(book.read_text())["pages"]["clicks"]["rows"]]
    assert sorted(clicks) == list(range(100))
