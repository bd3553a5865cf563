"""Making the format known to a Spark session."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the format ``directkafka`` work: ``spark.read``, ``spark.readStream``, ``df.write`` and ``df.writeStream``.

    Args:
        spark: the session; others of the same application need a call of their own. A second call does nothing.
    """
    from directkafka.sources.structured import DirectKafkaDataSource

    java_session: Any = getattr(spark, "_jsparkSession", None)
    if java_session is not None:
        if java_session.sessionState().dataSourceManager().dataSourceExists(DirectKafkaDataSource.name()):
            return
        # Whether the name is taken, Spark asks the thread's active session, in whatever session it is registered.
        jvm: Any = spark._jvm
        jvm.SparkSession.setActiveSession(java_session)
    spark.dataSource.register(DirectKafkaDataSource)
