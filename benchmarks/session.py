"""The Spark sessions that both sides are measured in: with the settings that we advise, and plain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

__all__ = ["Sessions"]

#: With two cores, and nothing that draws on the terminal.
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "4g",
}
_MASTER: Final = "local[2]"
#: Spark's own defaults. A JVM keeps the settings of its first session, so they must be set for the next one.
_PLAIN: Final = {"spark.python.unix.domain.socket.enabled": "false", "spark.python.daemon.module": "pyspark.daemon"}


class Sessions:
    """One session at a time, since a JVM has one Spark.

    Args:
        jars: Spark's JVM connector.
        warehouse: a folder for what Spark keeps.
    """

    def __init__(self, jars: Sequence[Path], warehouse: str) -> None:
        self._settings = _SETTINGS | {"spark.jars": ",".join(map(str, jars)), "spark.sql.warehouse.dir": warehouse}
        self._spark: Any = None
        self._is_plain = False

    def advised(self) -> Any:
        """The session with ``dk.spark_settings()``, as ``directkafka run`` starts it."""
        import directkafka

        return self._session(directkafka.spark_settings(master=_MASTER), is_plain=False)

    def plain(self) -> Any:
        """The session of somebody who sets nothing for us."""
        return self._session(_PLAIN, is_plain=True)

    def stop(self) -> None:
        """Stop the session, if there is one."""
        if self._spark is not None:
            self._spark.stop()
            self._spark = None

    def _session(self, more: Mapping[str, str], *, is_plain: bool) -> Any:
        if self._spark is None or self._is_plain is not is_plain:
            self.stop()
            self._spark, self._is_plain = _started(self._settings | dict(more)), is_plain
        return self._spark


def _started(settings: Mapping[str, str]) -> Any:
    """A session with Spark's JVM connector, and the formats ``directkafka`` and ``ready``."""
    from floor import ReadyBatches  # pyspark is imported once Java is found
    from pyspark.sql import SparkSession

    import directkafka

    builder = SparkSession.builder.appName("directkafka benchmark").master(_MASTER)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    directkafka.register(spark)
    spark.dataSource.register(ReadyBatches)
    return spark
