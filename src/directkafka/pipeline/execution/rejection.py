"""Words of rejection, which all ways of writing a batch share: how a transform rejects a record, what a dead letter is.

Executors import this module without ``pyspark.sql``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from directkafka.errors import TransformError
from directkafka.sinks.dead_letters import REPLAYS

#: The output of rejected records, and the name of the section in the pipeline file.
DEAD_LETTERS: Final = "dead_letters"

#: The column that says why a row's record is rejected; null for all others.
REASON: Final = "dead_letter_reason"

#: The same in rows that are dead letters already.
TOLD: Final = "reason"

#: Between the reasons of a record that was rejected more than once.
BETWEEN_REASONS: Final = "; "

#: What names a record.
RECORD: Final = ("topic", "partition", "offset")

#: What a dead letter has of its record, in the order of the table; the last one is a replay's.
_KEPT: Final = (*RECORD, "timestamp", "key", "value", "headers", REPLAYS)

#: In headers of a Kafka record, before the names of :data:`RECORD` and ``reason``.
HEADER: Final = "directkafka."


def no_dead_letter_sink(output: str) -> TransformError:
    """The error of an output that rejects records, where the pipeline has no sink for dead letters."""
    return TransformError(
        source=f"output {output!r}",
        cause="it rejects records, and the pipeline has no place for them: add the section [dead_letters], or the "
        "argument dead_letters",
    )


def unnamed_records(output: str, columns: Sequence[str], reason: str) -> TransformError | None:
    """The error of an output that rejects records and does not say which; None where it does.

    Args:
        output: its name.
        columns: that it has.
        reason: the one that says why.
    """
    if missing := [name for name in (*RECORD, reason) if name not in columns]:
        return TransformError(
            source=f"output {output!r}",
            cause=f"it rejects records without the columns {', '.join(missing)}, which say which record and why",
        )
    return None


def kept_columns(source: Sequence[str]) -> list[str]:
    """The columns of the source that a dead letter has.

    Raises:
        TransformError: the source does not have what names a record, or not its value.
    """
    if missing := [name for name in (*RECORD, "value") if name not in source]:
        raise TransformError(
            source="[dead_letters]",
            cause="a rejected record is kept as it came, and the source's option columns leaves out "
            + ", ".join(missing),
        )
    return [name for name in _KEPT if name in source]
