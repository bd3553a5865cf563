"""Counter-example: foreachBatch with Spark's JDBC writer. Doubles.

Needs Postgres' JDBC driver (``JDBC_JAR``) and where to write (``JDBC_URL``). See README.md in this folder.
"""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from setting import crash_if_asked, records, run, spark_session


def write(batch: DataFrame, batch_id: int) -> None:
    """The rows are committed here; Spark notes the batch when this returns."""
    jdbc = batch.write.format("jdbc").options(url=os.environ["JDBC_URL"], dbtable="output")
    jdbc.option("driver", "org.postgresql.Driver").mode("append").save()
    crash_if_asked(batch_id)


if __name__ == "__main__":
    run(records(spark_session(spark_jars=os.environ["JDBC_JAR"])).writeStream.foreachBatch(write))
