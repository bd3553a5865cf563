"""directkafka: Kafka to PySpark to your store, exactly once, with pip alone.

Names are imported when they are first used, so that executors, which need the wire and nothing of Spark's SQL,
start quickly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from directkafka.version import __version__

if TYPE_CHECKING:
    from directkafka.errors import (
        DataLossError,
        DirectKafkaError,
        FencedError,
        LineageError,
        OffsetMismatchError,
        OptionError,
    )
    from directkafka.offsets import OffsetRange, TopicPartition
    from directkafka.pipeline.pipeline import Pipeline
    from directkafka.sinks.kafka import KafkaSink
    from directkafka.sinks.postgres import PostgresSink
    from directkafka.sources.cluster import Cluster
    from directkafka.sources.frame import create_dataframe
    from directkafka.sources.lag import lag
    from directkafka.sources.register import register
    from directkafka.stores.base import Sink, Store

#: Public name to the module that has it.
_HOME = {
    "Cluster": "directkafka.sources.cluster",
    "DataLossError": "directkafka.errors",
    "DirectKafkaError": "directkafka.errors",
    "FencedError": "directkafka.errors",
    "KafkaSink": "directkafka.sinks.kafka",
    "LineageError": "directkafka.errors",
    "OffsetMismatchError": "directkafka.errors",
    "OffsetRange": "directkafka.offsets",
    "OptionError": "directkafka.errors",
    "Pipeline": "directkafka.pipeline.pipeline",
    "PostgresSink": "directkafka.sinks.postgres",
    "Sink": "directkafka.stores.base",
    "Store": "directkafka.stores.base",
    "TopicPartition": "directkafka.offsets",
    "create_dataframe": "directkafka.sources.frame",
    "lag": "directkafka.sources.lag",
    "register": "directkafka.sources.register",
}

__all__ = [
    "Cluster",
    "DataLossError",
    "DirectKafkaError",
    "FencedError",
    "KafkaSink",
    "LineageError",
    "OffsetMismatchError",
    "OffsetRange",
    "OptionError",
    "Pipeline",
    "PostgresSink",
    "Sink",
    "Store",
    "TopicPartition",
    "__version__",
    "create_dataframe",
    "lag",
    "register",
]


def __getattr__(name: str) -> Any:
    if name == "testing":
        return importlib.import_module("directkafka.testing")
    if name not in _HOME:
        raise AttributeError(f"module 'directkafka' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
