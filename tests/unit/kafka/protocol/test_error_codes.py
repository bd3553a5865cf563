"""The table of error codes beside Kafka's own, as kafka-clients 4.3 printed it, and beside kafka-python's."""

from __future__ import annotations

from pathlib import Path

import kafka.errors
import pytest

from directkafka.kafka.protocol.error_codes import STALE_METADATA, ErrorCode, error_name, is_retriable

#: Number, name, ``retriable`` or ``final``, and ``invalid-metadata`` where its exception is one.
KAFKA_S = [
    line.split() for line in (Path(__file__).parents[3] / "vectors" / "kafka_errors.txt").read_text().splitlines()
]

#: Kafka's producer sends a batch again that was damaged on its way.
DISAGREED = {ErrorCode.CORRUPT_MESSAGE}


def test_numbers_names_and_retriability_are_kafka_s() -> None:
    ours = [[str(int(code)), code.name, "retriable" if code.is_retriable else "final"] for code in ErrorCode]
    assert ours == [line[:3] for line in KAFKA_S]


def test_kafka_python_takes_the_same_codes_for_retriable() -> None:
    known = {code for code in ErrorCode if kafka.errors.for_code(code).__name__ != "UnrecognizedBrokerError"}
    assert len(known) > 120
    assert {code for code in known if kafka.errors.for_code(code).retriable != code.is_retriable} == DISAGREED


def test_stale_metadata_is_kafka_s_but_for_answers_to_elections() -> None:
    invalid = {int(line[0]) for line in KAFKA_S if line[3:] == ["invalid-metadata"]}
    elections = {
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
    }
    assert invalid - elections | {ErrorCode.UNKNOWN_LEADER_EPOCH} == STALE_METADATA


def test_each_code_says_what_has_happened() -> None:
    assert all(code.meaning for code in ErrorCode)
    assert len({code.meaning for code in ErrorCode}) == len(ErrorCode)


@pytest.mark.parametrize("code", [-2, 134, 32767])
def test_a_newer_broker_s_code_is_no_error_of_its_own(code: int) -> None:
    assert error_name(code) == "UNKNOWN"
    assert not is_retriable(code)
