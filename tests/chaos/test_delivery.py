"""The delivery examples, each killed at its worst moment and started again: what is lost, what comes twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from tests.real.kafka.logs import produce
from tests.standalone import HOSTS, environment_of, standalone_cluster
from tests.waiting import until

import directkafka as dk
from directkafka.testing import KafkaBroker
from directkafka.testing.java import use_java

pytestmark = [pytest.mark.real, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples" / "delivery"
WAIT_S = 300.0
PARTITIONS = 2


@dataclass(frozen=True)
class Setting:
    """One example's topic, database and folder."""

    kafka: str
    topic: str
    dsn: str
    folder: Path

    def environment(self, crash: str = "") -> dict[str, str]:
        """What the examples read."""
        return {
            "KAFKA": self.kafka, "TOPIC": self.topic, "DSN": self.dsn, "FOLDER": str(self.folder), "CRASH": crash,
        }  # fmt: skip

    @contextmanager
    def running(
        self, example: str, *, crash: str = "", faults: str = "", master: str = "local[1]", **others: str
    ) -> Iterator[subprocess.Popen[str]]:
        """The example's process, from the moment on when its context has started."""
        environment = {
            **os.environ, **self.environment(crash), "DIRECTKAFKA_FAULTS": faults, "MASTER": master,
            "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(use_java()), **others,
        }  # fmt: skip
        with (self.folder / f"{example}{'-crash' if crash or faults else ''}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-W", "ignore", str(EXAMPLES / f"{example}.py")],
                env=environment, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
            )  # fmt: skip
            assert process.stdout is not None
            try:
                assert process.stdout.readline() == "started\n", Path(log.name).read_text()[-3000:]
                yield process
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                process.stdout.close()

    def produce(self, *words: str) -> None:
        """The words, by turns into each partition."""
        for partition in range(PARTITIONS):
            produce(
                self.kafka, self.topic, [word.encode() for word in words[partition::PARTITIONS]], partition=partition
            )

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(statement).fetchall()  # type: ignore[arg-type]

    def committed(self, group: str) -> dict[int, int]:
        """The offsets of the group, by partition."""
        with dk.Cluster({"bootstrap.servers": self.kafka}) as cluster:
            return {topic_partition.partition: offset for topic_partition, offset in cluster.committed(group).items()}

    def end(self, partition: int) -> int:
        """Where the log of a partition ends."""
        topic_partition = dk.TopicPartition(self.topic, partition)
        with dk.Cluster({"bootstrap.servers": self.kafka}) as cluster:
            return cluster.latest([topic_partition])[topic_partition]

    def output(self) -> Counter[tuple[int, int]]:
        """How often each record is in the table."""
        return Counter(self.query("SELECT partition, kafka_offset FROM output"))  # type: ignore[arg-type]

    def wait(self, condition: Callable[[], Any], what: str) -> None:
        until(condition, what, WAIT_S)

    def crash(self, example: str, where: str, *words: str, faults: str = "") -> None:
        """Start the example, give it words, and wait until it has died."""
        with self.running(example, crash=where, faults=faults) as process:
            self.produce(*words)
            assert process.wait(WAIT_S) == -signal.SIGKILL


@pytest.fixture
def setting(kafka_broker: KafkaBroker, create_topic: Callable[..., str], database: str, tmp_path: Path) -> Setting:
    new_setting = Setting(kafka_broker.bootstrap_servers, create_topic(PARTITIONS), database, tmp_path)
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE output (partition int, kafka_offset bigint, value text)")
    return new_setting


WORDS = [f"word-{number % 7}" for number in range(100)]
MORE = [f"word-{number % 5}" for number in range(40)]
ALL = {(partition, offset) for partition in range(PARTITIONS) for offset in range(70)}


def test_at_most_once_loses_records_and_doubles_none(setting: Setting) -> None:
    with setting.running("at_most_once", crash="after a partition") as process:
        # The first batch is where the log ends then; words are sent until some have arrived.
        def is_over() -> bool:
            setting.produce(*WORDS[:10])
            return process.poll() is not None

        setting.wait(is_over, "the crash")
        assert process.wait() == -signal.SIGKILL
    with setting.running("at_most_once"):
        # The first batch after the start is where the log ends then; words are sent until one has arrived.
        before = sum(setting.output().values())

        def something_new() -> bool:
            setting.produce(*MORE[:2])
            return sum(setting.output().values()) > before

        setting.wait(something_new, "a record that came after the restart")
    output = setting.output()
    assert set(output.values()) == {1}
    first = {
        partition: min(offset for other_partition, offset in output if other_partition == partition)
        for partition, _ in output
    }
    lost = {
        (partition, offset) for partition, start in first.items() for offset in range(start, setting.end(partition))
    } - output.keys()
    assert lost, "what was in the batch that was interrupted, or came while nobody read"


def test_at_most_once_a_task_that_fails_after_its_rows_are_written_is_not_tried_again(setting: Setting) -> None:
    """On executors, since Spark's local mode takes the number of tries from the master's name alone."""
    with setting.running(
        "at_most_once", crash="after a partition in a task", master="local-cluster[2,1,1024]"
    ) as process:

        def is_over() -> bool:
            setting.produce(*WORDS[:10])
            return process.poll() is not None

        setting.wait(is_over, "the failed task ends the program")
    log = (setting.folder / "at_most_once-crash.log").read_text()
    assert "this task fails after a partition" in log
    assert "failed 1 times; aborting job" in log
    assert set(setting.output().values()) == {1}


#: A cluster that speculates, and tries tasks again; more than one batch at a time, so that one that stands is passed.
SITE_SETTINGS = """
spark.task.maxFailures 4
spark.speculation true
spark.speculation.interval 100ms
spark.speculation.quantile 0.5
spark.speculation.multiplier 0.01
spark.speculation.minTaskRuntime 100ms
spark.speculation.efficiency.enabled false
spark.speculation.task.duration.threshold 100ms
spark.streaming.concurrentJobs 2
spark.locality.wait 0s
spark.executor.memory 512m
"""


def test_at_most_once_a_task_that_stands_still_gets_no_copy_and_one_whose_machine_is_lost_no_second_attempt(
    setting: Setting,
) -> None:
    """On two hosts, since Spark runs no copy of a task on the host of the first one."""
    crash, marker = "after a partition standing still", setting.folder / "standing-still"
    site = setting.folder / "conf"
    site.mkdir()
    (site / "spark-defaults.conf").write_text(SITE_SETTINGS)
    path = os.pathsep.join(filter(None, [str(EXAMPLES), os.environ.get("PYTHONPATH")]))
    log = setting.folder / "at_most_once-crash.log"
    with (
        standalone_cluster(setting.folder, **setting.environment(crash) | {"PYTHONPATH": path}) as master,
        setting.running(
            "at_most_once", crash=crash, master=master, **environment_of(HOSTS[0]), SPARK_CONF_DIR=str(site)
        ) as process,
    ):

        def stands() -> bool:
            setting.produce(*WORDS[:10])
            return marker.exists() and marker.read_text().endswith("\n")

        setting.wait(stands, "a task that stands still")
        standing = psutil.Process(int(marker.read_text()))
        executor, worker = [parent for parent in standing.parents() if parent.name() == "java"][:2]
        try:
            # Spark looks for tasks to copy several times in each of these batches, and would run the copy first.
            for _ in range(5):
                setting.produce(*WORDS[:10])
                last = {(partition, setting.end(partition) - 1) for partition in range(PARTITIONS)}
                setting.wait(
                    lambda last=last: setting.output().keys() >= last or process.poll() is not None,
                    "a later batch",
                )
            assert process.poll() is None, f"a copy of the task was run:\n{log.read_text()[-3000:]}"
            assert standing.status() == psutil.STATUS_STOPPED
            assert set(setting.output().values()) == {1}
            # The worker first: a task of which only the executor is lost has failed, and is not tried again at all.
            worker.kill()
            with suppress(psutil.NoSuchProcess):  # an executor ends itself when its worker is gone
                executor.kill()
            setting.wait(lambda: process.poll() is not None or max(setting.output().values()) > 1, "the second attempt")
        finally:
            with suppress(psutil.NoSuchProcess):
                standing.kill()
    assert set(setting.output().values()) == {1}
    assert "may have written these records already" in log.read_text()


def test_at_least_once_by_checkpoint_doubles_records_and_loses_none(setting: Setting) -> None:
    setting.crash("at_least_once_checkpoint", "after a partition", *WORDS)
    with setting.running("at_least_once_checkpoint"):
        setting.produce(*MORE)
        setting.wait(lambda: setting.output().keys() >= ALL, "all records")
    output = setting.output()
    assert output.keys() == ALL
    assert max(output.values()) > 1


def test_at_least_once_from_the_smallest_offset_doubles_records_and_loses_none(setting: Setting) -> None:
    setting.crash("at_least_once_earliest", "after a partition", *WORDS)
    with setting.running("at_least_once_earliest"):
        setting.produce(*MORE)
        setting.wait(lambda: setting.output().keys() >= ALL, "all records")
    output = setting.output()
    assert output.keys() == ALL
    assert max(output.values()) > 1


def test_at_least_once_by_a_group_doubles_records_and_loses_none(setting: Setting) -> None:
    setting.crash("at_least_once_group", "after a partition", *WORDS)
    with setting.running("at_least_once_group"):
        setting.produce(*MORE)
        setting.wait(lambda: setting.output().keys() >= ALL, "all records")
    output = setting.output()
    assert output.keys() == ALL
    assert max(output.values()) > 1


@pytest.mark.parametrize(
    ("example", "faults"),
    [
        ("at_least_once_checkpoint", "stream.planned@3=kill"),
        ("at_least_once_group", "stream.planned@3=kill"),
        ("at_least_once_group", "stream.done@2=kill"),
        ("at_least_once_group", "stream.committed@2=kill"),
    ],
)
def test_a_stream_killed_between_two_steps_repeats_what_is_not_committed_and_nothing_else(
    setting: Setting, example: str, faults: str
) -> None:
    with setting.running(example, faults=faults) as process:
        setting.produce(*WORDS[:50])
        setting.wait(lambda: setting.output() or process.poll() is not None, "a first batch")
        setting.produce(*WORDS[50:])
        assert process.wait(WAIT_S) == -signal.SIGKILL
    committed = setting.committed("delivery-" + setting.topic)
    with setting.running(example):
        setting.produce(*MORE)
        setting.wait(lambda: setting.output().keys() >= ALL, "all records")
    output = setting.output()
    assert output.keys() == ALL
    if example == "at_least_once_group":
        again = {position for position, count in output.items() if count > 1}
        assert all(offset >= committed.get(partition, 0) for partition, offset in again)


def test_idempotent_writes_under_a_checkpoint_are_exactly_once(setting: Setting) -> None:
    setting.crash("exactly_once_idempotent", "after a partition", *WORDS)
    with setting.running("exactly_once_idempotent"):
        setting.produce(*MORE)
        setting.wait(lambda: setting.output().keys() >= ALL, "all records")
    assert setting.output() == Counter(ALL)


@pytest.mark.parametrize("where", ["before a commit", "after a commit"])
def test_a_transaction_for_each_partition_is_exactly_once(setting: Setting, where: str) -> None:
    setting.crash("exactly_once_per_partition", where, *WORDS)
    with setting.running("exactly_once_per_partition"):
        setting.produce(*MORE)
        setting.wait(lambda: setting.output().keys() >= ALL, "all records")
    assert setting.output() == Counter(ALL)


def test_rewinding_a_stream_in_the_database_is_an_update(setting: Setting) -> None:
    setting.produce(*WORDS)
    with setting.running("exactly_once_per_partition"):
        setting.wait(lambda: sum(setting.output().values()) == 100, "all records")
    with psycopg.connect(setting.dsn) as connection:
        connection.execute("DELETE FROM output WHERE partition = 1 AND kafka_offset >= 30")
        connection.execute("UPDATE directkafka_offsets SET next_offset = 30 WHERE partition = 1")
    with setting.running("exactly_once_per_partition"):
        setting.wait(lambda: sum(setting.output().values()) == 100, "the records again")
    assert set(setting.output().values()) == {1}


@pytest.mark.parametrize("where", ["before a commit", "after a commit"])
def test_a_transaction_for_each_batch_after_a_shuffle_is_exactly_once(setting: Setting, where: str) -> None:
    setting.crash("exactly_once_per_batch", where, *WORDS)
    with setting.running("exactly_once_per_batch"):
        setting.produce(*MORE)
        setting.wait(lambda: setting.query("SELECT sum(count) FROM totals") == [(140,)], "all records")
    assert dict(setting.query("SELECT word, count FROM totals")) == Counter(WORDS + MORE)  # type: ignore[arg-type]


@pytest.mark.parametrize("where", ["between outputs", "after a commit"])
def test_several_outputs_change_as_one(setting: Setting, where: str) -> None:
    setting.crash("several_outputs", where, *WORDS)
    rows, words = setting.query("SELECT (SELECT count(*) FROM output), (SELECT coalesce(sum(count), 0) FROM totals)")[0]
    assert rows == words
    with setting.running("several_outputs"):
        setting.produce(*MORE)
        setting.wait(lambda: setting.output().keys() >= ALL, "all records")
    assert setting.output() == Counter(ALL)
    assert dict(setting.query("SELECT word, count FROM totals")) == Counter(WORDS + MORE)  # type: ignore[arg-type]


@pytest.mark.parametrize("where", ["before a rename", "after a rename"])
def test_files_that_are_named_by_their_range_are_exactly_once(setting: Setting, where: str) -> None:
    setting.crash("idempotent_files", where, *WORDS)

    def lines() -> list[str]:
        files = sorted((setting.folder / "output").glob("*.txt"))
        return [line for path in files for line in path.read_text().splitlines()]

    with setting.running("idempotent_files"):
        setting.produce(*MORE)
        setting.wait(lambda: len(lines()) >= 140, "all lines")
    assert Counter(lines()) == Counter(WORDS + MORE)


DOCUMENTS = [
    {"kind": "departure", "carrier": "LH", "delay": 5},
    {"kind": "weather", "wind": {"knots": 12}},
    {"carrier": "BA"},
    "no object",
    {"kind": {"no": "text"}},
    {"kind": "six characters: \\u0000"},
]

#: What Python may take for JSON, and Postgres does not.
REFUSED = ["{broken", "NaN", '{"delay": 1e999}', '{"kind": "a\\u0000"}', '["\\ud800"]', "[" * 100_000]


def kind_of(document: Any) -> str | None:
    kind = document.get("kind") if isinstance(document, dict) else None
    return kind if isinstance(kind, str) else None


def test_documents_with_varying_fields_are_kept_exactly_once(setting: Setting) -> None:
    texts = [json.dumps(document) for document in DOCUMENTS] + REFUSED
    setting.crash("varying_json", "after a commit", *texts)
    with setting.running("varying_json"):
        setting.wait(lambda: setting.query("SELECT count(*) FROM documents") == [(len(texts),)], "all documents")
    rows = setting.query("SELECT kind, document FROM documents")
    assert sorted(rows, key=str) == sorted(
        [*((kind_of(document), document) for document in DOCUMENTS), *(("invalid", text) for text in REFUSED)],
        key=str,
    )


def test_the_same_as_a_pipeline_file(setting: Setting) -> None:
    texts = [json.dumps(document) for document in DOCUMENTS] + REFUSED
    setting.produce(*texts)
    environment = {**os.environ, "KAFKA": setting.kafka, "TOPIC": setting.topic, "DSN": setting.dsn}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "directkafka", "run", str(EXAMPLES / "varying_json.toml")],
            env=environment, cwd=setting.folder, check=False, timeout=WAIT_S, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    rows = setting.query("SELECT kind, document FROM documents")
    objects = [
        ("departure", {"kind": "departure", "carrier": "LH", "delay": "5"}),
        ("weather", {"kind": "weather", "wind": '{"knots":12}'}),
        (None, {"carrier": "BA"}),
        ('{"no":"text"}', {"kind": '{"no":"text"}'}),
        ("six characters: \\u0000", {"kind": "six characters: \\u0000"}),
        (None, {"delay": '"Infinity"'}),  # Spark's reading of a number that is too large.
    ]
    assert sorted(rows, key=str) == sorted(objects, key=str)
    dead_letters = setting.query("SELECT convert_from(value, 'UTF8'), reason FROM rejected")
    others = [json.dumps("no object"), "{broken", "NaN", '["\\ud800"]', "[" * 100_000]
    rejected = [*((text, "no JSON object") for text in others), ('{"kind": "a\\u0000"}', "a text with a NUL")]
    assert sorted(dead_letters) == sorted(rejected)
