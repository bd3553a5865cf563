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
    from directkafka.monitoring.http import metrics_collector, serve_http
    from directkafka.monitoring.plots import plot_lag
    from directkafka.monitoring.traces import trace_pipelines
    from directkafka.offsets import OffsetRange, TopicPartition
    from directkafka.options.consumer import Assign, ConsumerStrategy, Subscribe, SubscribePattern
    from directkafka.payloads.decode import decode
    from directkafka.pipeline.execution.native.arrow_transform import ArrowTransform
    from directkafka.pipeline.isolation.policy import DeadLetterPolicy
    from directkafka.pipeline.pipeline import Pipeline
    from directkafka.pipeline.structured.api import cause_of, foreach_batch, write_stream
    from directkafka.pipeline.structured.restart import LedgerChange, adopt, restart
    from directkafka.sinks.api import Sink, Store
    from directkafka.sinks.capabilities import SinkCapabilities
    from directkafka.sinks.delta.sink import DeltaSink
    from directkafka.sinks.embedded.duckdb import DuckDBSink
    from directkafka.sinks.embedded.sqlite import SQLiteSink
    from directkafka.sinks.files.reader import read_parquet
    from directkafka.sinks.files.sink import FilesSink, ParquetSink
    from directkafka.sinks.kafka.sink import KafkaSink
    from directkafka.sinks.mysql.offset_store import MySQLOffsets
    from directkafka.sinks.mysql.sink import MySQLSink
    from directkafka.sinks.postgres.sink import PostgresSink
    from directkafka.spark.cluster import Cluster, lag
    from directkafka.spark.dataframe import create_dataframe
    from directkafka.spark.datasource.source import register
    from directkafka.spark.settings import spark_settings

#: Public names by the module that has them.
_NAMES = {
    "errors": "DataLossError DirectKafkaError FencedError LineageError OffsetMismatchError OptionError",
    "monitoring.http": "metrics_collector serve_http",
    "monitoring.plots": "plot_lag",
    "monitoring.traces": "trace_pipelines",
    "offsets": "OffsetRange TopicPartition",
    "options.consumer": "Assign ConsumerStrategy Subscribe SubscribePattern",
    "payloads.decode": "decode",
    "pipeline.execution.native.arrow_transform": "ArrowTransform",
    "pipeline.isolation.policy": "DeadLetterPolicy",
    "pipeline.pipeline": "Pipeline",
    "pipeline.structured.api": "cause_of foreach_batch write_stream",
    "pipeline.structured.restart": "LedgerChange adopt restart",
    "planning.placement": "PreferBrokers PreferConsistent PreferFixed",
    "planning.trigger": "Moment",
    "sinks.api": "Sink Store",
    "sinks.capabilities": "SinkCapabilities",
    "sinks.delta.sink": "DeltaSink",
    "sinks.embedded.duckdb": "DuckDBSink",
    "sinks.embedded.offset_store": "DuckDBOffsets SQLiteOffsets",
    "sinks.embedded.sqlite": "SQLiteSink",
    "sinks.files.reader": "read_parquet",
    "sinks.files.sink": "FilesSink ParquetSink",
    "sinks.kafka.sink": "KafkaSink",
    "sinks.mysql.offset_store": "MySQLOffsets",
    "sinks.mysql.sink": "MySQLSink",
    "sinks.offset_store": "OffsetDatabase OffsetStore",
    "sinks.postgres.sink": "PostgresSink",
    "spark.cluster": "Cluster lag",
    "spark.dataframe": "create_dataframe",
    "spark.datasource.source": "register",
    "spark.dstream.state": "PerPartitionConfig",
    "spark.dstream.stream": "create_direct_stream",
    "spark.rdd.consumer_record": "ConsumerRecord",
    "spark.rdd.rdd": "create_rdd offset_ranges record_counts",
    "spark.settings": "spark_settings",
}
_HOME = {name: f"directkafka.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "ArrowTransform",
    "Assign",
    "Cluster",
    "ConsumerRecord",
    "ConsumerStrategy",
    "DataLossError",
    "DeadLetterPolicy",
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
    "MySQLOffsets",
    "MySQLSink",
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
    "decode",
    "foreach_batch",
    "lag",
    "metrics_collector",
    "offset_ranges",
    "plot_lag",
    "read_parquet",
    "record_counts",
    "register",
    "restart",
    "serve_http",
    "spark_settings",
    "trace_pipelines",
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
