"""A frame to Kafka, beside Spark's own sink: the same rows, both at least once and acknowledged by all replicas."""

from __future__ import annotations

from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from figures import Figure, alternately, console, ratio

__all__ = ["writes"]

_PARTITIONS = 2
_WAIT_S = 60.0
#: Records of 7 bytes of key and 80 of value.
_COLUMNS = (
    "lpad(CAST(id % 9999999 AS STRING), 7, '0') AS key",
    "rpad(concat_ws(',', '2013-01-01', id % 1400), 80, 'x') AS value",
)


def writes(spark: Any, servers: str, *, records: int, repeat: int) -> list[Figure]:
    """Small records in three codecs, each side with its own default of ``batch.size``; and ours with Java's."""
    frame = spark.range(0, records, 1, 2).selectExpr(*_COLUMNS).cache()
    assert frame.count() == records
    console.print(f"{records:,} rows are cached")
    figures = []
    for codec in ("none", "lz4", "zstd"):
        topic = f"write-{codec}"
        _create(servers, topic)
        settings = {"kafka.bootstrap.servers": servers, "topic": topic, "kafka.compression.type": codec}
        sides = {"ours": ("directkafka", settings), "JVM": ("kafka", settings)}
        if codec == "lz4":
            sides["16 KiB"] = ("directkafka", settings | {"kafka.batch.size": "16384"})
        before, runs = _end(servers, topic), 0

        def write(form: str, options: dict[str, str]) -> None:
            nonlocal runs
            runs += 1
            frame.write.format(form).mode("append").options(**options).save()

        seconds = alternately(
            {side: lambda form=form, options=options: write(form, options) for side, (form, options) in sides.items()},
            repeat,
        )
        assert _end(servers, topic) - before == runs * records, "rows are missing, or there twice"
        figures.append(ratio(f"write, {codec}", seconds, over="JVM", required=2.0, records=records))
        if codec == "lz4":
            figures.append(
                ratio("write, lz4, beside batch.size=16384", seconds, over="16 KiB", required=1.0, records=records)
            )
    frame.unpersist()
    return figures


def _create(servers: str, topic: str) -> None:
    administrator = AdminClient({"bootstrap.servers": servers})
    # What was written is of no use: a benchmark must not fill the disk.
    config = {"retention.bytes": str(512 * 1024 * 1024), "retention.ms": "-1"}
    administrator.create_topics([NewTopic(topic, _PARTITIONS, 1, config=config)])[topic].result(_WAIT_S)


def _end(servers: str, topic: str) -> int:
    """How many records were ever written."""
    administrator = AdminClient({"bootstrap.servers": servers})
    places = [TopicPartition(topic, number) for number in range(_PARTITIONS)]
    found = administrator.list_offsets({place: OffsetSpec.latest() for place in places})
    return sum(found[place].result(_WAIT_S).offset for place in places)
