"""Streaming queries whose batches are kept, for tests to look at."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

WAIT_S = 120

Places = list[tuple[int, int]]


class Output:
    """A sink that keeps ``(partition, offset)`` of each batch; a batch that is run again replaces itself."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.batches: dict[int, Places] = {}
        #: ``(topic, partition, offset)`` of every record that was given, of batches that are run again too.
        self.named: list[tuple[str, int, int]] = []
        self.before_reading: Callable[[int], object] = lambda batch_id: None
        self.after_reading: Callable[[int], object] = lambda batch_id: None

    def start(self, stream: Any, **trigger: Any) -> StreamingQuery:
        writer = stream.load().writeStream.foreachBatch(self._write).option("checkpointLocation", str(self.checkpoint))
        query: StreamingQuery = writer.trigger(**trigger or {"availableNow": True}).start()
        return query

    def run(self, stream: Any) -> StreamingQuery:
        """Run an available-now query to its end."""
        query = self.start(stream)
        assert query.awaitTermination(WAIT_S), "the query did not end"
        return query

    def _write(self, frame: DataFrame, batch_id: int) -> None:
        self.before_reading(batch_id)
        rows = frame.select("topic", "partition", "offset").collect()
        self.batches[batch_id] = [(row.partition, row.offset) for row in rows]
        self.named += [(row.topic, row.partition, row.offset) for row in rows]
        self.after_reading(batch_id)

    def all(self) -> Places:
        return sorted(position for batch in self.batches.values() for position in batch)

    def offsets(self, batch_id: int) -> dict[str, Any]:
        """The source's line of the offset log's entry."""
        source_offsets: dict[str, Any] = json.loads(
            (self.checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[-1]
        )
        return source_offsets


def places(count: int, partitions: int = 2, start: int = 0) -> Places:
    return sorted((partition, offset) for partition in range(partitions) for offset in range(start, count))


def failure_of(query: StreamingQuery) -> str:
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(WAIT_S)
    return str(caught.value)
