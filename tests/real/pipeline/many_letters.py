"""A pipeline whose transform rejects every record, run by test_dead_letters.py in a JVM of a gigabyte.

Arguments: the brokers' addresses, the database and a topic, which is read as one batch.
"""

from __future__ import annotations

import sys

import directkafka as dk


def main(servers: str, dsn: str, topic: str) -> None:
    dk.Pipeline(
        "numbers",
        source={"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"},
        transform="SELECT topic, partition, offset, concat(CAST(value AS STRING), ' is no number that is wanted') AS "
        "dead_letter_reason FROM source",
        sinks=dk.PostgresSink(dsn, "records"),
        dead_letters=dk.PostgresSink(dsn, "rejected"),
        trigger="available-now",
        master="local[2]",
        spark_conf={
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        },
    ).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
