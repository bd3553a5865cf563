"""Apache Kafka's own jars: the published ``org.apache.kafka:kafka_2.13`` with what it depends on.

``slf4j-simple`` comes along as the logger: Kafka's artifact names none, and without one a broker that fails to
start says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from directkafka.errors import EnvironmentFaultError
from directkafka.testing.maven_jars import Module, fetch_jars, silent

#: The broker that tests and the demo run on.
KAFKA_VERSION = "4.3.0"

#: The version of slf4j that Kafka's artifact asks for.
_LOGGER = Module(organisation="org.slf4j", name="slf4j-simple", revision="1.7.36")


def broker_jars(version: str = KAFKA_VERSION, *, progress: Callable[[str], None] = silent) -> Path:
    """The folder with the broker's jars; fetches them when the cache has none (about 40 s and 44 MB).

    Args:
        version: Kafka's version.
        progress: is told in a short sentence what is being fetched; not called when all is in the cache.

    Raises:
        EnvironmentFaultError: PySpark or Java is missing, or Ivy failed; carries Ivy's last lines.
    """
    kafka = Module(organisation="org.apache.kafka", name="kafka_2.13", revision=version)
    what = f"Apache Kafka {version} (46 jars, 44 MB, once)"
    return fetch_jars(f"kafka/{version}", [kafka, _LOGGER], what=what, progress=progress)


if __name__ == "__main__":
    try:
        broker_jars(progress=lambda message: print(message, flush=True))
    except EnvironmentFaultError as error:
        raise SystemExit(str(error)) from None
