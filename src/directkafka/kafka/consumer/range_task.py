"""The task of reading one range, as executors get it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from directkafka.offsets import OffsetRange
from directkafka.options.client import ClientOptions
from directkafka.options.payloads import Payloads, undecoded_columns
from directkafka.options.read_policy import HEADERS, RECORD_COLUMNS


@dataclass(slots=True)
class ReadCount:
    """How much has been read.

    Attributes:
        record_count: records, without those that were left out: of aborted transactions, say.
        byte_count: bytes of record batches as they came over the wire, compressed.
    """

    record_count: int = 0
    byte_count: int = 0

    def add(self, other: ReadCount) -> None:
        """Count what was read elsewhere as well."""
        self.record_count += other.record_count
        self.byte_count += other.byte_count


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeTask:
    """Everything an executor needs to read one range; small and picklable.

    Attributes:
        range: the offsets to read.
        topic_id: the topic's UUID as text when the range was planned, or empty.
        host, port: the partition's leader when the range was planned.
        client: addresses, security, timeouts, sizes.
        columns: names of the output's columns, in order.
        payloads: what values and keys are, if they are more than bytes.
        fail_on_data_loss: whether a lost range is an error.
        poll_timeout_ms: longest time without progress, in milliseconds.
        leader_epoch: the partition's leader epoch when the range was planned, or -1. All its records were written
            under this epoch or an earlier one; what bears a later one was written after the log had been cut.
    """

    range: OffsetRange
    topic_id: str
    host: str
    port: int
    client: ClientOptions
    columns: tuple[str, ...] = RECORD_COLUMNS
    payloads: Payloads = ()
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
    leader_epoch: int = -1

    @property
    def record_columns(self) -> tuple[str, ...]:
        """The columns of the records that the output is made of; for payloads also those that name a record."""
        if not self.payloads:
            return self.columns
        return tuple(dict.fromkeys([*undecoded_columns(self.columns, self.payloads), "offset"]))

    @property
    def include_headers(self) -> bool:
        """Whether there is a column ``headers``, or what it says is needed."""
        return HEADERS in self.record_columns


def read_by_topic(counts: Iterable[tuple[str, ReadCount]]) -> dict[str, ReadCount]:
    """How much was read of each topic.

    Args:
        counts: of each range, with its topic.
    """
    totals: dict[str, ReadCount] = {}
    for topic, count in counts:
        totals.setdefault(topic, ReadCount()).add(count)
    return totals
