"""What the guide to payloads says of a registry and of writing, as it stands there, with a registry of the test's."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from tests.contract.kafka_harness import wait_until_stable
from tests.registry_server import running

import directkafka as dk
from directkafka.testing import KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

GUIDE = (Path(__file__).parents[3] / "docs" / "guide" / "payloads.md").read_text()
CLEAN_CLICK: dict[str, Any] = {
    "type": "record",
    "name": "CleanClick",
    "fields": [{"name": "user", "type": ["null", "string"]}, {"name": "page", "type": ["null", "string"]}],
}
SOURCE = """
[pipeline]
name = "{topic}"
trigger = "available-now"

[source]
"kafka.bootstrap.servers" = "{servers}"
subscribe = "{source}"
startingOffsets = "earliest"

[source.value]
format = "json"
schema = "page STRING"

[transform]
sql = '''{query}'''

{sink}
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)


def test_what_the_pipeline_of_the_guide_has_written_is_read_by_its_reader(
    spark: SparkSession,
    kafka_broker: KafkaBroker,
    create_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers, source, topic = kafka_broker.bootstrap_servers, create_topic(1), create_topic(1)
    producer = Producer({"bootstrap.servers": servers})
    for user in ("ann", "bob"):
        producer.produce(source, f'{{"page": "/{user}"}}', user)
    assert producer.flush(60) == 0
    monkeypatch.setenv("KAFKA", servers)
    [sink] = [block for block in blocks("text") if block.startswith("[[sink]]")]
    [query] = blocks("sql")
    [reader] = [block for block in blocks("python") if "versions = (" in block]
    with running() as registry:
        registry.add(7, CLEAN_CLICK)
        registry.add_version(f"{topic}-value", "latest", 7, CLEAN_CLICK)
        sink = sink.replace("clean-clicks", topic).replace("https://registry:8081", registry.url)
        file = tmp_path / "clicks.toml"
        file.write_text(SOURCE.format(servers=servers, source=source, topic=topic, query=query, sink=sink))
        dk.Pipeline.from_toml(file).run()
        wait_until_stable(servers, topic)
        session = spark.newSession()
        dk.register(session)
        names: dict[str, Any] = {"spark": session}
        changed = {"localhost:9092": servers, '"flights"': f'"{topic}"', "https://registry:8081": registry.url}
        for there, here in {**changed, "# clicks": "clicks"}.items():
            assert there in reader
            reader = reader.replace(there, here)
        exec(compile(reader, "payloads.md", "exec"), names)
        rows = names["clicks"].orderBy("value.user").select("value.*", "value_schema_id").collect()
        assert [tuple(row) for row in rows] == [("ann", "/ann", 7), ("bob", "/bob", 7)]
        assert "Basic bmFtZTpwYXNzd29yZA==" in registry.logins
