"""How time and memory grow with the number of partitions and with the length of a range."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from figures import Figure, console, told
from peaks import forget_peaks, workers_peak_mb
from publish import publish

__all__ = ["lengths", "partitions"]

_WORKER_MB_MAX = 250.0
#: How many times as long a record may take in the worst case as in the best.
_SPREAD_MAX = 1.5


def partitions(spark: Any, servers: str, *, records: int, repeat: int) -> list[Figure]:
    """The same records in 1, 4, 16 and 64 partitions: the time of each against the best."""
    best_s = {}
    for count in (1, 4, 16, 64):
        topic = f"partitions-{count}"
        console.print(f"publishing {records:,} records in {count} partitions")
        publish(servers, topic, records, codec="lz4", partitions=count)
        best_s[count] = min(_seconds(partial(_read, spark, servers, topic)) for _ in range(repeat))
    # One partition is one task, on one core of two.
    per_core = {count: seconds / (2 if count == 1 else 1) for count, seconds in best_s.items()}
    detail = ", ".join(f"{count}: {seconds:.2f} s" for count, seconds in best_s.items())
    value = max(per_core.values()) / min(per_core.values())
    name = f"{records:,} records in 1, 4, 16, 64 partitions, core seconds, most to least"
    return [told(Figure(name=name, value=value, unit="x", required=_SPREAD_MAX, at_most=True, detail=detail))]


def lengths(spark: Any, servers: str, *, longest: int, repeat: int) -> list[Figure]:
    """Ranges of 10 thousand records to ``longest``: seconds of a million records, and the workers' peak memory."""
    console.print(f"publishing {longest:,} records into one partition")
    publish(servers, "long", longest, codec="lz4", partitions=1)
    counts = [count for count in (10_000, 100_000, 1_000_000, 10_000_000) if count < longest]

    def best_s(count: int) -> float:
        options = {"startingOffsets": '{"long":{"0":0}}', "endingOffsets": f'{{"long":{{"0":{count}}}}}'}
        return min(_seconds(partial(_read, spark, servers, "long", **options)) for _ in range(repeat))

    # All code is compiled before the first that counts.
    best_s(longest // 10)
    seconds, peak_mb = {}, {}
    for count in [*counts, longest]:
        forget_peaks()
        seconds[count], peak_mb[count] = best_s(count), workers_peak_mb()
    long_ones = {count: best / count * 1e6 for count, best in seconds.items() if count >= 1_000_000}
    detail = ", ".join(f"{count:,}: {best:.2f} s" for count, best in seconds.items())
    name = f"a million records in ranges of 1 to {longest / 1e6:g} million, most to least"
    spread = max(long_ones.values()) / min(long_ones.values())
    memory = ", ".join(f"{count:,}: {best:.0f} MB" for count, best in peak_mb.items())
    return [
        told(Figure(name=name, value=spread, unit="x", required=_SPREAD_MAX, at_most=True, detail=detail)),
        told(
            Figure(
                name="peak resident size of a Python worker",
                value=max(peak_mb.values()),
                unit="MB",
                required=_WORKER_MB_MAX,
                at_most=True,
                detail=memory,
            )
        ),
    ]


def _read(spark: Any, servers: str, topic: str, **options: str) -> None:
    reader = spark.read.format("directkafka").option("kafka.bootstrap.servers", servers)
    reader.option("subscribe", topic).options(**options).load().write.format("noop").mode("overwrite").save()


def _seconds(action: Callable[[], None]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started
