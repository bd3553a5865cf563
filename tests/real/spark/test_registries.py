"""Avro under a registry, as a batch and as a stream: records of several schemas in one topic."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import date
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from tests.avro_records import written
from tests.real.kafka.logs import produce
from tests.real.spark.queries import failure_of
from tests.registry_server import RegistryServer, running
from tests.waiting import until

import directkafka as dk
from directkafka.errors.registry import SchemaNotFoundError

pytestmark = pytest.mark.real

Reading = Callable[..., Any]

OLD = {"type": "record", "name": "Click", "fields": [{"name": "id", "type": "int"}]}
OTHER = {**OLD, "name": "Other"}
PAGE = {"name": "page", "type": ["null", "string"], "default": None}
NEW = {"type": "record", "name": "Click", "fields": [{"name": "id", "type": "long"}, PAGE]}


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with running() as server:
        server.add(1, OLD)
        server.add(2, NEW)
        yield server


def framed(number: int, schema: Any, value: Any) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + written(schema, [value])[0]


@pytest.fixture
def clicks(servers: str, create_topic: Callable[..., str], registry: RegistryServer) -> str:
    topic = create_topic(1)
    new = [framed(2, NEW, {"id": 2, "page": ("string", "/2")}), framed(1, OLD, {"id": 3}), None]
    produce(servers, topic, [framed(1, OLD, {"id": 1}), *new, framed(7, OLD, {"id": 4}), b"{}"])
    registry.add_version(f"{topic}-value", "latest", 2, NEW)
    return topic


def test_records_of_several_schemas_are_rows_of_the_newest(
    reading: Reading, clicks: str, registry: RegistryServer
) -> None:
    options = {"value__format": "avro", "value__registry__url": registry.url}
    frame = reading(subscribe=clicks, value__on__error="null", **options).load()
    assert frame.columns[-2:] == ["value_schema_id", "value_error"]
    rows = [tuple(row) for row in frame.orderBy("offset").select("value.*", "value_schema_id").collect()]
    assert rows == [(1, None, 1), (2, "/2", 2), (3, None, 1), (None, None, None), (None, None, 7), (None, None, None)]
    errors = [row.value_error for row in frame.orderBy("offset").collect()]
    assert errors[:4] == [None] * 4
    assert "does not have schema 7: HTTP 404" in errors[4]
    assert errors[5] == "it has 2 bytes, and a schema's number in front of a record has 5"
    rest_of_message = rf"which the record in topic {clicks}, partition 0 at offset 4 names: HTTP 404"
    with pytest.raises(Exception, match=f"does not have schema 7, {rest_of_message}"):
        reading(subscribe=clicks, **options).load().collect()


@pytest.fixture
def named(servers: str, create_topic: Callable[..., str], registry: RegistryServer) -> str:
    """A topic whose records name their schemas in headers."""
    topic = create_topic(1)
    registry.add_version(f"{topic}-value", "latest", 2, NEW)
    producer = Producer({"bootstrap.servers": servers})
    for number, schema, value in ((1, OLD, {"id": 1}), (2, NEW, {"id": 2, "page": ("string", "/2")})):
        header = b"\0" + number.to_bytes(4, "big")
        producer.produce(topic, written(schema, [value])[0], headers=[("__value_schema_id", header), ("other", b"")])
    assert producer.flush(60) == 0
    return topic


@pytest.mark.parametrize("columns", ["", "value,value_schema_id", "offset,value,value_schema_id"])
def test_headers_name_the_schemas_of_values_whatever_columns_are_read(
    columns: str, reading: Reading, named: str, registry: RegistryServer
) -> None:
    options = {"value__format": "avro", "value__registry__url": registry.url} | (
        {"columns": columns} if columns else {}
    )
    frame = reading(subscribe=named, **options).load()
    assert "headers" not in frame.columns
    rows = sorted(tuple(row) for row in frame.select("value.*", "value_schema_id").collect())
    assert rows == [(1, None, 1), (2, "/2", 2)]


@pytest.mark.slow
@pytest.mark.parametrize("transform", [None, "SELECT offset, value, value_schema_id FROM source"], ids=["none", "sql"])
def test_headers_name_the_schemas_of_values_that_a_pipeline_reads(
    transform: str | None, servers: str, named: str, registry: RegistryServer, tmp_path: Path
) -> None:
    """Without a transform rows stay in the worker that reads them."""
    source = {
        "kafka.bootstrap.servers": servers, "subscribe": named, "startingOffsets": "earliest",
        "value.format": "avro", "value.registry.url": registry.url,
    }  # fmt: skip
    path = tmp_path / "clicks.sqlite"
    pipeline = dk.Pipeline(
        "clicks",
        source=source,
        transform=transform,
        sinks=dk.SQLiteSink(path, "clicks"),
        trigger="available-now",
    )
    carried = "stay in the Python workers" if transform is None else "pass through Spark"
    assert carried in pipeline.check()[-1]
    pipeline.run()
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT value ->> 'id', value ->> 'page', value_schema_id FROM clicks ORDER BY offset"
        assert connection.execute(query).fetchall() == [(1, None, 1), (2, "/2", 2)]


def test_keys_have_schemas_under_a_registry_too(
    reading: Reading, servers: str, create_topic: Callable[..., str], registry: RegistryServer
) -> None:
    topic = create_topic(1)
    registry.add_version(f"{topic}-key", "latest", 2, NEW)
    producer = Producer({"bootstrap.servers": servers})
    for key in (framed(1, OLD, {"id": 1}), framed(2, NEW, {"id": 2, "page": ("string", "/2")}), None):
        producer.produce(topic, b"as it came", key)
    named = [("__key_schema_id", b"\0\0\0\0\1")]
    producer.produce(topic, b"as it came", written(OLD, [{"id": 3}])[0], headers=named)
    assert producer.flush(60) == 0
    frame = reading(subscribe=topic, key__format="avro", key__registry__url=registry.url).load().orderBy("offset")
    rows = [tuple(row) for row in frame.select("key.id", "key.page", "key_schema_id", "value").collect()]
    came = bytearray(b"as it came")
    assert rows == [(1, None, 1, came), (2, "/2", 2, came), (None, None, None, came), (3, None, 1, came)]


def test_the_schema_of_the_columns_may_be_given_or_another_version(
    reading: Reading, clicks: str, registry: RegistryServer
) -> None:
    options = {"value__format": "avro", "value__registry__url": registry.url, "value__on__error": "null"}
    frame = reading(subscribe=clicks, value__schema=json.dumps(OLD), **options).load()
    assert frame.schema["value"].dataType.simpleString() == "struct<id:int>"
    registry.add_version("elsewhere", "3", 1, OLD)
    asked = {"value__registry__subject": "elsewhere", "value__registry__version": "3"}
    frame = reading(subscribe=clicks, **asked, **options).load()
    assert frame.schema["value"].dataType.simpleString() == "struct<id:int>"
    # The writer's long is no int, so the record that was written with it cannot be read; the others can.
    assert [row.id for row in frame.orderBy("offset").select("value.id").collect()] == [1, None, 3, None, None, None]


def test_a_stream_goes_on_with_the_schemas_that_it_knows_while_the_registry_is_away(
    streaming: Reading, session: SparkSession, servers: str, clicks: str, registry: RegistryServer
) -> None:
    """Spark ends processes that are idle for a minute, so later batches are read by others, which have asked nobody."""
    stream = streaming(
        subscribe=clicks, startingOffsets="earliest", value__format="avro", value__registry__url=registry.url,
        value__on__error="null",
    ).load()  # fmt: skip
    query = stream.select("value.id").writeStream.format("memory").queryName("clicked").start()
    try:
        until(lambda: clicked(session) == [1, 2, 3], "the first batch")
        before = python_workers()
        for worker in before:
            worker.kill()
        registry.failures = 10**9
        produce(servers, clicks, [framed(1, OLD, {"id": 5}), framed(2, NEW, {"id": 6, "page": None})])
        until(lambda: query.exception() or clicked(session) == [1, 2, 3, 5, 6], "the second batch")
        assert query.exception() is None
        assert before
        assert set(python_workers()).isdisjoint(before)
    finally:
        query.stop()
        session.catalog.dropTempView("clicked")


def clicked(session: SparkSession) -> list[int]:
    return sorted(row.id for row in session.table("clicked").collect() if row.id is not None)


def python_workers() -> list[psutil.Process]:
    """Processes of this Spark's that run tasks: the children of its daemon."""
    workers = []
    for java in (child for child in psutil.Process().children() if child.name() == "java"):
        for started in java.children():
            # They come and go.
            with suppress(psutil.NoSuchProcess):
                for worker in started.children() if "daemon" in " ".join(started.cmdline()) else ():
                    with suppress(psutil.NoSuchProcess):
                        workers += [worker] if worker.status() != psutil.STATUS_ZOMBIE else []
    return workers


def test_an_rdd_s_batches_are_typed(session: SparkSession, servers: str, clicks: str, registry: RegistryServer) -> None:
    params = {
        "bootstrap.servers": servers,
        "value.format": "avro",
        "value.registry.url": registry.url,
        "value.on.error": "null",
    }
    ranges = [dk.OffsetRange(clicks, 0, 0, 6)]
    rdd = dk.create_rdd(session.sparkContext, params, ranges, arrow_handler=ids_and_schemas)
    assert rdd.collect() == [(1, 1), (2, 2), (3, 1), (None, None), (None, 7), (None, None)]


def test_json_behind_frames_is_typed_by_its_registered_schema(
    reading: Reading, servers: str, create_topic: Callable[..., str], registry: RegistryServer
) -> None:
    topic = create_topic(1)
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date"}}}
    registry.add(3, schema, schemaType="JSON")
    registry.add_version(f"{topic}-value", "latest", 3, schema, schemaType="JSON")
    produce(servers, topic, [b"\0\0\0\0\3" + b'{"id": 1, "at": "2026-03-01"}', None, framed(1, OLD, {"id": 1})])
    options = {"value__format": "json", "value__registry__url": registry.url, "value__on__error": "null"}
    rows = reading(subscribe=topic, **options).load().orderBy("offset").collect()
    assert rows[0].value.asDict() == {"id": 1, "at": date(2026, 3, 1)}
    assert [row.value_schema_id for row in rows] == [3, None, 1]
    assert rows[2].value_error == "it was written with schema 1: it is of type AVRO, not JSON"


def ids_and_schemas(batch: pa.RecordBatch) -> list[tuple[int | None, int | None]]:
    ids = [None if value is None else value["id"] for value in batch.column("value").to_pylist()]
    return list(zip(ids, batch.column("value_schema_id").to_pylist(), strict=True))


@pytest.mark.parametrize("execution", [pytest.param("spark", marks=pytest.mark.slow), "auto"])
def test_a_pipeline_follows_the_newest_schema_or_is_given_one(
    execution: Any, session: SparkSession, servers: str, clicks: str, registry: RegistryServer, tmp_path: Path
) -> None:
    source = {
        "kafka.bootstrap.servers": servers,
        "subscribe": clicks,
        "startingOffsets": "earliest",
        "value.format": "avro",
        "value.registry.url": registry.url,
        "value.on.error": "dead-letter",
    }
    path = tmp_path / "clicks.sqlite"

    def run(**schema: str) -> None:
        dk.Pipeline(
            "clicks",
            source=source | schema,
            transform="SELECT offset, value.id, value.page, value_schema_id FROM source"
            if execution == "spark"
            else None,
            sinks=dk.SQLiteSink(path, "clicks"),
            dead_letters=dk.SQLiteSink(path, "rejected"),
            trigger="available-now",
            execution=execution,
        ).run()

    # What is set apart must be so each time that it is read; a schema that is not there may come yet.
    with pytest.raises(SchemaNotFoundError, match="does not have schema 7"):
        run(**{"value.schema": json.dumps(NEW)})
    registry.add(7, OTHER)
    # A registry that is away for a moment keeps no pipeline from its start.
    registry.failures = 5
    run()
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT offset, value_schema_id FROM clicks ORDER BY offset").fetchall()
        letters = connection.execute("SELECT offset, reason FROM rejected ORDER BY offset").fetchall()
    assert rows == [(0, 1), (1, 2), (2, 1), (3, None)]
    assert [offset for offset, _ in letters] == [4, 5]
    assert letters[0][1].startswith("the value is no avro: it was written with schema 7")


@pytest.mark.slow
def test_a_registry_that_is_away_is_told(
    reading: Reading, streaming: Reading, clicks: str, registry: RegistryServer
) -> None:
    registry.failures = 1_000
    with pytest.raises(Exception, match=r"the schema registry at \S+ does not answer for version latest"):
        reading(subscribe=clicks, value__format="avro", value__registry__url=registry.url).load()
    strict = streaming(
        subscribe=clicks, startingOffsets="earliest", value__format="avro", value__registry__url=registry.url,
        value__schema=json.dumps(NEW),
    ).load()  # fmt: skip
    query = strict.writeStream.format("noop").trigger(availableNow=True).start()
    assert "does not answer for schema 1" in str(failure_of(query))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"value__registry__subject": "s"}, "is for a registry, and there is no value.registry.url"),
        ({"value__registry__url": "registry:8081"}, "expected an address such as https://registry:8081"),
        ({"value__registry__url": "http://ann:word@registry"}, "has a name, a password"),
        (
            {"value__registry__url": "http://r", "value__registry__version": "newest"},
            "expected a number from 1, or latest",
        ),
        ({"value__registry__url": "http://r", "subscribe": "a,b"}, "must be given, since not one topic is read"),
        (
            {"value__registry__url": "http://r", "value__registry__basic__auth__user__info": "ann"},
            "a name and a password",
        ),
    ],
)
def test_options_of_a_registry_that_make_no_sense_are_refused(
    options: dict[str, str], message: str, reading: Reading
) -> None:
    with pytest.raises(Exception, match=message):
        reading(**{"subscribe": "a", "value__format": "avro"} | options).load().count()
