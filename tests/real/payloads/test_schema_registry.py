"""A real registry, and records that Confluent's own serializers have written: each is read as it was meant."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession
from tests.contract.kafka_harness import read_committed
from tests.flight_schemas import AVRO, FLIGHT, JSON, PROTO, WIDER
from tests.protobuf_records import compiled, message_class
from tests.real.kafka.logs import produce

import directkafka as dk
from directkafka.testing import KafkaBroker, SchemaRegistry

# The server has 142 MB.
pytestmark = [pytest.mark.real, pytest.mark.slow]

#: The ids of the flights that are written as a record's key and as its value.
PARTS = {7: MessageField.KEY, 8: MessageField.VALUE}


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


@pytest.fixture
def client(registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


@pytest.fixture
def topic(create_topic: Callable[..., str]) -> str:
    return create_topic()


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def rows_of(
    spark: SparkSession, broker: KafkaBroker, registry: SchemaRegistry, topic: str, form: str, **more: str
) -> list[Any]:
    session = spark.newSession()
    dk.register(session)
    reader = session.read.format("directkafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    given = {"subscribe": topic, "value.format": form, "value.registry.url": registry.url}
    for name, text in {**given, **{name.replace("__", "."): text for name, text in more.items()}}.items():
        reader = reader.option(name, text)
    rows = reader.load().orderBy("offset").collect()
    return [None if row.value is None else row.value.asDict(True) for row in rows]


def test_avro_of_two_versions(
    spark: SparkSession, kafka_broker: KafkaBroker, registry: SchemaRegistry, client: SchemaRegistryClient, topic: str
) -> None:
    old, new = (AvroSerializer(client, json.dumps(schema)) for schema in (AVRO, WIDER))
    records = [old(FLIGHT, value_of(topic)), new({**FLIGHT, "id": 2, "gate": "A7"}, value_of(topic)), None]
    produce(kafka_broker.bootstrap_servers, topic, records)
    row = FLIGHT | {"at": FLIGHT["at"].replace(tzinfo=None)}  # type: ignore[attr-defined]
    assert rows_of(spark, kafka_broker, registry, topic, "avro") == [
        {**row, "gate": "?"}, {**row, "id": 2, "gate": "A7"}, None,
    ]  # fmt: skip
    # The first version has no gate.
    assert rows_of(spark, kafka_broker, registry, topic, "avro", value__registry__version="1") == [
        row, {**row, "id": 2}, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        (topic_subject_name_strategy, "{topic}-{part}"),
        (record_subject_name_strategy, "air.Flight"),
        (topic_record_subject_name_strategy, "{topic}-air.Flight"),
    ],
    ids=["topic", "record", "topic and record"],
)
def test_a_subject_of_keys_and_values_by_each_strategy(
    strategy: Callable[[SerializationContext, str], str],
    subject: str,
    spark: SparkSession,
    kafka_broker: KafkaBroker,
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
) -> None:
    write = AvroSerializer(client, json.dumps(AVRO), conf={"subject.name.strategy": strategy})
    key, value = (write({**FLIGHT, "id": number}, SerializationContext(topic, part)) for number, part in PARTS.items())
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    producer.produce(topic, key=key, value=value)
    assert producer.flush(60) == 0
    session = spark.newSession()
    dk.register(session)
    options = {"kafka.bootstrap.servers": kafka_broker.bootstrap_servers, "subscribe": topic}
    for part in ("key", "value"):
        named = subject.format(topic=topic, part=part)
        options |= {f"{part}.format": "avro", f"{part}.registry.url": registry.url, f"{part}.registry.subject": named}
    [row] = session.read.format("directkafka").options(**options).load().collect()
    assert [(part.id, part.fare) for part in (row.key, row.value)] == [(7, Decimal("12.50")), (8, Decimal("12.50"))]


def test_a_schema_that_refers_to_another_one(
    spark: SparkSession, kafka_broker: KafkaBroker, registry: SchemaRegistry, client: SchemaRegistryClient, topic: str
) -> None:
    from confluent_kafka.schema_registry import Schema, SchemaReference

    airport = {"type": "record", "name": "Airport", "namespace": "air", "fields": [{"name": "code", "type": "string"}]}
    flight = {"type": "record", "name": "Leg", "fields": [{"name": "to", "type": "air.Airport"}]}
    client.register_schema(f"{topic}-airport", Schema(json.dumps(airport), "AVRO"))
    reference = SchemaReference("air.Airport", f"{topic}-airport", 1)
    schema = Schema(json.dumps(flight), "AVRO", [reference])
    client.register_schema(f"{topic}-value", schema)
    write = AvroSerializer(client, schema, conf={"auto.register.schemas": False, "use.latest.version": True})
    produce(kafka_broker.bootstrap_servers, topic, [write({"to": {"code": "JFK"}}, value_of(topic))])
    assert rows_of(spark, kafka_broker, registry, topic, "avro") == [{"to": {"code": "JFK"}}]


def test_protobuf_of_a_message_that_is_not_the_file_s_first(
    spark: SparkSession, kafka_broker: KafkaBroker, registry: SchemaRegistry, client: SchemaRegistryClient, topic: str
) -> None:
    kind = message_class(compiled(PROTO), "air.Flight")
    write = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    messages = [kind(id=1, carrier="UA", legs=["JFK"], miles={"JFK": 2**63}), kind()]
    produce(kafka_broker.bootstrap_servers, topic, [write(message, value_of(topic)) for message in messages])
    rows = rows_of(spark, kafka_broker, registry, topic, "protobuf", value__message="Flight")
    assert rows == [
        {"id": 1, "carrier": "UA", "legs": ["JFK"], "miles": {"JFK": Decimal(2**63)}},
        {"id": 0, "carrier": None, "legs": [], "miles": {}},
    ]


def test_json(
    spark: SparkSession, kafka_broker: KafkaBroker, registry: SchemaRegistry, client: SchemaRegistryClient, topic: str
) -> None:
    write = JSONSerializer(json.dumps(JSON), client, lambda value, _: value)
    values = [{"id": 1, "carrier": "UA", "legs": ["JFK"]}, {"id": 2, "carrier": None}]
    produce(kafka_broker.bootstrap_servers, topic, [write(value, value_of(topic)) for value in values])
    assert rows_of(spark, kafka_broker, registry, topic, "json") == [
        {"id": 1, "carrier": "UA", "legs": ["JFK"]}, {"id": 2, "carrier": None, "legs": None},
    ]  # fmt: skip


#: The same as :data:`AVRO`.
FIELDS = "id: BIGINT, carrier: STRING, fare: DECIMAL(9,2), on: DATE, at: TIMESTAMP, legs: ARRAY<STRING>"


def test_what_is_written_is_read_by_the_registry_s_own_deserializer(
    spark: SparkSession, kafka_broker: KafkaBroker, registry: SchemaRegistry, client: SchemaRegistryClient, topic: str
) -> None:
    """The schema is registered by the first write, and found by the second one; one that nobody knows is an error."""
    session = spark.newSession()
    dk.register(session)
    rows = session.createDataFrame([(FLIGHT,), ({**FLIGHT, "id": 2, "carrier": None},)], f"value STRUCT<{FIELDS}>")
    options = {
        "kafka.bootstrap.servers": kafka_broker.bootstrap_servers, "topic": topic, "value.format": "avro",
        "value.schema": json.dumps(AVRO), "value.registry.url": registry.url,
    }  # fmt: skip
    rows.write.format("directkafka").mode("append").options(**options, **{"value.registry.register": "true"}).save()
    rows.write.format("directkafka").mode("append").options(**options).save()
    read = AvroDeserializer(client, json.dumps(AVRO))
    values = [record.value for record in read_committed(kafka_broker.bootstrap_servers, topic)]
    flights = [read(value, value_of(topic)) for value in values]
    assert sorted(row["id"] for row in flights) == [1, 1, 2, 2]
    assert {row["fare"] for row in flights} == {Decimal("12.50")}
    other = json.dumps({"type": "record", "name": "Other", "fields": [{"name": "id", "type": "string"}]})
    strings = rows.selectExpr("struct(CAST(value.id AS STRING) AS id) AS value").write.format("directkafka")
    with pytest.raises(Exception, match="does not have the given schema under the subject"):
        strings.mode("append").options(**options | {"value.schema": other}).save()


def test_a_message_that_is_written_is_read_by_the_registry_s_own_deserializer(
    spark: SparkSession, kafka_broker: KafkaBroker, registry: SchemaRegistry, topic: str
) -> None:
    """Also the one of a schema that the registry has, which the second write takes."""
    session = spark.newSession()
    dk.register(session)
    fields = "id: BIGINT, carrier: STRING, legs: ARRAY<STRING>, miles: MAP<STRING, DECIMAL(20,0)>"
    row = {"id": 1, "carrier": "UA", "legs": ["JFK"], "miles": {"JFK": Decimal(2**63)}}
    rows = session.createDataFrame([(row,)], f"value STRUCT<{fields}>")
    options = {
        "kafka.bootstrap.servers": kafka_broker.bootstrap_servers, "topic": topic, "value.format": "protobuf",
        "value.message": "air.Flight", "value.registry.url": registry.url,
    }  # fmt: skip
    own = {"value.schema": PROTO, "value.registry.register": "true"}
    rows.write.format("directkafka").mode("append").options(**options, **own).save()
    rows.write.format("directkafka").mode("append").options(**options).save()
    read = ProtobufDeserializer(message_class(compiled(PROTO), "air.Flight"), {"use.deprecated.format": False})
    values = [record.value for record in read_committed(kafka_broker.bootstrap_servers, topic)]
    assert values[0] == values[1]
    message = read(values[0], value_of(topic))
    assert (message.id, message.carrier, list(message.legs), dict(message.miles)) == (1, "UA", ["JFK"], {"JFK": 2**63})
