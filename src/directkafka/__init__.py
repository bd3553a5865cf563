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
    from directkafka.options.consumer import Assign, ConsumerStrategy, Subscribe, SubscribePattern
    from directkafka.pipeline.pipeline import Pipeline
    from directkafka.pipeline.structured.api import cause_of, foreach_batch, write_stream
    from directkafka.pipeline.structured.restart import LedgerChange, adopt, restart
    from directkafka.sinks.api import Sink, SinkCapabilities, Store
    from directkafka.sinks.delta.sink import DeltaSink
    from directkafka.sinks.embedded.duckdb import DuckDBSink
    from directkafka.sinks.embedded.sqlite import SQLiteSink
    from directkafka.sinks.files.reader import read_parquet
    from directkafka.sinks.files.sink import FilesSink, ParquetSink
    from directkafka.sinks.kafka.sink import KafkaSink
    from directkafka.sinks.postgres.sink import PostgresSink
    from directkafka.spark.cluster import Cluster, lag
    from directkafka.spark.dataframe import create_dataframe
    from directkafka.spark.datasource.source import register

#: Public name to the module that has it.
_HOME = {
    "Assign": "directkafka.options.consumer",
    "Cluster": "directkafka.spark.cluster",
    "ConsumerRecord": "directkafka.spark.rdd.consumer_record",
    "DataLossError": "directkafka.errors",
    "DeltaSink": "directkafka.sinks.delta.sink",
    "DirectKafkaError": "directkafka.errors",
    "DuckDBOffsets": "directkafka.sinks.embedded.offset_store",
    "DuckDBSink": "directkafka.sinks.embedded.duckdb",
    "FencedError": "directkafka.errors",
    "FilesSink": "directkafka.sinks.files.sink",
    "KafkaSink": "directkafka.sinks.kafka.sink",
    "LedgerChange": "directkafka.pipeline.structured.restart",
    "LineageError": "directkafka.errors",
    "Moment": "directkafka.planning.trigger",
    "OffsetDatabase": "directkafka.sinks.offset_store",
    "OffsetMismatchError": "directkafka.errors",
    "OffsetRange": "directkafka.offsets",
    "OffsetStore": "directkafka.sinks.offset_store",
    "OptionError": "directkafka.errors",
    "ParquetSink": "directkafka.sinks.files.sink",
    "PerPartitionConfig": "directkafka.spark.dstream.state",
    "Pipeline": "directkafka.pipeline.pipeline",
    "PostgresSink": "directkafka.sinks.postgres.sink",
    "PreferBrokers": "directkafka.planning.placement",
    "PreferConsistent": "directkafka.planning.placement",
    "PreferFixed": "directkafka.planning.placement",
    "SQLiteOffsets": "directkafka.sinks.embedded.offset_store",
    "SQLiteSink": "directkafka.sinks.embedded.sqlite",
    "Sink": "directkafka.sinks.api",
    "SinkCapabilities": "directkafka.sinks.api",
    "Store": "directkafka.sinks.api",
    "ConsumerStrategy": "directkafka.options.consumer",
    "Subscribe": "directkafka.options.consumer",
    "SubscribePattern": "directkafka.options.consumer",
    "TopicPartition": "directkafka.offsets",
    "adopt": "directkafka.pipeline.structured.restart",
    "cause_of": "directkafka.pipeline.structured.api",
    "create_dataframe": "directkafka.spark.dataframe",
    "create_direct_stream": "directkafka.spark.dstream.stream",
    "create_rdd": "directkafka.spark.rdd.rdd",
    "foreach_batch": "directkafka.pipeline.structured.api",
    "lag": "directkafka.spark.cluster",
    "offset_ranges": "directkafka.spark.rdd.rdd",
    "record_counts": "directkafka.spark.rdd.rdd",
    "read_parquet": "directkafka.sinks.files.reader",
    "register": "directkafka.spark.datasource.source",
    "restart": "directkafka.pipeline.structured.restart",
    "write_stream": "directkafka.pipeline.structured.api",
}

__all__ = [
    "Assign",
    "Cluster",
    "ConsumerRecord",
    "ConsumerStrategy",
    "DataLossError",
    "DeltaSink",
    "DirectKafkaError",
    "DuckDBOffsets",
    "DuckDBSink",
    "FencedError",
    "FilesSink",
    "KafkaSink",
    "LedgerChange",
    "LineageError",
    "Moment",
    "OffsetDatabase",
    "OffsetMismatchError",
    "OffsetRange",
    "OffsetStore",
    "OptionError",
    "ParquetSink",
    "PerPartitionConfig",
    "Pipeline",
    "PostgresSink",
    "PreferBrokers",
    "PreferConsistent",
    "PreferFixed",
    "SQLiteOffsets",
    "SQLiteSink",
    "Sink",
    "SinkCapabilities",
    "Store",
    "Subscribe",
    "SubscribePattern",
    "TopicPartition",
    "__version__",
    "adopt",
    "cause_of",
    "create_dataframe",
    "create_direct_stream",
    "create_rdd",
    "foreach_batch",
    "lag",
    "offset_ranges",
    "read_parquet",
    "record_counts",
    "register",
    "restart",
    "write_stream",
]


def __getattr__(name: str) -> Any:
    if name == "testing":
        return importlib.import_module("directkafka.testing")
    if name not in _HOME:
        raise AttributeError(f"module 'directkafka' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
