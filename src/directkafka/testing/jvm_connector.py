"""Spark's own Kafka connector, for comparison: benchmarks run beside it, tests carry checkpoints over from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from directkafka.testing.maven_jars import Module, fetch_jars

#: The newest that resolve, each jar by itself: the published dependencies ask for other versions.
_CONNECTOR = tuple(
    Module(organisation=organisation, name=name, revision=revision, transitive=False)
    for organisation, name, revision in (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        ("org.apache.kafka", "kafka-clients", "3.9.1"),
        ("org.apache.commons", "commons-pool2", "2.13.1"),
        ("org.postgresql", "postgresql", "42.7.7"),
    )
)


def jvm_connector_jars(progress: Callable[[str], None]) -> list[Path]:
    """The jars of Spark's Kafka source and of Postgres' JDBC driver; fetched into the cache the first time.

    Args:
        progress: is told what is being fetched.

    Raises:
        EnvironmentFaultError: they cannot be fetched.
    """
    what = "Spark's JVM connector and Postgres' JDBC driver"
    return sorted(fetch_jars("jvm-connector-4.2.0", _CONNECTOR, what=what, progress=progress).glob("*.jar"))


def spark_avro_jars(progress: Callable[[str], None]) -> list[Path]:
    """The jar with Spark's ``from_avro``; fetched into the cache the first time.

    Args:
        progress: is told what is being fetched.

    Raises:
        EnvironmentFaultError: it cannot be fetched.
    """
    module = Module(organisation="org.apache.spark", name="spark-avro_2.13", revision="4.2.0", transitive=False)
    return sorted(fetch_jars("spark-avro-4.2.0", [module], what="Spark's from_avro", progress=progress).glob("*.jar"))
