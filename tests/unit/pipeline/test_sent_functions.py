"""What a driver sends to its tasks signs their errors with the driver's key: each function that is sent, elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import StringType, StructField, StructType

from directkafka.errors import FencedError
from directkafka.errors.streams import NonConsecutiveOffsetsError
from directkafka.errors.transport import Notes
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.offsets import OffsetRange
from directkafka.options.client import ClientOptions
from directkafka.pipeline.execution.share_tasks import RouteTask
from directkafka.pipeline.execution.write_task import WriteTask
from directkafka.spark.datasource.source import DirectKafkaDataSource
from directkafka.spark.datasource.task_reader import RangePartition
from directkafka.spark.rdd.tasks import CountRecords, ReadRecords
from directkafka.spark.read_task import ReadRanges

#: Runs all that is sent in a process of its own, where reading and writing fail, but for what finds nothing to read.
PROGRAM = """
import json, pickle, sys
from directkafka.errors import DirectKafkaError, FencedError
from directkafka.kafka.consumer import range_reader
from directkafka.spark.datasource import write_task
with open(sys.argv[1], "rb") as file:
    sent = pickle.load(file)

def fail(*_):
    raise FencedError(store="db", pipeline="p", held=1, found=2)

def empty(*_):
    return iter(())

write_task._write = fail
notes = {}
for name, run in sent.items():
    range_reader.read_range = empty if name == "strict_records" else fail
    try:
        run(fail)
    except DirectKafkaError as error:
        notes[name] = error.__notes__[0]
print(json.dumps(notes))
"""
ROWS = pa.record_batch({"number": [0]})
SCHEMA = StructType([StructField("value", StringType())])
RECORDS = (
    StructType()
    .add("key", "binary")
    .add("value", "binary")
    .add("topic", "string")
    .add("partition", "integer")
    .add("offset", "long")
    .add("timestamp", "timestamp")
    .add("timestampType", "integer")
)
NOTHING: Any = None
TASK = RangeTask(
    range=OffsetRange("t", 0, 0, 1), topic_id="", host="h", port=1, client=ClientOptions(bootstrap_servers=("h:1",))
)

Fail = Callable[..., Any]
#: In the process that it was sent to, with a function that fails.
Run = Callable[[Fail], object]


def sent(reader: Any) -> Any:
    """A reader as the executors get it."""
    return cloudpickle.loads(cloudpickle.dumps(reader))


def source(**options: str) -> DirectKafkaDataSource:
    given = {"kafka.bootstrap.servers": "h:1", **(options or {"subscribe": "t"})}
    return DirectKafkaDataSource.of_this_driver()(given)


def ranges() -> Run:
    made = ReadRanges((TASK,))
    return lambda _: list(made(iter([ROWS])))


def records() -> Run:
    made = ReadRecords()
    return lambda _: list(made(0, [TASK]))


def strict_records() -> Run:
    made = ReadRecords(is_strict=True)
    return lambda _: list(made(0, [TASK]))


def counts() -> Run:
    made = CountRecords()
    return lambda _: list(made(0, [TASK]))


def batch_reader() -> Run:
    made = sent(source().reader(RECORDS))
    return lambda _: list(made.read(RangePartition(TASK)))


def stream_reader() -> Run:
    made: Any = source().streamReader(RECORDS)
    copy = sent(made)
    made.stop()
    return lambda _: list(copy.read(RangePartition(TASK)))


def batch_writer() -> Run:
    made: Any = source(topic="t").writer(SCHEMA, overwrite=False)
    return lambda _: made.write(iter([ROWS]))


def stream_writer() -> Run:
    made: Any = source(topic="t").streamWriter(SCHEMA, overwrite=False)
    return lambda _: made.write(iter([ROWS]))


def write_task() -> Run:
    made = WriteTask(NOTHING)

    def run(fail: Fail) -> object:
        made._writer = fail
        return list(made(iter(())))

    return run


def route_task() -> Run:
    made = RouteTask(SimpleNamespace(router=None, writer_count=1), is_claimed=False)  # type: ignore[arg-type]

    def run(fail: Fail) -> object:
        made._router = fail
        return list(made(iter(())))

    return run


SENT = {
    make.__name__: make
    for make in (
        ranges,
        records,
        strict_records,
        counts,
        batch_reader,
        stream_reader,
        batch_writer,
        stream_writer,
        write_task,
        route_task,
    )
}


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The notes that errors of each get in another process."""
    file = tmp_path_factory.mktemp("sent") / "sent"
    file.write_bytes(cloudpickle.dumps({name: make() for name, make in SENT.items()}))
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(file)], capture_output=True, text=True, check=True)
    notes_by_name: dict[str, str] = json.loads(done.stdout)
    return notes_by_name


@pytest.mark.parametrize("name", SENT)
def test_a_note_of_what_was_sent_to_another_process_is_believed(name: str, notes: dict[str, str]) -> None:
    error = Notes.of_this_process().read(f"Traceback\n{notes[name]}\n\tat java")
    assert isinstance(error, NonConsecutiveOffsetsError if name == "strict_records" else FencedError)
