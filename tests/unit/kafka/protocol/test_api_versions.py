"""The table of requests beside kafka-python's schemas."""

from __future__ import annotations

import pytest

from directkafka.kafka.protocol.api_versions import (
    API_VERSIONS,
    BROKERS_VERIFY_VERSION,
    EARLIEST_LOCAL_VERSION,
    TOPIC_ID_ONLY_VERSION,
    FetchVersion,
)


@pytest.mark.parametrize("api", API_VERSIONS)
def test_kafka_python_has_a_schema_for_each_version_that_is_spoken(api: str) -> None:
    versions = API_VERSIONS[api]
    assert versions.request.__name__ == f"{api}Request"
    assert 0 <= versions.version_min <= versions.version_max <= versions.request.max_version


def test_what_a_newer_version_brings_is_within_what_is_spoken() -> None:
    assert API_VERSIONS["Metadata"].version_max >= TOPIC_ID_ONLY_VERSION
    assert API_VERSIONS["ListOffsets"].version_max >= EARLIEST_LOCAL_VERSION
    assert all(version <= API_VERSIONS["Fetch"].version_max for version in FetchVersion)
    # Only brokers speak it.
    assert API_VERSIONS["AddPartitionsToTxn"].version_max < BROKERS_VERIFY_VERSION
