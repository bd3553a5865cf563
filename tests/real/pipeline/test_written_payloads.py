"""Rows that become Avro and JSON on their way into a topic, under a registry: in pipelines, and by the plain writer."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession
from tests.contract.kafka_harness import read_committed, wait_until_stable
from tests.real.pipeline.conftest import COUNT, World
from tests.registry_server import RegistryServer, running

import directkafka as dk
from directkafka.errors import OptionError, SchemaMismatchError
from directkafka.errors.registry import SchemaNotRegisteredError, UnencodableRowError
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Number",
    "fields": [{"name": "number", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
}
QUERY = """
    SELECT struct(CAST(CAST(value AS STRING) AS BIGINT) AS number,
                  CASE WHEN offset % 2 = 0 THEN CAST(value AS STRING) END AS name) AS value,
           struct(CAST(value AS STRING) AS text) AS key
    FROM source
"""


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with running() as server:
        yield server


def read(raw: bytes | None, number: int) -> Any:
    assert raw is not None
    assert raw[:5] == bytes([0, 0, 0, 0, number])
    return fastavro.schemaless_reader(io.BytesIO(raw[5:]), fastavro.parse_schema(AVRO), None)


@pytest.mark.parametrize(
    "inline_bytes_max", [1 << 20, pytest.param(0, marks=pytest.mark.slow)], ids=["by the driver", "by tasks"]
)
def test_a_pipeline_writes_avro_behind_its_schema_s_number(
    inline_bytes_max: int, world: World, registry: RegistryServer, create_topic: Callable[..., str]
) -> None:
    topic = create_topic(2)
    registry.add_version(f"{topic}-value", "latest", 7, AVRO)
    payloads = {"value.format": "avro", "value.registry.url": registry.url, "key.format": "json"}
    sink = dk.KafkaSink({"bootstrap.servers": world.kafka}, topic, payloads=payloads, inline_bytes_max=inline_bytes_max)
    world.pipeline(QUERY, sinks=sink, name=f"written-{topic[-8:]}").run()
    wait_until_stable(world.kafka, topic)
    records = read_committed(world.kafka, topic)
    rows = [read(record.value, 7) for record in records]
    assert sorted(row["number"] for row in rows) == list(range(COUNT))
    assert all(row["name"] in (None, str(row["number"])) for row in rows)
    # By the bytes of the key that a reader sees.
    assert {json.loads(record.key or b"")["text"] for record in records} == {str(number) for number in range(COUNT)}
    assert registry.asked == [f"/subjects/{topic}-value/versions/latest"] * len(registry.asked)


def test_rows_that_the_schema_has_no_room_for_are_refused_by_check(
    world: World, registry: RegistryServer, create_topic: Callable[..., str]
) -> None:
    topic = create_topic(1)
    registry.add_version(f"{topic}-value", "latest", 7, AVRO)
    sink = dk.KafkaSink(
        {"bootstrap.servers": world.kafka}, topic,
        payloads={"value.format": "avro", "value.registry.url": registry.url},
    )  # fmt: skip
    with pytest.raises(SchemaMismatchError, match="has a field 'name', and the rows have none"):
        world.pipeline("SELECT struct(1L AS number) AS value FROM source", sinks=sink, name=topic).check()


def test_a_schema_that_nobody_has_registered_stops_the_start(
    world: World, registry: RegistryServer, create_topic: Callable[..., str]
) -> None:
    topic = create_topic(1)
    payloads = {"value.format": "avro", "value.schema": json.dumps(AVRO), "value.registry.url": registry.url}
    sink = dk.KafkaSink({"bootstrap.servers": world.kafka}, topic, payloads=payloads)
    with pytest.raises(SchemaNotRegisteredError, match=f"{topic}-value"):
        world.pipeline(QUERY, sinks=sink, name=topic).check()
    registry.answers[f"POST /subjects/{topic}-value/versions"] = 200, {"id": 9}
    registering = dk.KafkaSink(
        {"bootstrap.servers": world.kafka}, topic, payloads={**payloads, "value.registry.register": "true"}
    )
    query = QUERY.replace(",\n           struct(CAST(value AS STRING) AS text) AS key", "")
    world.pipeline(query, sinks=registering, name=topic).run()
    wait_until_stable(world.kafka, topic)
    assert len([read(record.value, 9) for record in read_committed(world.kafka, topic)]) == COUNT


@pytest.mark.slow
def test_a_value_without_an_encoding_is_set_apart_where_that_is_asked_for(
    world: World, create_topic: Callable[..., str]
) -> None:
    topic = create_topic(1)
    schema = {**AVRO, "fields": [AVRO["fields"][0], {"name": "name", "type": "string"}]}
    query = """
        SELECT struct(CAST(CAST(value AS STRING) AS BIGINT) AS number,
                      nullif(CAST(value AS STRING), '17') AS name) AS value FROM source
    """
    sink = dk.KafkaSink(
        {"bootstrap.servers": world.kafka}, topic, payloads={"value.format": "avro", "value.schema": json.dumps(schema)}
    )
    letters = dk.PostgresSink(world.dsn, "letters")
    with pytest.raises(UnencodableRowError, match="name is null, and the schema has no null there"):
        world.pipeline(query, sinks=sink, name=topic).run()
    world.pipeline(query, sinks=sink, name=topic, dead_letters=dk.DeadLetterPolicy(letters, "isolate")).run()
    wait_until_stable(world.kafka, topic)
    assert len(read_committed(world.kafka, topic)) == COUNT - 1
    [(value, reason)] = world.query("SELECT convert_from(value, 'UTF8'), reason FROM letters")
    assert (value, reason.partition(":")[0]) == ("17", "UnencodableRowError")


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    dk.register(session)
    return session


def test_the_plain_writer_writes_the_same(
    session: SparkSession, kafka_broker: KafkaBroker, registry: RegistryServer, create_topic: Callable[..., str]
) -> None:
    topic = create_topic(1)
    registry.answers[f"POST /subjects/{topic}-value"] = 200, {"id": 3}
    frame = session.range(5).selectExpr("struct(id AS number, CAST(id AS STRING) AS name) AS value")
    options = {
        "kafka.bootstrap.servers": kafka_broker.bootstrap_servers, "topic": topic, "value.format": "avro",
        "value.schema": json.dumps(AVRO), "value.registry.url": registry.url,
    }  # fmt: skip
    frame.write.format("directkafka").options(**options).mode("append").save()
    rows = [read(record.value, 3) for record in read_committed(kafka_broker.bootstrap_servers, topic)]
    assert sorted(row["number"] for row in rows) == list(range(5))
    with pytest.raises(Exception, match="has a field 'name', and the rows have none"):
        frame.selectExpr("struct(value.number) AS value").write.format("directkafka").options(**options).mode(
            "append"
        ).save()


def test_a_pipeline_file_has_the_options_beside_the_other_names(world: World, create_topic: Callable[..., str]) -> None:
    section = {"kafka.bootstrap.servers": world.kafka, "topic": "t", "value.format": "json"}
    made = dk.KafkaSink(**dk.KafkaSink.arguments(section))
    assert made.payloads == {"value.format": "json"}
    with pytest.raises(OptionError, match=r"value\.format"):
        dk.KafkaSink({"bootstrap.servers": world.kafka}, "t", payloads={"value.format": "csv"})
