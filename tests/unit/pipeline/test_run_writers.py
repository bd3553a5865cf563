"""A batch of an earlier run is read with the schemas of then; after it the sinks take the run's own columns again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.registry_server import RegistryServer, running

from directkafka.errors.registry import SchemaNotFoundError
from directkafka.options.payloads import Payloads, read_payloads
from directkafka.options.spec import RawOptions
from directkafka.payloads.reader_schemas import with_reader_schemas
from directkafka.pipeline.run_writers import RunWriters
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.ledger import with_notes

OLD, NEW = ({"type": "record", "name": "Click", "fields": [{"name": name, "type": "int"}]} for name in ("id", "page"))


class FakeWriter:
    """Tells what was asked of which writer."""

    events: list[str]

    def __init__(self, payloads: Payloads, events: list[str]) -> None:
        self.columns = ", ".join(payload.type.simple_string() for payload in payloads)
        self.events = events

    def check(self) -> tuple[str, ...]:
        self.events.append(f"check {self.columns}")
        return ()

    def prepare(self) -> None:
        self.events.append(f"prepare {self.columns}")


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with running() as registry:
        registry.add(1, OLD)
        registry.add_version("clicks-value", "latest", 2, NEW)
        yield registry


def writers_of(server: RegistryServer, events: list[str], **more: str) -> RunWriters[FakeWriter]:
    options = {"value.format": "avro", "value.registry.url": server.url, **more}
    payloads = with_reader_schemas(read_payloads(RawOptions.read(options)), ["clicks"])

    def make(payloads: Payloads) -> FakeWriter:
        return FakeWriter(payloads, events)

    return RunWriters(make(payloads), payloads=payloads, make=make)


def entry(**ids: int) -> LedgerEntry:
    return with_notes(LedgerEntry(pipeline="p", generation=1, lineage="l", batch_id=3, progress=()), schema_ids=ids)


def test_a_batch_of_another_schema_has_a_writer_of_its_own(
    server: RegistryServer, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[str] = []
    writers = writers_of(server, events)
    assert writers.schema_ids == {"value": 2}
    assert writers.of(entry(value=1)).columns == "struct<id:int>"
    assert "p: batch 3 was read with schemas {'value': 1}, and is read again with them" in caplog.text
    assert writers.own.columns == "struct<page:int>"
    for _ in range(2):
        writers.prepare_own()
    assert events == ["check struct<id:int>", "prepare struct<id:int>", "prepare struct<page:int>"]


def test_the_run_s_own_writer_is_for_every_other_batch(server: RegistryServer) -> None:
    events: list[str] = []
    writers = writers_of(server, events)
    for known in (entry(), entry(value=2), entry(key=1)):
        assert writers.of(known) is writers.own
    assert events == []
    writers.of(entry(value=1))
    assert writers.of(entry(value=2)) is writers.own
    assert events[-1] == "prepare struct<page:int>"


def test_a_schema_that_the_options_give_now_does_not_change_a_batch_of_before(server: RegistryServer) -> None:
    writers = writers_of(server, [], **{"value.schema": '"long"'})
    assert writers.schema_ids == {}
    assert writers.of(entry(value=1)).columns == "struct<id:int>"


def test_a_schema_that_is_gone_is_told_and_the_sinks_stay_as_they_are(server: RegistryServer) -> None:
    events: list[str] = []
    writers = writers_of(server, events)
    with pytest.raises(SchemaNotFoundError, match="does not have schema 9"):
        writers.of(entry(value=9))
    assert events == []
