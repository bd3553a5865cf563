"""Tables that are copied by a real Debezium, while everything on the way is killed; ten minutes of it are a soak."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from soak.database_changes import running
from tests.debezium_worker import DebeziumWorker

pytestmark = [pytest.mark.real, pytest.mark.slow]

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "cdc.md"
#: What is of one machine, and what the guide leaves to Kafka Connect and to the tests.
OF_THE_MACHINE = {
    "bootstrap.servers", "plugin.path", "offset.storage.file.filename", "database.hostname", "database.port",
    "database.user", "database.password", "database.dbname",
}  # fmt: skip


def properties(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if line)


def test_tables_under_random_changes_are_copied_row_by_row_whoever_is_killed(tmp_path: Path) -> None:
    with running(tmp_path) as world:
        told = world.run(60.0, 4, random.Random(7))
    assert told.startswith("4 kills")
    assert told.endswith("source and copies are equal")


def test_the_connector_runs_with_what_the_guide_says_of_it() -> None:
    blocks = re.findall(r"^```properties\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    address = "host=localhost port=5432 user=debezium password=p dbname=shop"
    worker = DebeziumWorker("localhost:9092", address, prefix="shop", schemas=True)
    try:
        used = [properties(file.read_text()) for file in worker.files]
    finally:
        worker.close()
    told = [
        {name: value for name, value in properties(block).items() if name not in OF_THE_MACHINE} for block in blocks
    ]
    assert told == [
        {name: in_file.get(name) for name in in_guide} for in_guide, in_file in zip(told, used, strict=True)
    ]
    assert all(told)
