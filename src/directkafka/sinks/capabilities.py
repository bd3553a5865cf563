"""Capabilities of a sink: what a pipeline may do with it, as one value. And what its table has, as another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from directkafka.sinks.write_modes import WriteMode


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCapabilities:
    """What a pipeline may do with a sink.

    Attributes:
        writers_max: how many tasks may write at a time; None: as many as there are.
        inline_bytes_max: up to how many bytes of Arrow data of a batch its writers hold, so that the driver may run one
            on all rows of a small batch.
        allows_prefetch: whether ``Sink.task_writer`` may be called for a batch before ``Sink.apply`` has returned for
            the one before, in another thread.
        has_second_phase: whether a large batch is written by ``Sink.second_phase``.
        takes_records: whether its rows are Kafka's records, not columns of a table.
        offsets_group: the consumer group to which it commits the source's offsets with the rows.
        write_mode: how rows meet those that are there; None: they are added.
        row_condition: which rows of its output it takes, in Spark's SQL; None: all.
    """

    writers_max: int | None = None
    inline_bytes_max: int = 0
    allows_prefetch: bool = False
    has_second_phase: bool = False
    takes_records: bool = False
    offsets_group: str | None = None
    write_mode: WriteMode | None = None
    row_condition: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCount:
    """What a sink's table has, for ``directkafka verify``.

    Attributes:
        rows: number of rows.
        doubled: rows beyond the first that name the same record (topic, partition, offset); 0 where the table has no
            such columns.
        is_folded: whether the number of rows cannot be compared with what was written: in any mode but append.
        sums: sums of the columns that the mode adds up, by column name.
    """

    rows: int
    doubled: int = 0
    is_folded: bool = False
    sums: Mapping[str, Any] = field(default_factory=dict)
