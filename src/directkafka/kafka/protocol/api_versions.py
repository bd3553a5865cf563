"""Kafka's requests and the versions of them that are spoken here: the one table, and what a version brings.

A request goes out in the highest version that both sides speak. The highest here is the highest that this library has
been written and tested for:

- above AddPartitionsToTxn 3 only brokers talk to each other;
- EndTxn 5 belongs to KIP-890's second part, in which a broker raises the epoch at the end of a transaction by itself;
  here the driver does so before each one;
- from Produce 12 on the request itself adds its partitions to the transaction (KIP-890); here AddPartitionsToTxn does.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kafka.protocol.admin.configs import DescribeConfigsRequest
from kafka.protocol.admin.topics import CreateTopicsRequest
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)


class ApiVersions(NamedTuple):
    """A request of Kafka's.

    Attributes:
        request: kafka-python's class.
        version_min, version_max: the versions that are spoken here.
        release: the first release of Kafka whose brokers speak ``version_min``.
    """

    request: Any
    version_min: int
    version_max: int
    release: str

    @property
    def key(self) -> int:
        """The request's API key."""
        return int(self.request.API_KEY)


API_VERSIONS: Final[Mapping[str, ApiVersions]] = MappingProxyType(
    {
        "AddOffsetsToTxn": ApiVersions(AddOffsetsToTxnRequest, 0, 3, "0.11"),
        "AddPartitionsToTxn": ApiVersions(AddPartitionsToTxnRequest, 3, 3, "2.8"),
        "ApiVersions": ApiVersions(ApiVersionsRequest, 0, 2, "0.10"),
        "CreateTopics": ApiVersions(CreateTopicsRequest, 0, 7, "0.10.1"),
        "DescribeConfigs": ApiVersions(DescribeConfigsRequest, 0, 4, "0.11"),
        "DescribeTransactions": ApiVersions(DescribeTransactionsRequest, 0, 0, "3.0"),
        "EndTxn": ApiVersions(EndTxnRequest, 0, 3, "0.11"),
        # Below 4 a response has no last stable offset, and its records may be in formats that are not read here.
        "Fetch": ApiVersions(FetchRequest, 4, 17, "0.11"),
        "FindCoordinator": ApiVersions(FindCoordinatorRequest, 1, 3, "0.11"),
        # From 3 on a producer that was cut off gets its own id back (KIP-360).
        "InitProducerId": ApiVersions(InitProducerIdRequest, 3, 4, "2.5"),
        "ListOffsets": ApiVersions(ListOffsetsRequest, 1, 9, "0.10.1"),
        "ListTransactions": ApiVersions(ListTransactionsRequest, 0, 1, "3.0"),
        "Metadata": ApiVersions(MetadataRequest, 0, 12, "0.10"),
        "OffsetCommit": ApiVersions(OffsetCommitRequest, 0, 7, "0.10"),
        "OffsetFetch": ApiVersions(OffsetFetchRequest, 0, 7, "0.10"),
        # Below 3 only brokers ask.
        "OffsetForLeaderEpoch": ApiVersions(OffsetForLeaderEpochRequest, 3, 4, "2.3"),
        "Produce": ApiVersions(ProduceRequest, 9, 11, "2.8"),
        # From 3 on a coordinator knows a group's members from a driver that was cut off (KIP-447).
        "TxnOffsetCommit": ApiVersions(TxnOffsetCommitRequest, 3, 3, "2.5"),
    }
)

#: From this version of Metadata on, a topic may be named by its id alone (KIP-516).
TOPIC_ID_ONLY_VERSION: Final = 12
#: From this version of ListOffsets on, a leader says where the part of a log begins that is on its own disk (KIP-405).
EARLIEST_LOCAL_VERSION: Final = 8
#: By this version of AddPartitionsToTxn brokers ask each other whether a transaction is open (KIP-890).
BROKERS_VERIFY_VERSION: Final = 4


class FetchVersion(IntEnum):
    """The first version of Fetch that has a field, or a way to write it."""

    LOG_START_OFFSET = 5
    SESSION = 7
    PREFERRED_READ_REPLICA = 11
    FLEXIBLE = 12
    TOPIC_ID = 13
