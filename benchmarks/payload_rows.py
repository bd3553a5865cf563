"""Avro and Protocol Buffers from Kafka into nothing, in batch reads whose fields are used; and what one core does with
these and with JSON, reading and writing.

Beside Spark's connector with ``from_avro`` (its jar is fetched), and beside what a Python user writes where that jar
cannot be: a library for each record, in the tasks of a read by the same format.
"""

from __future__ import annotations

import io
import itertools
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import fastavro
import pyarrow as pa
from figures import Figure, alternately, console, ratio, told
from publish import publish_values
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.avro.functions import from_avro
from tests.protobuf_records import compiled, message_class
from tests.registry_server import running

import directkafka as dk
from directkafka.options.schemas.protobuf.files import parse_protobuf
from directkafka.options.written_payloads import WrittenFormat
from directkafka.payloads.encode import ColumnEncoding

__all__ = ["payloads"]

_AVRO_TYPES: Final = {
    "id": "long", "carrier": "string", "flight": "int", "tailnum": "string", "origin": "string", "dest": "string",
    "distance": "int", "delay": "double", "departed": "string", "is_late": "boolean",
}  # fmt: skip
_PROTOBUF_TYPES: Final = {"long": "int64", "int": "int32", "boolean": "bool"}
AVRO: Final = json.dumps(
    {
        "type": "record",
        "name": "Flight",
        "fields": [{"name": name, "type": kind} for name, kind in _AVRO_TYPES.items()],
    }
)
PROTOBUF: Final = 'syntax = "proto3"; message Flight {{ {} }}'.format(
    " ".join(
        f"{_PROTOBUF_TYPES.get(kind, kind)} {name} = {number};"
        for number, (name, kind) in enumerate(_AVRO_TYPES.items(), 1)
    )
)
_DDL_TYPES: Final = {"long": "BIGINT"}
JSON: Final = ", ".join(f"{name} {_DDL_TYPES.get(kind, kind)}" for name, kind in _AVRO_TYPES.items())
_ARROW_TYPES: Final = {
    "long": pa.int64(), "int": pa.int32(), "double": pa.float64(), "string": pa.string(), "boolean": pa.bool_(),
}  # fmt: skip
_ROWS: Final = pa.schema([(name, _ARROW_TYPES[kind]) for name, kind in _AVRO_TYPES.items()])
#: As much as is made once; a topic has it over and over.
_DIFFERENT: Final = 20_000
_PARTITIONS: Final = 2
_TIMES_ROWS: Final = 3
_FRAME: Final = b"\0\0\0\0\1"
_AT_ONCE: Final = 100_000


def payloads(spark: SparkSession, servers: str, *, rows: int, repeat: int) -> list[Figure]:
    """Three million records of each, unless ``rows`` says otherwise."""
    count = _TIMES_ROWS * rows
    topics = {"avro": avro_records(), "framed": [_FRAME + record for record in avro_records()],
              "protobuf": protobuf_records()}  # fmt: skip
    for name, records in topics.items():
        console.print(f"publishing {count:,} records: {name}")
        publish_values(servers, f"payloads-{name}", _over_and_over(records, count), partitions=_PARTITIONS)
    with running() as registry:
        registry.add(1, json.loads(AVRO))
        registry.add_version("payloads-framed-value", "latest", 1, json.loads(AVRO))
        seconds = {
            "avro": alternately(
                {
                    "ours": partial(_ours, spark, servers, "avro", {"value.schema": AVRO}),
                    "columns": partial(_ours, spark, servers, "avro", {"value.schema": AVRO, "columns": "value"}),
                    "from_avro": partial(_into_nothing, _by_from_avro(spark, servers)),
                },
                repeat,
            ),
            "framed": alternately(
                {
                    "ours": partial(_ours, spark, servers, "framed", {"value.registry.url": registry.url}),
                    "fastavro": partial(_each, spark, servers, "framed", read_avro),
                },
                repeat,
            ),
            "protobuf": alternately(
                {
                    "ours": partial(_ours, spark, servers, "protobuf", {"value.schema": PROTOBUF}),
                    "protobuf": partial(_each, spark, servers, "protobuf", read_protobuf),
                },
                repeat,
            ),
        }
    what = "ten fields into nothing"
    return [
        ratio(f"Avro, {what}, beside Spark's connector and from_avro", seconds["avro"], over="from_avro", required=3.0,
              records=count),
        ratio(f"the same with columns = value, {what}, beside Spark's connector and from_avro", seconds["avro"],
              over="from_avro", side="columns", required=3.0, records=count),
        ratio(f"Avro under a registry, {what}, beside fastavro for each record", seconds["framed"], over="fastavro",
              required=None, records=count),
        ratio(f"Protocol Buffers, {what}, beside Google's library for each record", seconds["protobuf"],
              over="protobuf", required=None, records=count),
        _of_one_core("Avro, ten fields", partial(dk.decode, format="avro", schema=AVRO), _column(avro_records())),
        _of_one_core("Protocol Buffers, ten fields", partial(dk.decode, format="protobuf", schema=PROTOBUF),
                     _column(protobuf_records())),
        _of_one_core("JSON, ten fields", _read_json, _column(json_records())),
        _of_one_core("JSON of which every tenth record is read the slow way, ten fields", _read_json,
                     _column(json_records(odd_every=10)), required=None),
        _of_one_core("Avro written, ten fields", _written("avro", AVRO), _rows()),
        _of_one_core("Protocol Buffers written, ten fields", _written("protobuf", PROTOBUF), _rows()),
    ]  # fmt: skip


def flights() -> Iterator[dict[str, Any]]:
    """The records of which topics are made."""
    for number in range(_DIFFERENT):
        delay = (number * 7919) % 700 - 60
        yield {
            "id": number * 1_000_003,
            "carrier": ("AA", "UA", "DL", "B6")[number % 4],
            "flight": number % 9999,
            "tailnum": f"N{10000 + number}UA",
            "origin": ("EWR", "JFK", "LGA")[number % 3],
            "dest": ("IAH", "MIA", "ORD", "ATL", "SFO")[number % 5],
            "distance": 100 + number % 4900,
            "delay": delay / 4,
            "departed": f"2013-01-{1 + number % 31:02d}T{number % 24:02d}:{number % 60:02d}:00Z",
            "is_late": delay > 60,
        }


def avro_records() -> list[bytes]:
    """The flights, as fastavro writes them."""
    schema, records = fastavro.parse_schema(json.loads(AVRO)), []
    for flight in flights():
        into = io.BytesIO()
        fastavro.schemaless_writer(into, schema, flight)
        records.append(into.getvalue())
    return records


def json_records(odd_every: int = 0) -> list[bytes]:
    """As JSON; each record with that many before it has single quotes, which the kernel leaves to the slow way."""
    texts = [json.dumps(row).encode() for row in flights()]
    if odd_every:
        texts[::odd_every] = [text.replace(b'"', b"'") for text in texts[::odd_every]]
    return texts


def protobuf_records() -> list[bytes]:
    """The flights, as Google's library writes them."""
    kind = message_class(compiled(PROTOBUF), "Flight")
    return [kind(**flight).SerializeToString() for flight in flights()]


def read_avro(values: pa.Array) -> pa.RecordBatch:
    """What a Python user writes: a dict for each record."""
    schema = fastavro.parse_schema(json.loads(AVRO))
    rows = []
    for value in values.to_pylist():
        record = io.BytesIO(value)
        record.seek(len(_FRAME))
        rows.append(fastavro.schemaless_reader(record, schema, None))
    return pa.RecordBatch.from_pylist(rows, _ROWS)


def read_protobuf(values: pa.Array) -> pa.RecordBatch:
    """The same with a message for each record."""
    kind = message_class(compiled(PROTOBUF), "Flight")
    messages = map(kind.FromString, values.to_pylist())
    rows = [{name: getattr(message, name) for name in _AVRO_TYPES} for message in messages]
    return pa.RecordBatch.from_pylist(rows, _ROWS)


def _over_and_over(records: list[bytes], count: int) -> Iterator[bytes]:
    return itertools.islice(itertools.cycle(records), count)


def _read(spark: SparkSession, form: str, servers: str, topic: str, options: dict[str, str]) -> DataFrame:
    given = {"kafka.bootstrap.servers": servers, "subscribe": f"payloads-{topic}", **options}
    return spark.read.format(form).options(**given).load()


def _into_nothing(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _ours(spark: SparkSession, servers: str, topic: str, options: dict[str, str]) -> None:
    form = {"value.format": "protobuf" if topic == "protobuf" else "avro"}
    _into_nothing(_read(spark, "directkafka", servers, topic, form | options).select("value.*"))


def _by_from_avro(spark: SparkSession, servers: str) -> DataFrame:
    frame = _read(spark, "kafka", servers, "avro", {})
    return frame.select(from_avro(frame.value, AVRO).alias("value")).select("value.*")


def _each(spark: SparkSession, servers: str, topic: str, read: Callable[[pa.Array], pa.RecordBatch]) -> None:
    def read_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield read(batch.column(0))

    types = {"long": "bigint"}
    schema = ", ".join(f"{name} {types.get(kind, kind)}" for name, kind in _AVRO_TYPES.items())
    _into_nothing(_read(spark, "directkafka", servers, topic, {}).select("value").mapInArrow(read_all, schema))


def _column(records: list[bytes]) -> pa.Array:
    return pa.array(_over_and_over(records, _AT_ONCE), pa.binary())


def _rows() -> pa.Array:
    rows = list(flights())
    return pa.array(itertools.islice(itertools.cycle(rows), _AT_ONCE), pa.struct(list(_ROWS)))


def _written(format: WrittenFormat, schema: str) -> Callable[[pa.Array], pa.Array]:
    encoding = ColumnEncoding(
        column="value", format=format, schema=parse_protobuf([schema]).text() if format == "protobuf" else schema
    )
    return encoding.encoder(pa.struct(list(_ROWS))).encode


def _read_json(texts: pa.Array) -> pa.Array:
    return dk.decode(texts, format="json", schema=JSON)


def _of_one_core(name: str, run: Callable[[pa.Array], Any], array: pa.Array, *, required: float | None = 2.0) -> Figure:
    run(array)
    best = min(_seconds(run, array) for _ in range(10))
    return told(Figure(name=f"{name}, of one core", value=_AT_ONCE / best / 1e6, unit="M/s", required=required))


def _seconds(run: Callable[[pa.Array], Any], array: pa.Array) -> float:
    started = time.process_time()
    run(array)
    return time.process_time() - started
