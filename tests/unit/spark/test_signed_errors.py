"""The key that errors are signed with reaches the processes in which Spark makes the format's objects anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle

from directkafka.errors import FencedError
from directkafka.errors.transport import Notes
from directkafka.spark.datasource.source import DirectKafkaDataSource, ListenedDataSource

#: What Spark's processes do with a class: make an object, and send that on.
PROGRAM = """
import pickle, sys
from pyspark import cloudpickle
from directkafka.errors import FencedError
made = pickle.loads(open(sys.argv[1], "rb").read())({})
sent = pickle.loads(cloudpickle.dumps(made))
print(sent.notes.on(FencedError(store="db", pipeline="p", held=1, found=2)).__notes__[0])
"""


@pytest.mark.parametrize("source", [DirectKafkaDataSource, ListenedDataSource])
def test_a_note_of_a_process_that_spark_made_is_believed(source: type[DirectKafkaDataSource], tmp_path: Path) -> None:
    sent = tmp_path / "class"
    sent.write_bytes(cloudpickle.dumps(source.of_this_driver()))
    told = subprocess.run([sys.executable, "-c", PROGRAM, str(sent)], capture_output=True, text=True, check=True).stdout
    error = Notes.of_this_process().read(f"Traceback\n{told}\n\tat java")
    assert isinstance(error, FencedError)
    assert (error.held, error.found) == (1, 2)
    assert error.pipeline == "p"


def test_a_class_that_is_sent_without_the_key_is_not_believed(tmp_path: Path) -> None:
    sent = tmp_path / "class"
    sent.write_bytes(cloudpickle.dumps(DirectKafkaDataSource))
    told = subprocess.run([sys.executable, "-c", PROGRAM, str(sent)], capture_output=True, text=True, check=True).stdout
    assert "FencedError" in told
    assert Notes.of_this_process().read(told) is None
