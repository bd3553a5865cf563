"""How far a Structured Streaming query is behind, as numbers a program can read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from directkafka.offsets import TopicPartition, from_nested

__all__ = ["lag"]


def lag(progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Offsets that a query has not read yet, by partition, as of one of its progress reports.

    ::

        behind = lag(query.lastProgress)
        if sum(behind.values()) > 1_000_000: ...

    Args:
        progress: ``query.lastProgress``, one of ``query.recentProgress``, or the JSON of a listener's event as a
            dict. Sources that are not Kafka's are passed over; the JVM connector's count too.

    Returns:
        For each partition that the cluster had: latest offset less the end of the batch. Two sources that read one
        partition count for the one that is further behind.
    """
    behind: dict[TopicPartition, int] = {}
    for source in progress["sources"]:
        latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
        for one, offset in latest.items():
            # A partition that no batch has reached yet starts at an offset that the report does not tell.
            if one in end:
                behind[one] = max(behind.get(one, 0), offset - end[one], 0)
    return behind


def _offsets(told: Any) -> dict[TopicPartition, int]:
    """Offsets as a report has them: an object, or its text; of another kind of source, anything."""
    try:
        nested = json.loads(told) if isinstance(told, str) else told
        return from_nested(nested) if nested else {}
    except (ValueError, TypeError, AttributeError):
        return {}
