"""Making the format known to a Spark session."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the format ``directkafka`` work: ``spark.read``, ``spark.readStream``, ``df.write`` and ``df.writeStream``.

    Args:
        spark: the session; others of the same application need a call of their own. It becomes the thread's active
            session, in which Spark looks for the format of a write; a second call does no more.
    """
    from directkafka.spark.datasource.source import DirectKafkaDataSource, ListenedDataSource

    java_session: Any = getattr(spark, "_jsparkSession", None)
    if java_session is not None:
        # Spark asks the thread's active session: whether the name is taken, and what it stands for in a write.
        jvm: Any = spark._jvm
        jvm.SparkSession.setActiveSession(java_session)
        if java_session.sessionState().dataSourceManager().dataSourceExists(DirectKafkaDataSource.name()):
            return
        if _follow_queries(spark):
            spark.dataSource.register(ListenedDataSource.of_this_driver())
            return
    spark.dataSource.register(DirectKafkaDataSource.of_this_driver())


def _follow_queries(spark: SparkSession) -> bool:
    # Not at the top: a program under Spark Connect has no JVM to ask.
    from directkafka.spark.datasource.query_groups import follow_queries

    return follow_queries(spark)
