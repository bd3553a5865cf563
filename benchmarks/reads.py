"""Batch reads through Spark, beside Spark's JVM connector and beside Spark's own floor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from figures import Figure, alternately, console, ratio
from publish import RECORD_BYTES, publish, publish_transactions

__all__ = ["codecs", "columns", "headers", "plain", "sizes", "transactions"]

_CODECS: Final = ("none", "lz4", "zstd", "snappy", "gzip")

Action = Callable[[str], None]


class Reads:
    """Actions on one topic, by format.

    Args:
        options: of every read.
        records: how many a count must find; None where a count is not measured.
        value_bytes: for the floor.
        selected: the columns that are used; all where there are none.
    """

    def __init__(
        self,
        spark: Any,
        options: Mapping[str, str],
        *,
        records: int,
        value_bytes: int = RECORD_BYTES,
        selected: tuple[str, ...] = (),
    ) -> None:
        self._spark, self._options, self._records, self._value_bytes = spark, options, records, value_bytes
        self._selected = selected

    def _frame(self, form: str) -> Any:
        reader = self._spark.read.format(form)
        if form == "ready":
            return reader.options(records=self._records, partitions=2, valueBytes=self._value_bytes).load()
        frame = reader.options(**self._options).load()
        return frame.select(*self._selected) if self._selected else frame

    def noop(self, form: str) -> None:
        """Every record, into nothing."""
        self._frame(form).write.format("noop").mode("overwrite").save()

    def count(self, form: str) -> None:
        """How many records there are."""
        record_count = self._frame(form).count()
        assert record_count == self._records, f"{form} counted {record_count} of {self._records}"


def _topic(servers: str, topic: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, "subscribe": topic, **more}


def _sides(action: Action, *, with_floor: bool = False) -> dict[str, Callable[[], None]]:
    forms = {"ours": "directkafka", "JVM": "kafka"} | ({"floor": "ready"} if with_floor else {})
    return {side: lambda form=form: action(form) for side, form in forms.items()}  # type: ignore[misc]


def codecs(spark: Any, servers: str, *, records: int, repeat: int) -> list[Figure]:
    """Small records in every codec, and the share of Spark's floor."""
    figures = []
    for codec in _CODECS:
        console.print(f"publishing {records:,} records of {RECORD_BYTES} bytes, {codec}")
        publish(servers, f"read-{codec}", records, codec=codec, partitions=2)
        reads = Reads(spark, _topic(servers, f"read-{codec}"), records=records)
        for name, action in (("noop", reads.noop), ("count", reads.count)):
            with_floor = codec in {"none", "lz4"}
            seconds = alternately(_sides(action, with_floor=with_floor), repeat)
            figures.append(ratio(f"read, {codec}, {name}", seconds, over="JVM", required=3.5, records=records))
            if with_floor:
                share = ratio(
                    f"share of Spark's floor, {codec}, {name}",
                    seconds,
                    over="floor",
                    required=85,
                    records=records,
                    unit="%",
                )
                figures.append(share)
    return figures


def sizes(spark: Any, servers: str, *, records: int, repeat: int) -> list[Figure]:
    """Larger records, as many bytes of each size."""
    figures = []
    for value_bytes, required in ((1_000, 2.0), (10_000, 1.4), (100_000, 1.4)):
        count = records * RECORD_BYTES // value_bytes
        topic = f"size-{value_bytes}"
        console.print(f"publishing {count:,} records of {value_bytes:,} bytes, lz4")
        publish(servers, topic, count, codec="lz4", partitions=2, value_bytes=value_bytes)
        reads = Reads(spark, _topic(servers, topic), records=count, value_bytes=value_bytes)
        for name, action in (("noop", reads.noop), ("count", reads.count)):
            seconds = alternately(_sides(action), repeat)
            figures.append(
                ratio(
                    f"read, {value_bytes:,} bytes, lz4, {name}", seconds, over="JVM", required=required, records=count
                )
            )
    return figures


def plain(spark: Any, servers: str, *, records: int, repeat: int) -> list[Figure]:
    """Reads in a session that has none of ``dk.spark_settings()``: each codec, two larger sizes, and Spark's floor.

    Args:
        spark: such a session.
    """
    cases = [(codec, codec, RECORD_BYTES, 3.0) for codec in _CODECS]
    cases += [("1,000 bytes, lz4", "lz4", 1_000, 2.0), ("10,000 bytes, lz4", "lz4", 10_000, 1.5)]
    figures = []
    for number, (name, codec, value_bytes, required) in enumerate(cases):
        count = records * RECORD_BYTES // value_bytes
        topic = f"plain-{number}"
        console.print(f"publishing {count:,} records of {value_bytes:,} bytes, {codec}")
        publish(servers, topic, count, codec=codec, partitions=2, value_bytes=value_bytes)
        reads = Reads(spark, _topic(servers, topic), records=count, value_bytes=value_bytes)
        seconds = alternately(_sides(reads.noop, with_floor=True), repeat)
        what = f"read in a plain session, {name}, noop"
        figures.append(ratio(what, seconds, over="JVM", required=required, records=count))
        figures.append(
            ratio(
                f"{what}: the floor beside the JVM",
                seconds,
                side="floor",
                over="JVM",
                required=None,
                records=count,
            )
        )
    return figures


def headers(spark: Any, servers: str, *, records: int, repeat: int) -> list[Figure]:
    """Small records with two headers, read with the column ``headers``."""
    console.print(f"publishing {records:,} records with two headers, lz4")
    publish(servers, "headers", records, codec="lz4", partitions=2, headers=True)
    reads = Reads(spark, _topic(servers, "headers", includeHeaders="true"), records=records)
    return [
        ratio(
            "read, with headers, lz4, noop",
            alternately(_sides(reads.noop), repeat),
            over="JVM",
            required=2.0,
            records=records,
        )
    ]


def columns(spark: Any, servers: str, *, records: int, repeat: int) -> list[Figure]:
    """Two of the columns: with the option ``columns``, and selected from all that are shipped."""
    console.print(f"publishing {records:,} records of {RECORD_BYTES} bytes, lz4")
    publish(servers, "columns", records, codec="lz4", partitions=2)
    two_columns = Reads(spark, _topic(servers, "columns", columns="value,offset"), records=records)
    whole = Reads(spark, _topic(servers, "columns"), records=records, selected=("value", "offset"))
    seconds = alternately(
        {
            "ours": partial(two_columns.noop, "directkafka"),
            "all": partial(whole.noop, "directkafka"),
            "JVM": partial(whole.noop, "kafka"),
        },
        repeat,
    )
    name = "two columns, lz4, noop, with the option `columns`"
    return [
        ratio(name, seconds, over="JVM", required=3.5, records=records),
        ratio(f"{name}, beside all columns shipped", seconds, over="all", required=1.0, records=records),
    ]


def transactions(spark: Any, servers: str, *, records: int, repeat: int) -> list[Figure]:
    """read_committed: a record a transaction, and transactions of which a tenth is aborted."""
    figures = []
    single = records // 60
    cases = {
        "a record a transaction": {"transactions": single, "records_each": 1, "producers": 8},
        "a tenth aborted": {
            "transactions": records // 1_000,
            "records_each": 1_000,
            "aborted_every": 10,
            "producers": 2,
        },
    }
    for number, (name, case) in enumerate(cases.items()):
        topic = f"transactions-{number}"
        console.print(f"publishing {case['transactions']:,} transactions: {name}")
        committed = publish_transactions(servers, topic, **case)
        options = _topic(servers, topic, **{"kafka.isolation.level": "read_committed"})
        reads = Reads(spark, options, records=committed)
        for action_name, action in (("noop", reads.noop), ("count", reads.count)):
            seconds = alternately(_sides(action), repeat)
            figures.append(
                ratio(f"read_committed, {name}, {action_name}", seconds, over="JVM", required=3.0, records=committed)
            )
    return figures
