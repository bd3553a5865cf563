"""``python -m tests.recorded.record_registry``: what Apicurio Registry answers, written down for the quick tests.

Confluent's own serializers register the schemas and write the records. Run it again when the registry changes.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.flight_schemas import AVRO, FLIGHT, JSON, PROTO, WIDER
from tests.protobuf_records import compiled, message_class

from directkafka.testing import SchemaRegistry
from directkafka.testing.schema_registry import APICURIO_VERSION

FILE = Path(__file__).with_name("apicurio.json")
#: Asked of it, and there is none.
MISSING = ("/schemas/ids/999", "/subjects/nobody-value/versions/latest", "/subjects/avro-value/versions/77")


def record() -> dict[str, Any]:
    """Its answers by path, and records by topic."""
    with SchemaRegistry(progress=print) as registry, SchemaRegistryClient({"url": registry.url}) as client:
        records = {"avro": _avro(client), "reference": _reference(client), "protobuf": _protobuf(client)}
        write = JSONSerializer(json.dumps(JSON), client)
        value = {"id": 1, "carrier": None, "legs": ["JFK"]}
        records["json"] = [write(value, SerializationContext("json", MessageField.VALUE))]
        subjects = json.loads(_answer(registry.url, "/subjects")[1])
        paths = [f"/subjects/{name}/versions/{version}" for name in subjects for version in ("latest", "1")]
        paths += [f"/schemas/ids/{number}" for number in range(1, 20)] + list(MISSING)
        answers = {path: _answer(registry.url, path) for path in paths}
    encoded = {topic: [base64.b64encode(value).decode() for value in values] for topic, values in records.items()}
    return {"version": APICURIO_VERSION, "answers": answers, "records": encoded}


def _avro(client: SchemaRegistryClient) -> list[bytes]:
    context = SerializationContext("avro", MessageField.VALUE)
    old, new = (AvroSerializer(client, json.dumps(schema)) for schema in (AVRO, WIDER))
    return [old(FLIGHT, context), new({**FLIGHT, "id": 2, "gate": "A7"}, context)]


def _reference(client: SchemaRegistryClient) -> list[bytes]:
    airport = {"type": "record", "name": "Airport", "namespace": "air", "fields": [{"name": "code", "type": "string"}]}
    leg = {"type": "record", "name": "Leg", "fields": [{"name": "to", "type": "air.Airport"}]}
    client.register_schema("airport", Schema(json.dumps(airport), "AVRO"))
    schema = Schema(json.dumps(leg), "AVRO", [SchemaReference("air.Airport", "airport", 1)])
    client.register_schema("reference-value", schema)
    write = AvroSerializer(client, schema, conf={"auto.register.schemas": False, "use.latest.version": True})
    return [write({"to": {"code": "JFK"}}, SerializationContext("reference", MessageField.VALUE))]


def _protobuf(client: SchemaRegistryClient) -> list[bytes]:
    flight = message_class(compiled(PROTO), "air.Flight")
    write = ProtobufSerializer(flight, client, {"use.deprecated.format": False})
    message = flight(id=1, carrier="UA", legs=["JFK"], miles={"JFK": 7})
    return [write(message, SerializationContext("protobuf", MessageField.VALUE))]


def _answer(url: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url + path) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


if __name__ == "__main__":
    FILE.write_text(json.dumps(record(), indent=1, ensure_ascii=False) + "\n")
    print(FILE)
