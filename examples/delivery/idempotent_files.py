"""Exactly once into plain text files: a file's name is its range, and the names are the only record of progress.

1. A task writes its records to a temporary file and renames it to ``topic-partition-from-until.txt``: it is there in
   full or not at all.
2. A restart reads the names: each partition goes on where its last file ends. A batch that was interrupted is cut
   anew, after the files that it had finished.

The folder is one that the driver and all executors see. For one driver at a time: two would cut the same records into
different files. A pipeline into ``dk.FilesSink`` fences the older one, and writes plain text too.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator

from pyspark import RDD
from setting import FOLDER, TOPIC, crash_if_asked, kafka_params, run, streaming_context

import directkafka as dk

OUTPUT = FOLDER / "output"
NAME = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)-(?P<start>\d+)-(?P<end>\d+)\.txt")


def save(offset_range: dk.OffsetRange, records: Iterable[dk.ConsumerRecord]) -> Iterator[str]:
    """Runs on executors; an attempt has a temporary file of its own."""
    if not offset_range.count():
        return
    path = OUTPUT / (
        f"{offset_range.topic}-{offset_range.partition:05}-"
        f"{offset_range.from_offset:020}-{offset_range.until_offset:020}.txt"
    )
    temporary = path.with_suffix(f".{uuid.uuid4().hex}.tmp")
    with temporary.open("wb") as file:
        file.writelines((record.value or b"") + b"\n" for record in records)
        file.flush()
        os.fsync(file.fileno())
    crash_if_asked("before a rename")
    temporary.rename(path)
    crash_if_asked("after a rename")
    yield path.name


def write(rdd: RDD) -> None:
    """Runs on the driver, for each batch."""
    ranges = dk.offset_ranges(rdd)
    rdd.mapPartitionsWithIndex(lambda number, records: save(ranges[number], records)).foreach(lambda name: None)


def offsets_of_files() -> dict[dk.TopicPartition, int]:
    """Where the files end, by partition; each begins where the one before it ends, or records would be missing."""
    ends: dict[dk.TopicPartition, int] = {}
    for path in sorted(OUTPUT.glob("*.txt")):
        if match := NAME.fullmatch(path.name):
            partition = dk.TopicPartition(match["topic"], int(match["partition"]))
            if ends.get(partition, int(match["start"])) != int(match["start"]):
                raise RuntimeError(f"there is no file with the records between {ends[partition]} and {path.name}")
            ends[partition] = int(match["end"])
    return ends


if __name__ == "__main__":
    OUTPUT.mkdir(parents=True, exist_ok=True)
    with dk.Cluster(kafka_params()) as cluster:
        starts = cluster.earliest(cluster.partitions(TOPIC)) | offsets_of_files()
    context = streaming_context()
    stream = dk.create_direct_stream(context, dk.Assign(list(starts), kafka_params(), starts))
    stream.foreachRDD(write)
    run(context)
