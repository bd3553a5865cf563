"""Names of data files: who wrote one, and for what, can be read from its name.

``part-<pipeline>-<generation>-<batch>-<attempt>-<task>.<format>``, where pipeline and attempt are short hashes and
task is the task attempt's own id. While it is written, a file's name begins with a dot, which Spark, Hive and Arrow
pass over. The generation tells the janitor which files are a dead driver's: age alone would not.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from directkafka.sinks.api import BatchName

__all__ = ["FileOwner", "attempt_key", "data_file_name", "owner_of", "pipeline_key", "temporary_name"]

_NAME: Final = re.compile(r"\.?part-([0-9a-f]{10})-(\d+)-(\d+)-([0-9a-f]{12})-[0-9a-f]+\..+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOwner:
    """What a data file's name says.

    Attributes:
        pipeline, attempt: :func:`pipeline_key` and :func:`attempt_key` of the batch's name.
        generation, batch_id: of the batch's name.
    """

    pipeline: str
    generation: int
    batch_id: int
    attempt: str


def _hash(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def pipeline_key(pipeline: str) -> str:
    """What stands for a pipeline in file names."""
    return _hash(pipeline, 10)


def attempt_key(attempt: str) -> str:
    """What stands for one try of a batch in file names."""
    return _hash(attempt, 12)


def data_file_name(batch: BatchName, task_attempt: str, suffix: str) -> str:
    """The name of the file that one task attempt writes.

    Args:
        batch: which try of which batch.
        task_attempt: a UUID of the task attempt, as hex.
        suffix: what the format asks for, for example ``zstd.parquet``.
    """
    owner = f"{pipeline_key(batch.pipeline)}-{batch.generation}-{batch.batch_id}-{attempt_key(batch.attempt)}"
    return f"part-{owner}-{task_attempt[:12]}.{suffix}"


def temporary_name(name: str) -> str:
    """The name that a file has until it is whole."""
    return f".{name}"


def owner_of(name: str) -> FileOwner | None:
    """What a file's name says, temporary or not; None for a file of somebody else's."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    pipeline, generation, batch_id, attempt = found.groups()
    return FileOwner(pipeline=pipeline, generation=int(generation), batch_id=int(batch_id), attempt=attempt)
