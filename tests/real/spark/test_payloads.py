"""Payloads of the format ``directkafka``: JSON and strings, typed in the task, as a batch and as a stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from tests.avro_records import written
from tests.real.kafka.logs import produce
from tests.real.spark.queries import Output, failure_of

from directkafka.errors import OptionError
from directkafka.errors.streams import MalformedPayloadError

pytestmark = pytest.mark.real

Reading = Callable[..., Any]

FIELDS = "id BIGINT, carrier STRING, at TIMESTAMP, legs ARRAY<STRUCT<`to airport`: STRING>>"
GOOD = b'{"id":%d,"carrier":"UA","at":"2013-01-01T05:15:00Z","legs":[{"to airport":"IAH"}]}'


@pytest.fixture
def flights(servers: str, create_topic: Callable[..., str]) -> str:
    """Ten flights, a tombstone, a text that is half right, and one that is none."""
    topic = create_topic(1)
    produce(servers, topic, [*(GOOD % number for number in range(10)), None, b'{"id":11,"at":"noon"}', b"nonsense"])
    return topic


def test_fields_of_json_are_columns(reading: Reading, flights: str) -> None:
    frame = reading(subscribe=flights, value__format="json", value__schema=FIELDS, value__on__error="null").load()
    assert frame.columns[-1] == "value_error"
    rows = frame.select("offset", "value.*", "value_error").orderBy("offset").collect()
    at = datetime(2013, 1, 1, 5, 15, tzinfo=UTC).replace(tzinfo=None)
    assert tuple(rows[3]) == (3, 3, "UA", at, [("IAH",)], None)
    assert tuple(rows[10]) == (10, None, None, None, None, None)
    assert tuple(rows[11])[:5] == (11, 11, None, None, None)
    assert rows[11].value_error == "at: 'noon' in place of timestamp[us, tz=UTC]"
    assert rows[12].value_error == "the word 'nonsense'"


def test_it_is_what_from_json_gives(reading: Reading, session: SparkSession, flights: str) -> None:
    ours = reading(subscribe=flights, value__format="json", value__schema=FIELDS, value__on__error="null").load()
    theirs = reading(subscribe=flights).load().withColumn("value", f.from_json(f.col("value").cast("string"), FIELDS))
    compared = [frame.select("offset", "value").orderBy("offset").collect() for frame in (ours, theirs)]
    assert compared[0] == compared[1]
    assert ours.schema["value"].dataType.simpleString() == theirs.schema["value"].dataType.simpleString()


def test_a_record_that_cannot_be_read_is_an_error_with_its_place(reading: Reading, flights: str) -> None:
    frame = reading(subscribe=flights, value__format="json", value__schema=FIELDS).load()
    with pytest.raises(Exception, match=f"topic {flights}, partition 0 at offset 11 cannot be read as json") as raised:
        frame.collect()
    assert MalformedPayloadError.__name__ in str(raised.value)


def test_columns_that_are_not_asked_for_are_not_decoded(reading: Reading, flights: str) -> None:
    options = {"value__format": "json", "value__schema": FIELDS}
    assert reading(subscribe=flights, columns="offset", **options).load().count() == 13
    errors = reading(subscribe=flights, columns="value_error", value__on__error="null", **options).load()
    assert errors.columns == ["value_error"]
    assert errors.where("value_error IS NOT NULL").count() == 2


def test_fields_of_avro_are_columns(reading: Reading, servers: str, create_topic: Callable[..., str]) -> None:
    topic = create_topic(1)
    flight = {
        "type": "record",
        "name": "Flight",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "fare", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
            {"name": "seen", "type": ["string", "null", "int"]},
            {"name": "legs", "type": {"type": "array", "items": ["null", "string"]}},
        ],
    }
    at = datetime(2013, 1, 1, 5, 15, tzinfo=UTC)
    rows = [
        {"id": 1, "at": at, "fare": Decimal("-3.50"), "seen": ("string", "by radar"), "legs": ["IAH", None]},
        {"id": 2, "at": at, "fare": Decimal("9999.99"), "seen": ("int", 7), "legs": []},
        {"id": 3, "at": at, "fare": Decimal(0), "seen": None, "legs": []},
    ]
    produce(servers, topic, [*written(flight, rows), None, b"\x02\x80"])
    options = {"value__format": "avro", "value__schema": json.dumps(flight)}
    frame = reading(subscribe=topic, value__on__error="null", **options).load()
    kinds = "id:bigint,at:timestamp,fare:decimal(6,2),seen:struct<member0:string,member1:int>,legs:array<string>"
    assert frame.schema["value"].dataType.simpleString() == f"struct<{kinds}>"
    decoded_rows = [tuple(row) for row in frame.orderBy("offset").select("value.*", "value_error").collect()]
    naive = at.replace(tzinfo=None)
    assert decoded_rows == [
        (1, naive, Decimal("-3.50"), ("by radar", None), ["IAH", None], None),
        (2, naive, Decimal("9999.99"), (None, 7), [], None),
        (3, naive, Decimal("0.00"), None, [], None),
        (None, None, None, None, None, None),
        (None, None, None, None, None, "at: the record ends in the middle of it"),
    ]
    with pytest.raises(Exception, match="at offset 4 cannot be read as avro: at: the record ends in the middle of it"):
        reading(subscribe=topic, **options).load().collect()


def test_a_key_may_be_avro_of_a_primitive_type(
    reading: Reading, servers: str, create_topic: Callable[..., str]
) -> None:
    topic = create_topic(1)
    producer = Producer({"bootstrap.servers": servers})
    for key in (b"\x02", b"\x03"):
        producer.produce(topic, b"a value", key)
    assert producer.flush(20) == 0
    frame = reading(subscribe=topic, key__format="avro", key__schema='"long"').load()
    assert sorted(row.key for row in frame.select("key").collect()) == [-2, 1]


def test_keys_and_strings(reading: Reading, servers: str, create_topic: Callable[..., str]) -> None:
    topic = create_topic(1)
    produce(servers, topic, [b"one", "zwölf".encode(), None, b"\xff\xfe"])
    frame = reading(subscribe=topic, value__format="string", value__on__error="null", key__format="string").load()
    rows = [tuple(row) for row in frame.select("key", "value", "value_error").collect()]
    assert rows == [
        (None, "one", None),
        ("key-1", "zwölf", None),
        ("key-2", None, None),
        ("key-3", None, "byte 0xff at position 0 is no UTF-8"),
    ]


def test_a_stream_s_fields_are_columns_and_a_bad_record_ends_it(
    streaming: Reading, session: SparkSession, output: Output, flights: str
) -> None:
    stream = streaming(
        subscribe=flights, startingOffsets="earliest", value__format="json", value__schema=FIELDS,
        value__on__error="null",
    ).load()  # fmt: skip
    query = stream.select("value.id").writeStream.format("memory").queryName("ids").trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert sorted(row.id for row in session.table("ids").collect() if row.id is not None) == [*range(10), 11]
    session.catalog.dropTempView("ids")
    strict = streaming(subscribe=flights, startingOffsets="earliest", value__format="json", value__schema=FIELDS).load()
    query = strict.writeStream.format("noop").trigger(availableNow=True).start()
    assert "at offset 11 cannot be read as json" in str(failure_of(query))


def test_timestamps_without_a_zone_are_of_the_session_s_or_of_the_one_that_is_given(
    reading: Reading, servers: str, create_topic: Callable[..., str]
) -> None:
    topic = create_topic(1)
    produce(servers, topic, [b'{"at":"2024-07-01T12:00:00"}'])
    options = {"value__format": "json", "value__schema": "at TIMESTAMP"}
    hours = {
        zone: reading(subscribe=topic, **options, **given).load().select(f.hour("value.at")).head()[0]
        for zone, given in {
            "session": {},
            "Berlin": {"value__time__zone": "Europe/Berlin"},
            "ahead": {"value__time__zone": "+05:00"},
        }.items()
    }
    assert hours == {"session": 12, "Berlin": 10, "ahead": 7}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"value__format": "json"}, "option 'value.schema': is missing"),
        ({"value__format": "json", "value__schema": "id BIGNUM"}, "has the type 'BIGNUM'"),
        ({"value__format": "xml"}, "one of json, avro, protobuf, string"),
        ({"value__format": "avro"}, "option 'value.schema': is missing"),
        ({"value__format": "avro", "value__schema": "id INT"}, "the schema is no JSON"),
        (
            {"value__format": "avro", "value__schema": '{"type":"record","name":"R","fields":[]}'},
            "record R has no field",
        ),
        ({"value__format": "avro", "value__schema": '"int"', "value__time__zone": "UTC"}, "means nothing to"),
        ({"value__schema": "id INT"}, "there is no value.format"),
        ({"value__format": "string", "value__schema": "id INT"}, "means nothing to value.format = string"),
        ({"value__format": "string", "value__on__error": "skip"}, "one of fail, null"),
        ({"value__format": "json", "value__schema": "a INT", "value__time__zone": "Mars"}, "found 'Mars'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], message: str, reading: Reading) -> None:
    with pytest.raises(Exception, match=message) as raised:
        reading(subscribe="a", **options).load().count()
    assert OptionError.__name__ in str(raised.value)
