"""Which brokers are refused, what is said of others, and how many replicas a ledger is given."""

from __future__ import annotations

import pytest

from directkafka.errors import EnvironmentFaultError
from directkafka.kafka.admin.configs import Broker
from directkafka.sinks.kafka.requirements import LOG_REPLICAS, VERIFICATION, check_brokers, in_sync_of, replicas_of

PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 0, 22, 24, 26

#: What Kafka 3.6 speaks of what is asked of it.
VERSIONS = {
    PRODUCE: (0, 9),
    10: (0, 4),
    INIT_PRODUCER_ID: (0, 4),
    ADD_PARTITIONS: (0, 4),
    25: (0, 3),
    END_TXN: (0, 3),
    28: (0, 3),
}


def broker(
    versions: dict[int, tuple[int, int]] | None = None, settings: dict[str, str] | None = None, node_id: int = 1
) -> Broker:
    return Broker(
        node_id=node_id, address=f"kafka{node_id}:9092", versions=VERSIONS | (versions or {}), settings=settings or {}
    )


def test_brokers_of_3_6_and_of_today_are_taken_without_a_word() -> None:
    today = {PRODUCE: (3, 13), INIT_PRODUCER_ID: (0, 6), ADD_PARTITIONS: (0, 5), END_TXN: (0, 5), 28: (0, 5)}
    assert check_brokers([broker(), broker(today, {VERIFICATION: "true"}, 2)]) == ()


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ({ADD_PARTITIONS: (0, 3)}, r"AddPartitionsToTxn up to version 3, needed is 4 \(Kafka 3\.6\)"),
        ({INIT_PRODUCER_ID: (0, 2)}, r"InitProducerId up to version 2, needed is 3 to 4 \(Kafka 2\.5\)"),
        ({PRODUCE: (0, 8)}, r"Produce up to version 8, needed is 9 to 11 \(Kafka 2\.8\)"),
        ({PRODUCE: (12, 15)}, r"Produce from version 12 on, needed is 9 to 11"),
        ({ADD_PARTITIONS: (4, 5)}, r"AddPartitionsToTxn from version 4 on, needed is 3"),
        ({END_TXN: (-1, -1)}, r"EndTxn not at all, needed is 0 to 3"),
    ],
)
def test_a_broker_that_cannot_is_refused_with_what_it_speaks_and_what_is_needed(
    versions: dict[int, tuple[int, int]], message: str
) -> None:
    with pytest.raises(
        EnvironmentFaultError, match=rf"broker 2 at kafka2:9092 speaks {message}.*3\.6 or later"
    ) as caught:
        check_brokers([broker(), broker(versions, node_id=2)])
    assert "kafka1" not in str(caught.value)


def test_verification_that_is_off_is_a_warning_and_one_that_is_not_seen_is_none() -> None:
    (warning,) = check_brokers([broker(settings={VERIFICATION: "false"}), broker(node_id=2)])
    assert warning.startswith(f"{VERIFICATION} is false at broker 1: ")


@pytest.mark.parametrize(
    ("given", "settings", "brokers", "count", "is_guess"),
    [
        (2, {LOG_REPLICAS: "3"}, 3, 2, False),
        # Two of three brokers are up: the number is that of the cluster, not of the moment.
        (None, {LOG_REPLICAS: "3"}, 2, 3, False),
        (None, {LOG_REPLICAS: "1"}, 3, 1, False),
        (None, {}, 5, 3, True),
        (None, {}, 1, 1, True),
    ],
)
def test_a_ledger_has_as_many_replicas_as_is_told_or_as_the_log_of_transactions(
    given: int | None, settings: dict[str, str], brokers: int, count: int, is_guess: bool
) -> None:
    replicas = replicas_of(given, [broker(settings=settings, node_id=number) for number in range(brokers)])
    assert (replicas.count, replicas.is_guess) == (count, is_guess)


@pytest.mark.parametrize(("replicas", "in_sync"), [(1, 1), (2, 1), (3, 2), (5, 2)])
def test_a_write_waits_for_two_replicas_where_one_broker_may_be_away(replicas: int, in_sync: int) -> None:
    assert in_sync_of(replicas) == in_sync
