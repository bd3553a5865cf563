"""Reads a Structured Streaming checkpoint: who it is, and what it has planned and done.

Contract with Spark (4.2 and 4.3; ``OffsetSeqLog``, ``CommitLog``, ``StreamMetadata``): ``metadata`` is a JSON object
with the query's ``id``. ``offsets/N`` is written before batch N runs: a line ``v1`` or ``v2``, a JSON object with
``batchTimestampMs``, then one line for each source with its offset in JSON or ``-``; ``v2`` puts the source's name
and a colon before it. ``commits/N`` is there once the sink is done with N. ``sources/I/0`` is where Spark's own
Kafka source notes its initial offsets, I being the source's number or name. A partition that this source finds later
is read from 0 in the very batch that names it first (``KafkaOffsetReader.getOffsetRangesFromResolvedOffsets``; from
another offset is data loss to it).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from directkafka.errors import EnvironmentFaultError
from directkafka.offsets import TopicPartition, from_nested
from directkafka.options.texts import whole_number
from directkafka.pipeline.structured.lineage import CheckpointBatch

_VERSIONS = ("v1", "v2")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedOffsets:
    """One entry of the offset log.

    Attributes:
        sources: offsets by partition, of each source that is Kafka, by its number or name.
        planned_at_ms: when Spark planned it, in milliseconds since 1970.
    """

    sources: dict[str, dict[TopicPartition, int]]
    planned_at_ms: int

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Offsets by partition. Of two sources that read one partition, the lower."""
        return _lowest(self.sources.values())


def parse_offsets(text: str, *, path: str) -> LoggedOffsets:
    """An entry of the offset log from its text.

    Args:
        text: the file's content.
        path: the file, for messages.

    Raises:
        EnvironmentFaultError: another version of the format, or no JSON.
    """
    version, *lines = text.splitlines() or [""]
    if version not in _VERSIONS or not lines:
        raise EnvironmentFaultError(
            what=f"{path} begins with {version!r}, which is none of the formats {', '.join(_VERSIONS)}",
            remedy="Use a version of Spark that this version of directkafka supports: see pyproject.toml.",
        )
    try:
        metadata = json.loads(lines[0] or "{}")
        sources = {name: json.loads(offset) for name, offset in _source_lines(version, lines[1:])}
        planned_at_ms = int(metadata.get("batchTimestampMs", 0))
    except ValueError as error:
        raise EnvironmentFaultError(what=f"{path} is no JSON ({error})", remedy="Restore the checkpoint.") from error
    except (AttributeError, TypeError, RecursionError) as error:
        what = f"{path} is not what Spark writes ({type(error).__name__}: {error})"
        raise EnvironmentFaultError(what=what, remedy="Restore the checkpoint.") from error
    return LoggedOffsets(
        sources={name: offsets for name, source in sources.items() if (offsets := _kafka_offsets(source))},
        planned_at_ms=planned_at_ms,
    )


def _source_lines(version: str, lines: Iterable[str]) -> list[tuple[str, str]]:
    """The sources' names or numbers with their offsets; ``-`` stands for none."""
    numbered = [(str(number), line) for number, line in enumerate(lines)]
    named = [(line.partition(":")[0], line.partition(":")[2]) for _, line in numbered]
    return [(name, offset) for name, offset in (named if version == "v2" else numbered) if offset not in ("", "-")]


def _lowest(sources: Iterable[Mapping[TopicPartition, int]]) -> dict[TopicPartition, int]:
    ends: dict[TopicPartition, int] = {}
    for source in sources:
        for partition, offset in source.items():
            ends[partition] = min(offset, ends.get(partition, offset))
    return ends


def _kafka_offsets(source: Any) -> dict[TopicPartition, int]:
    """Offsets in the form that Spark's and our Kafka source share; nothing for any other source."""
    if not isinstance(source, dict):
        return {}
    is_kafka = all(
        isinstance(partitions, dict)
        and all(_is_partition(number) and isinstance(offset, int) for number, offset in partitions.items())
        for partitions in source.values()
    )
    return from_nested(source) if is_kafka else {}


def _is_partition(name: str) -> bool:
    number = whole_number(name)
    return number is not None and number >= 0


class CheckpointFiles(Protocol):
    """Where the files of a checkpoint are, and how they are read."""

    @property
    def location(self) -> str:
        """The folder, for messages."""

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder of the checkpoint, sorted; none where there is no such folder.

        Raises:
            EnvironmentFaultError: it cannot be read.
        """

    def read(self, name: str) -> str | None:
        """A file's text; None where there is none.

        Raises:
            EnvironmentFaultError: it cannot be read.
        """


class Checkpoint:
    """A checkpoint folder.

    Args:
        files: where it is.
    """

    def __init__(self, files: CheckpointFiles) -> None:
        self.location = files.location
        self._files = files

    def lineage(self) -> str | None:
        """The query's id; None when no query has ever begun here.

        Raises:
            EnvironmentFaultError: the folder cannot be read.
        """
        text = self._files.read("metadata")
        try:
            return None if text is None else str(json.loads(text)["id"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            what = f"{self.location}/metadata is not what Spark writes ({type(error).__name__}: {error})"
            raise EnvironmentFaultError(what=what, remedy="Restore the checkpoint.") from error

    def planned(self, batch_id: int) -> CheckpointBatch:
        """A batch that Spark has planned.

        Raises:
            EnvironmentFaultError: the checkpoint has no such batch: it is not this query's.
        """
        lineage, logged = self.lineage(), self.logged(batch_id)
        if lineage is None or logged is None:
            missing = "metadata" if lineage is None else f"offsets/{batch_id}"
            raise EnvironmentFaultError(
                what=f"the checkpoint {self.location} has no {missing}",
                remedy="Give directkafka the same checkpoint as the query's option checkpointLocation.",
            )
        noted = self._noted
        starts = _lowest(noted.values()) if batch_id == 0 else self._ends_before(batch_id)
        read_at_once = _lowest(offsets for name, offsets in logged.sources.items() if name in noted)
        return CheckpointBatch(
            lineage=lineage,
            batch_id=batch_id,
            starts=starts,
            ends=logged.ends,
            planned_at_ms=logged.planned_at_ms,
            joined={partition: 0 for partition in read_at_once if partition not in starts},
            # Spark's own source leaves out what it does not see at the moment.
            dropped=frozenset() if noted else frozenset(starts) - frozenset(logged.ends),
        )

    def logged(self, batch_id: int) -> LoggedOffsets | None:
        """The offset log's entry of a batch; None when there is none (any more)."""
        text = self._files.read(f"offsets/{batch_id}")
        return None if text is None else parse_offsets(text, path=f"{self.location}/offsets/{batch_id}")

    def planned_batches(self) -> list[int]:
        """Numbers of the batches that the offset log still has, ascending."""
        return self._numbers("offsets")

    def last_planned(self) -> int | None:
        """Number of the last batch in the offset log."""
        return max(self._numbers("offsets"), default=None)

    def last_done(self) -> int | None:
        """Number of the last batch in Spark's commit log."""
        return max(self._numbers("commits"), default=None)

    def _ends_before(self, batch_id: int) -> dict[TopicPartition, int]:
        before = self.logged(batch_id - 1)
        if before is None:
            raise EnvironmentFaultError(
                what=f"the checkpoint {self.location} has offsets/{batch_id} and no offsets/{batch_id - 1}",
                remedy="Restore the checkpoint; Spark keeps as many as spark.sql.streaming.minBatchesToRetain says.",
            )
        return before.ends

    @functools.cached_property
    def _noted(self) -> dict[str, dict[TopicPartition, int]]:
        """What Spark's own Kafka sources have noted before batch 0; other sources note other things, or nothing.

        It never changes, and is read once: a question to an object store takes its time.
        """
        offsets_by_source = {}
        for source in self._files.names("sources"):
            _, _, noted = (self._files.read(f"sources/{source}/0") or "").partition("\n")
            try:
                offsets = _kafka_offsets(json.loads(noted))
            except ValueError:
                offsets = {}
            if offsets:
                offsets_by_source[source] = offsets
        return offsets_by_source

    def _numbers(self, folder: str) -> list[int]:
        return sorted(int(name) for name in self._files.names(folder) if name.isdigit())
