"""A driver with few rights, who logs in by SCRAM over TLS: a missing right is named, and nothing half written.

The broker allows what an ACL allows and nothing else. The tests' own tools use another listener, and may do everything.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.contract.kafka_harness import KafkaHarness, KeyedRows, still_open
from tests.real.kafka.logs import create_topic_again, forget_connections
from tests.real.secure_broker import PASSWORD, USER, Authorities, add_users, make_authorities, secure_broker
from tests.real.spark.test_groups import committed
from tests.waiting import WAIT_S, until

from directkafka.errors import DirectKafkaError, StoreAccessError
from directkafka.testing import KafkaBroker
from directkafka.testing.store_driver import SCHEMA, Job

pytestmark = [pytest.mark.real, pytest.mark.slow]

WAYS = pytest.mark.parametrize("staged", [False, True], ids=["inline", "by tasks"])

Right = tuple[ResourceType, str, AclOperation]


@pytest.fixture(scope="module")
def authorities() -> Authorities:
    return make_authorities()


@pytest.fixture(scope="module")
def broker(authorities: Authorities) -> Iterator[KafkaBroker]:
    with secure_broker(authorities, everyone_may=False) as started:
        add_users(started)
        yield started
        forget_connections()


@dataclass
class Rights:
    """What the user may do; what is given or taken holds when a call returns."""

    admin: AdminClient

    def give(self, *rights: Right) -> None:
        self._done(self.admin.create_acls([_binding(right) for right in rights]))
        until(lambda: set(map(str, rights)) <= self._seen(), "the rights do not come")

    def take(self, *rights: Right) -> None:
        self._done(self.admin.delete_acls([_filter(right) for right in rights]))
        until(lambda: not set(map(str, rights)) & self._seen(), "the rights do not go")

    def _seen(self) -> set[str]:
        """The broker asks itself, as it does for any request."""
        bindings = self.admin.describe_acls(
            AclBindingFilter(
                ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
            )
        ).result(WAIT_S)
        return {str((binding.restype, binding.name, binding.operation)) for binding in bindings}

    def _done(self, futures: Mapping[Any, Any]) -> None:
        for future in futures.values():
            future.result(WAIT_S)


def _binding(right: Right) -> AclBinding:
    kind, name, operation = right
    return AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)


def _filter(right: Right) -> AclBindingFilter:
    kind, name, operation = right
    return AclBindingFilter(
        kind, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation, AclPermissionType.ALLOW
    )


class World:
    """A topic, a pipeline's names, and a user who has every right on them that the guide lists."""

    def __init__(self, broker: KafkaBroker, authorities: Authorities) -> None:
        self.harness = KafkaHarness(
            broker.bootstrap_servers,
            params={
                "bootstrap.servers": broker.addresses("LOGIN"),
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": USER,
                "sasl.password": PASSWORD,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": authorities.trusted.pem,
                "max.block.ms": 2_000,
            },
        )
        self.rights = Rights(AdminClient({"bootstrap.servers": broker.bootstrap_servers}))
        self.topic = self.harness.make_topic("flights")
        self.group = f"{self.harness.prefix}-lag"
        self.ledger = f"{self.harness.prefix}.ledger.flights"
        self.transactional_id = f"{self.harness.prefix}.flights"
        topic, operation = ResourceType.TOPIC, AclOperation
        self.needed: dict[str, Right] = {
            "transactional id": (ResourceType.TRANSACTIONAL_ID, self.transactional_id, operation.WRITE),
            "rows": (topic, self.topic, operation.WRITE),
            "group": (ResourceType.GROUP, self.group, operation.READ),
            # The source, whose offsets go to the group; the contract's driver calls it so.
            "source": (topic, "flights", operation.READ),
            "ledger create": (topic, self.ledger, operation.CREATE),
            "ledger configs": (topic, self.ledger, operation.DESCRIBE_CONFIGS),
            "ledger read": (topic, self.ledger, operation.READ),
            "ledger write": (topic, self.ledger, operation.WRITE),
        }

    def give(self, *, without: str = "") -> None:
        self.rights.give(*(right for name, right in self.needed.items() if name != without))

    def sink(self, *, staged: bool = False) -> KeyedRows:
        sink = self.harness.sink("flights", staged=staged)
        sink._inner.offsets_group = self.group
        return sink

    def start(self) -> Job:
        return Job(self.harness.open_store()).start()

    def is_empty(self) -> bool:
        """Whether nobody sees anything, and nothing stays open."""
        self.harness.close()
        assert still_open(self.harness.servers, self.harness.prefix) == []
        return self.harness.rows(self.sink()) == []


@pytest.fixture
def world(broker: KafkaBroker, authorities: Authorities) -> Iterator[World]:
    if "flights" not in AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=WAIT_S).topics:
        create_topic_again(broker.bootstrap_servers, "flights")
    made = World(broker, authorities)
    yield made
    made.harness.close()
    assert made.harness.leftovers() == []
    made.rights.take(*made.needed.values())


@WAYS
def test_scram_over_tls_writes_whole_transactions(world: World, staged: bool, caplog: pytest.LogCaptureFixture) -> None:
    """With the rights that the guide lists, and no others; offsets go to the group with the rows."""
    world.give()
    with caplog.at_level(logging.WARNING):
        sink, job = world.sink(staged=staged), world.start()
        for number in range(3):
            job.run((sink, [[(2 * number, 1)], [(2 * number + 1, 1)]]))
    assert world.harness.rows(sink) == [(number, 1) for number in range(6)]
    assert committed(world.harness.servers, world.group, "flights", 1) == {0: 30}
    # What this user may not see of the brokers' settings is guessed, and said; nothing else is.
    assert [record.getMessage().partition(" is made with ")[0] for record in caplog.records] == [
        f"the ledger's topic {world.ledger}"
    ]
    assert PASSWORD not in caplog.text


def start_and_run(world: World, *, staged: bool = False) -> None:
    sink = world.sink(staged=staged)
    sink.check(SCHEMA)
    job = world.start()
    job.run((sink, [[(1, 1)], [(2, 1)]]))
    # A second driver looks at the topic that the first one made.
    world.start()


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("transactional id", "DESCRIBE and WRITE on the transactional id"),
        ("ledger create", "CREATE on the topic"),
        ("ledger read", "READ on the topic"),
        ("ledger write", "WRITE on the topic"),
    ],
)
def test_a_right_that_is_missing_is_named_and_nothing_is_written(world: World, missing: str, message: str) -> None:
    world.give(without=missing)
    with pytest.raises(StoreAccessError) as caught:
        start_and_run(world)
    name = world.transactional_id if missing == "transactional id" else world.ledger
    assert f"Give user {USER!r} the rights" in str(caught.value)
    assert message in str(caught.value)
    assert name in str(caught.value)
    assert world.is_empty()


@WAYS
@pytest.mark.parametrize("describes", [True, False], ids=["may describe", "may not describe"])
def test_a_topic_that_may_not_be_written_to_is_named(world: World, describes: bool, staged: bool) -> None:
    world.give(without="rows")
    describe = (ResourceType.TOPIC, world.topic, AclOperation.DESCRIBE)
    if describes:
        world.rights.give(describe)
    with pytest.raises(StoreAccessError) as caught:
        start_and_run(world, staged=staged)
    assert world.topic in str(caught.value)
    assert "on the topic" in str(caught.value)
    assert world.is_empty()
    if describes:
        world.rights.take(describe)


def test_the_ledgers_settings_must_be_seen_by_the_second_driver(world: World) -> None:
    world.give(without="ledger configs")
    with pytest.raises(StoreAccessError, match="DESCRIBE and DESCRIBE_CONFIGS on the topic"):
        start_and_run(world)
    assert world.harness.rows(world.sink()) == [(1, 1), (2, 1)]


@WAYS
@pytest.mark.parametrize("taken", ["rows", "transactional id", "ledger write"])
def test_a_right_that_is_taken_between_two_batches_stops_at_the_second(world: World, taken: str, staged: bool) -> None:
    """And when it is back, the pipeline goes on where it stopped."""
    world.give()
    sink, job = world.sink(staged=staged), world.start()
    job.run((sink, [[(1, 1)]]))
    world.rights.take(world.needed[taken])
    with pytest.raises(DirectKafkaError) as caught:
        job.run((sink, [[(2, 1)]]))
    assert "rights (ACLs)" in str(caught.value) or "right (ACL)" in str(caught.value)
    assert world.harness.stable_values(sink) == [(1, 1)]
    world.rights.give(world.needed[taken])
    job.run((sink, [[(2, 1)]]))
    assert world.harness.rows(sink) == [(1, 1), (2, 1)]


# Groups.


def warnings_of(caplog: pytest.LogCaptureFixture, group: str) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if group in record.getMessage() and record.levelno == logging.WARNING
    ]


@pytest.mark.parametrize(("missing", "message"), [("group", "READ on the group"), ("source", "READ on the topic")])
def test_a_group_that_may_not_be_used_is_told_once_and_the_batches_are_committed(
    world: World, caplog: pytest.LogCaptureFixture, missing: str, message: str
) -> None:
    world.give(without=missing)
    sink, job = world.sink(), world.start()
    job.run((sink, [[(1, 1)]]))
    job.run((sink, [[(2, 1)]]))
    (warning,) = warnings_of(caplog, world.group)
    assert message in warning
    assert world.harness.rows(sink) == [(1, 1), (2, 1)]
    world.rights.give(world.needed[missing])
    job.run((sink, [[(3, 1)]]))
    assert world.harness.rows(sink) == [(1, 1), (2, 1), (3, 1)]
    assert committed(world.harness.servers, world.group, "flights", 1) == {0: 30}
    assert len(warnings_of(caplog, world.group)) == 1
