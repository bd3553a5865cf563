"""Debezium's events in Avro, with the schemas of a registry and without."""

from __future__ import annotations

import copy
import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pytest
from tests.debezium_avro import EVENT, KEY, ROW, ROW_FIELDS, event, event_schema, written
from tests.registry_server import RegistryServer, running

from directkafka.errors import OptionError
from directkafka.errors.registry import SchemaNotFoundError
from directkafka.options.payloads import Payload, read_payloads
from directkafka.options.spec import RawOptions
from directkafka.payloads.debezium.avro_events import DebeziumAvroDecoder
from directkafka.payloads.decode import decoder_of
from directkafka.payloads.reader_schemas import with_reader_schemas

AT = datetime.datetime(2023, 11, 14, 22, 13, 20, 123456)
PEN = {"id": 1, "price": Decimal("1.50"), "made": 1_700_000_000_123_456}
PEN_ROW = {"id": 1, "price": Decimal("1.50"), "made": AT}
#: A later version of the table: a column more, and another type.
NEWER_FIELDS = [
    {"name": "id", "type": "long"},
    *ROW_FIELDS[1:],
    {"name": "ink", "type": ["null", "string"], "default": None},
]
NEWER = event_schema(row={**ROW, "fields": NEWER_FIELDS})


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with running() as registry_server:
        registry_server.add(1, EVENT)
        registry_server.add(2, KEY)
        registry_server.add(3, NEWER)
        registry_server.add(4, ROW)
        registry_server.add_version("orders-value", "latest", 1, EVENT)
        registry_server.add_version("flat-value", "latest", 4, ROW)
        yield registry_server


def payload_of(url: str, topic: str = "orders", **more: str) -> Payload:
    options = {"value.format": "debezium-avro", "value.registry.url": url, **more}
    [payload] = with_reader_schemas(read_payloads(RawOptions.read(options)), [topic])
    return payload


def framed(number: int, schema: Any, value: Any) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + written(copy.deepcopy(schema), value)


def test_events_are_read_with_the_schemas_that_they_name(server: RegistryServer) -> None:
    payload = payload_of(server.url)
    assert payload.type.simple_string() == "struct<id:int,price:decimal(10,2),made:timestamp_ntz>"
    assert payload.schema_id == 1
    decoder = cast(DebeziumAvroDecoder, decoder_of(payload))
    values = [
        framed(1, EVENT, event("c", after=PEN)), framed(1, EVENT, event("d", before=PEN)),
        framed(1, EVENT, event("d")), None, framed(1, EVENT, event("t", lsn=None)), None,
    ]  # fmt: skip
    keys = [framed(2, KEY, {"id": number}) for number in range(5)]
    decoder.keys = pa.array([*keys, b"no frame"], pa.binary())
    rows = decoder.decode(pa.array(values, pa.binary()))
    nothing = dict.fromkeys(PEN_ROW)
    assert rows.to_pylist()[:5] == [PEN_ROW, PEN_ROW, nothing | {"id": 2}, nothing | {"id": 3}, None]
    assert decoder.added["op"].to_pylist() == ["c", "d", "d", None, "t", None]
    assert decoder.added["deleted"].to_pylist() == [False, True, True, True, False, True]
    assert decoder.added["position"].to_pylist() == [Decimal(77)] * 3 + [None] * 3
    assert decoder.schema_ids.to_pylist() == [1, 1, 1, None, 1, None]
    assert decoder.problems == {}


@pytest.mark.parametrize(("unknown", "row"), [("value", 1), ("key", 2)])
def test_the_event_whose_schema_or_whose_key_s_is_not_there_is_told_by_its_row(
    unknown: str, row: int, server: RegistryServer
) -> None:
    decoder = cast(DebeziumAvroDecoder, decoder_of(payload_of(server.url, **{"value.on.error": "fail"})))
    values = [framed(1, EVENT, event("c", after=PEN)), framed(1, EVENT, event("d")), None]
    keys = [framed(2, KEY, {"id": number}) for number in range(3)]
    if unknown == "value":
        values[row] = framed(9, EVENT, event("d"))
    else:
        keys[row] = framed(9, KEY, {"id": row})
    decoder.keys = pa.array(keys, pa.binary())
    with pytest.raises(SchemaNotFoundError, match="does not have schema 9"):
        decoder.decode(pa.array(values, pa.binary()))
    assert decoder.missed_row == row


def test_a_newer_table_is_read_with_the_columns_that_were_there(server: RegistryServer) -> None:
    decoder = decoder_of(payload_of(server.url))
    # A BIGINT that was an INTEGER does not become one again.
    told = decoder.decode(pa.array([framed(3, NEWER, event("c", after={**PEN, "ink": "red"}))]))
    assert told.to_pylist() == [None]
    assert "after.id" in decoder.problems[0]
    server.add_version("orders-value", "latest", 3, NEWER)
    newer = decoder_of(payload_of(server.url))
    values = [framed(1, EVENT, event("c", after=PEN)), framed(3, NEWER, event("c", after={**PEN, "ink": "red"}))]
    assert newer.decode(pa.array(values)).to_pylist() == [PEN_ROW | {"ink": None}, PEN_ROW | {"ink": "red"}]


def test_a_topic_of_flat_rows_is_refused_at_the_start(server: RegistryServer) -> None:
    with pytest.raises(OptionError, match="not that of a change event of Debezium") as raised:
        payload_of(server.url, "flat")
    assert "value.registry.subject" in str(raised.value)


def test_without_a_registry_the_schema_is_given(server: RegistryServer) -> None:
    options = {"value.format": "debezium-avro", "value.schema": json.dumps(EVENT)}
    [payload] = read_payloads(RawOptions.read(options))
    decoder = cast(DebeziumAvroDecoder, decoder_of(payload))
    decoder.keys = pa.array([None] * 3, pa.binary())
    values = [written(EVENT, event("u", PEN, PEN)), None, written(EVENT, event("u", PEN, PEN))[:-4]]
    assert decoder.decode(pa.array(values, pa.binary())).to_pylist() == [PEN_ROW, None, None]
    assert list(decoder.problems) == [2]
    assert server.asked == []


def test_headers_may_name_the_schemas_of_events_and_of_keys(server: RegistryServer) -> None:
    decoder = cast(DebeziumAvroDecoder, decoder_of(payload_of(server.url)))
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    names = [("__key_schema_id", 2), ("__value_schema_id", 1)]
    of_record = [{"key": name, "value": b"\0" + number.to_bytes(4, "big")} for name, number in names]
    decoder.headers = pa.array([of_record[:1], of_record], kind)
    decoder.keys = pa.array([written(copy.deepcopy(KEY), {"id": 9})] * 2)
    rows = decoder.decode(pa.array([None, written(copy.deepcopy(EVENT), event("c", after=PEN))], pa.binary()))
    assert rows.to_pylist() == [dict.fromkeys(PEN_ROW) | {"id": 9}, PEN_ROW]
