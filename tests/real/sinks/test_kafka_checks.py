"""What the Kafka store looks at before it writes, and what it makes of record batches that a topic does not take."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from tests.contract.kafka_harness import KafkaHarness
from tests.real.kafka.logs import create_topic_again, delete_topic, set_topic_config
from tests.real.spark.test_groups import committed
from tests.waiting import WAIT_S, until

from directkafka.errors import EnvironmentFaultError, RowRejectedError, StoreUnavailableError
from directkafka.offsets import PartitionProgress
from directkafka.sinks.kafka import requirements
from directkafka.sinks.kafka.requirements import VERIFICATION
from directkafka.testing.store_driver import SCHEMA, Job, seen_soon

pytestmark = pytest.mark.real

WAYS = pytest.mark.parametrize("staged", [False, True], ids=["inline", "by tasks"])


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    ours = [record for record in caplog.records if record.name.startswith("directkafka")]
    return [record.getMessage() for record in ours if record.levelno == logging.WARNING]


# Brokers.


def test_brokers_that_are_too_old_are_refused_before_anything_is_written(
    harness: KafkaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that can be had are new enough; so the sign of it is moved to where they are not."""
    monkeypatch.setattr(requirements, "BROKERS_VERIFY_VERSION", 99)
    sink = harness.sink("flights")
    with pytest.raises(
        EnvironmentFaultError, match=r"broker 1 at .*AddPartitionsToTxn up to version \d+, needed is 99"
    ):
        sink.check(SCHEMA)
    with pytest.raises(EnvironmentFaultError):
        harness.open_store().fence("flights")
    topics = AdminClient({"bootstrap.servers": harness.servers}).list_topics(timeout=WAIT_S).topics
    assert not [name for name in topics if name.startswith(f"{harness.prefix}.ledger")]


@contextmanager
def without_verification(servers: str) -> Iterator[None]:
    """The broker's setting is off meanwhile, and seen so."""
    admin = AdminClient({"bootstrap.servers": servers})
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")

    def set_to(operation: AlterConfigOpType, value: str) -> None:
        entry = ConfigEntry(VERIFICATION, value, incremental_operation=operation)
        asked = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        admin.incremental_alter_configs([asked])[asked].result(WAIT_S)
        seen = lambda: admin.describe_configs([resource])[resource].result(WAIT_S)[VERIFICATION].value  # noqa: E731
        until(lambda: seen() == value, "the setting does not change")

    set_to(AlterConfigOpType.SET, "false")
    try:
        yield
    finally:
        set_to(AlterConfigOpType.DELETE, "true")


def test_verification_that_is_off_is_told_once(harness: KafkaHarness, caplog: pytest.LogCaptureFixture) -> None:
    sink = harness.sink("flights")
    with without_verification(harness.servers):
        sink.check(SCHEMA)
        sink.check(SCHEMA)
    (warning,) = warnings(caplog)
    assert f"{VERIFICATION} is false at broker 1" in warning
    harness.sink("flights").check(SCHEMA)
    assert len(warnings(caplog)) == 1


# Record batches that are too large.

ROWS = [(number, number * 10**9) for number in range(200)]
TRIES_MAX = 5


@pytest.mark.parametrize(
    ("staged", "codec"),
    [(False, "none"), pytest.param(True, "none", marks=pytest.mark.slow), (True, "lz4")],
    ids=["inline", "by tasks", "by tasks, compressed"],
)
def test_a_batch_that_is_too_large_is_written_again_as_smaller_ones(
    harness: KafkaHarness, caplog: pytest.LogCaptureFixture, staged: bool, codec: str
) -> None:
    harness.params |= {"compression.type": codec}
    sink = harness.sink("flights", staged=staged)
    set_topic_config(harness.servers, sink.name, {"max.message.bytes": "400"})
    job = Job(harness.open_store()).start()
    with pytest.raises(StoreUnavailableError, match=r"error 10 .*max.message.bytes: a batch of \d+ records has"):
        job.run((sink, [ROWS[:100], ROWS[100:]]))
    for _ in range(TRIES_MAX):
        with suppress(StoreUnavailableError):
            job.run((sink, [ROWS[:100], ROWS[100:]]))
            break
    assert harness.rows(sink) == ROWS
    told = warnings(caplog)
    assert "its max.message.bytes is 400" in told[0]
    # What was learned is remembered.
    job.run((sink, [ROWS]))
    assert warnings(caplog) == told


@pytest.mark.slow
@WAYS
def test_a_record_that_is_too_large_by_itself_is_refused_with_its_numbers(harness: KafkaHarness, staged: bool) -> None:
    sink = harness.sink("flights", staged=staged)
    set_topic_config(harness.servers, sink.name, {"max.message.bytes": "80"})
    job = Job(harness.open_store()).start()
    with pytest.raises(RowRejectedError, match=r"refuses a row: .*bytes: a single record has 1\d\d bytes") as caught:
        job.run((sink, [[(10**15, 10**15)]]))
    assert str(caught.value).startswith(f"topic {sink.name} at ")
    assert harness.rows(sink) == []


# Groups.


def test_topics_that_are_gone_are_left_out_of_the_groups_offsets(
    harness: KafkaHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """The contract's driver reads a topic of this name; it comes and goes here."""
    sink, group = harness.sink("flights"), f"{harness.prefix}-lag"
    sink._inner.offsets_group = group
    job = Job(harness.open_store()).start()
    job.run((sink, [[(1, 1)]]))
    job.run((sink, [[(2, 1)]]))
    (warning,) = warnings(caplog)
    assert f"group {group} lacks offsets" in warning
    assert "no longer all partitions of flights" in warning
    create_topic_again(harness.servers, "flights")
    try:
        job.run((sink, [[(3, 1)]]))
        assert committed(harness.servers, group, "flights", 1) == {0: 30}
    finally:
        delete_topic(harness.servers, "flights")
    assert harness.rows(sink) == [(1, 1), (2, 1), (3, 1)]
    assert len(warnings(caplog)) == 1


# A ledger of many partitions.


@pytest.mark.slow
def test_a_ledger_of_forty_thousand_partitions_is_one_record_that_its_topic_takes(harness: KafkaHarness) -> None:
    """7 MB as JSON; a topic takes 1 MiB by default, compressed."""
    job = Job(harness.open_store()).start()
    progress = tuple(
        PartitionProgress(
            topic=f"flights-{number // 100:04d}",
            partition=number % 100,
            topic_id=str(uuid.UUID(int=7**40 * (number // 100 + 1) % 2**128)),
            start=number * 7919 % 1_000_003,
            end=number * 7919 % 1_000_003 + 1_000,
            leader_epoch=number % 7,
            origin=number % 13,
        )
        for number in range(40_000)
    )
    entry = replace(job.next_entry(), progress=tuple(sorted(progress)))
    committed = job.store.commit(entry, previous=None)
    assert seen_soon(partial(harness.open_store().read, "flights"), committed) == committed
