"""Requests from plain values, and those of transactions and of the ledger's topic: kafka-python's schemas.

Beside each the highest version that this library has been written and tested for. Above version 3 of
AddPartitionsToTxn only brokers talk to each other; EndTxn 5 belongs to KIP-890's second part, in which a broker
raises the epoch at the end of a transaction by itself. Here the driver does so before each one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka.protocol.admin.configs import DescribeConfigsRequest
from kafka.protocol.admin.topics import CreateTopicsRequest
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

__all__ = ["TRANSACTION_REQUESTS", "fill"]

TRANSACTION_REQUESTS: Final[dict[str, tuple[Any, int]]] = {
    "AddOffsetsToTxn": (AddOffsetsToTxnRequest, 3),
    "AddPartitionsToTxn": (AddPartitionsToTxnRequest, 3),
    "ApiVersions": (ApiVersionsRequest, 2),
    "CreateTopics": (CreateTopicsRequest, 7),
    "DescribeConfigs": (DescribeConfigsRequest, 4),
    "DescribeTransactions": (DescribeTransactionsRequest, 0),
    "EndTxn": (EndTxnRequest, 3),
    "InitProducerId": (InitProducerIdRequest, 4),
    "ListTransactions": (ListTransactionsRequest, 1),
    "TxnOffsetCommit": (TxnOffsetCommitRequest, 3),
}


def fill(container: Any, values: Mapping[str, Any]) -> Any:
    """A request, or a structure in one, from nested dicts: kafka-python has a class for each structure."""
    filled = {}
    for name, value in values.items():
        schema = container._struct.fields[name]
        if schema.is_struct_array() and value is not None:
            filled[name] = [fill(schema.data_class, structure) for structure in value]
        else:
            filled[name] = value
    return container(**filled)
