"""The effects of a reset on each table: offsets that are lost to it, rows that come a second time, rows deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from directkafka.errors import OptionError, StoreError
from directkafka.offsets import OffsetRange
from directkafka.operations.records_in_log import RecordsInLog
from directkafka.planning.reset_target import RowsPolicy
from directkafka.sinks.api import Sink
from directkafka.sinks.record_rows import RecordRows

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: The end of the year 9999. A timestamp may be any number of 64 bits.
_LAST_MS: Final = 253_402_300_799_999


class Effect(StrEnum):
    """What becomes of the rows of a range of offsets.

    - ``lost``: the records are never read.
    - ``doubled``: the records are read again, and their rows are there twice.
    - ``repeated``: the records are read again, and their rows take the places of those that are there.
    - ``deleted``: the rows are deleted, and the records are read again.
    """

    LOST = "lost"
    DOUBLED = "doubled"
    REPEATED = "repeated"
    DELETED = "deleted"

    @classmethod
    def of(cls, sink: Sink, table: RecordRows | None, rows: RowsPolicy, *, is_rewound: bool) -> Effect:
        """The effect of reading records again.

        Args:
            sink: whose rows they are.
            table: its table; None where rows cannot leave it.
            rows: what was asked for.
            is_rewound: whether any are read again.

        Raises:
            OptionError: the rows cannot be deleted, or numbers would be added up a second time.
        """
        mode = sink.capabilities.write_mode
        if is_rewound and mode is not None and mode.name == "merge" and not (table is not None and table.is_empty()):
            raise OptionError(
                option="--rows",
                reason=f"{sink.name} adds numbers up (mode merge), so records that are read again would be counted "
                "twice, and no row can be taken out: empty the table first, and reset to where all of it comes again",
            )
        if rows is RowsPolicy.DELETE and is_rewound:
            if table is None:
                raise OptionError(
                    option="--rows",
                    reason=f"rows cannot be deleted from {sink.name} of {sink.store.identity}; keep them, and let "
                    "those who read them drop what comes twice",
                )
            if table.is_there and not table.names_records:
                raise OptionError(
                    option="--rows",
                    reason=f"rows of {sink.name} do not say which records they came from: the table needs the columns "
                    "topic, partition and offset",
                )
            if table.is_there:
                table.check_deletable()
            return cls.DELETED
        return cls.DOUBLED if mode is None or mode.name == "append" else cls.REPEATED


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEffect:
    """What a reset does to one table by one partition.

    Attributes:
        store, sink: which table.
        topic, partition: which partition.
        current, new: the next offset before and after.
        effect: what becomes of the range between the two.
        offsets: how many offsets that are.
        in_log: what the log has of them.
        rows: how many rows of these records the table has; None where they do not say.
    """

    store: str
    sink: str
    topic: str
    partition: int
    current: int
    new: int
    effect: Effect
    offsets: int
    in_log: RecordsInLog
    rows: int | None

    def as_record(self) -> dict[str, Any]:
        """For printing; times in ISO 8601, UTC."""
        return {
            "store": self.store,
            "sink": self.sink,
            "topic": self.topic,
            "partition": self.partition,
            "current": self.current,
            "new": self.new,
            "effect": self.effect.value,
            "offsets": self.offsets,
            "records_max": self.in_log.records_max,
            "rows": self.rows,
            "first_at": _iso(self.in_log.first_at_ms),
            "last_at": _iso(self.in_log.last_at_ms),
        }


def effects_of(
    sink: Sink,
    table: RecordRows | None,
    effect: Effect,
    *,
    skipped: Sequence[OffsetRange],
    again: Sequence[OffsetRange],
    in_log: Mapping[OffsetRange, RecordsInLog],
) -> list[TableEffect]:
    """What becomes of each partition in one table, sorted.

    Args:
        sink: whose table it is.
        table: the table; None where its rows cannot be counted.
        effect: of reading again.
        skipped, again: the ranges between where the pipeline is and where it goes on.
        in_log: what the log has of each range.
    """
    counts = _counts(table, effect, again)
    effects = []
    for each in sorted([*skipped, *again]):
        is_lost = each in skipped
        effects.append(
            TableEffect(
                store=sink.store.identity,
                sink=sink.name,
                topic=each.topic,
                partition=each.partition,
                current=each.from_offset if is_lost else each.until_offset,
                new=each.until_offset if is_lost else each.from_offset,
                effect=Effect.LOST if is_lost else effect,
                offsets=each.count(),
                in_log=in_log[each],
                rows=0 if is_lost else counts.get(each),
            )
        )
    return effects


def totals(effects: Iterable[TableEffect]) -> list[dict[str, Any]]:
    """For each table and effect, for printing: offsets, records and rows of all partitions, with no partition named."""
    totals_by_table: dict[tuple[str, str, Effect], dict[str, Any]] = {}
    for effect in effects:
        total = totals_by_table.setdefault(
            (effect.store, effect.sink, effect.effect),
            dict.fromkeys(effect.as_record())
            | {"store": effect.store, "sink": effect.sink, "effect": effect.effect.value}
            | {"offsets": 0, "records_max": 0, "rows": 0},
        )
        total["offsets"] += effect.offsets
        total["records_max"] += effect.in_log.records_max
        total["rows"] = None if effect.rows is None or total["rows"] is None else total["rows"] + effect.rows
    return list(totals_by_table.values())


def _counts(table: RecordRows | None, effect: Effect, again: Sequence[OffsetRange]) -> dict[OffsetRange, int]:
    """Rows of each range; none where they do not say, or may not be counted and need not be."""
    if table is None or not table.names_records:
        return {}
    try:
        return dict(zip(again, table.count(again), strict=True))
    except StoreError:
        if effect is Effect.DELETED:
            raise
        return {}


def _iso(timestamp_ms: int | None) -> str | None:
    """A record's timestamp in ISO 8601, UTC; None where there is none, or one that is no time."""
    if timestamp_ms is None or not 0 <= timestamp_ms <= _LAST_MS:
        return None
    return (_EPOCH + timedelta(milliseconds=timestamp_ms)).isoformat()
