"""Making the format known to a Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the format ``directkafka`` work: ``spark.read``, ``spark.readStream``, ``df.write`` and ``df.writeStream``.

    Args:
        spark: the session; others of the same application need a call of their own.
    """
    from directkafka.sources.structured import DirectKafkaDataSource

    spark.dataSource.register(DirectKafkaDataSource)
