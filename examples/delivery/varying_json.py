"""JSON whose fields differ from message to message, exactly once: common fields become columns, the whole is kept.

No schema is needed beforehand: Postgres' ``jsonb`` takes any document, and SQL finds what is in it. The same as a
pipeline without Python is varying_json.toml beside this file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import psycopg
from pyspark import RDD
from setting import DSN, TOPIC, crash_if_asked, kafka_params, run, streaming_context

import directkafka as dk

STORE = dk.OffsetStore(DSN, "varying-json")
TABLE = "CREATE TABLE IF NOT EXISTS documents (kind text, document jsonb NOT NULL)"

NUL = re.compile(r"(?<!\\)(\\\\)*\\u0000")  # as JSON writes it; behind a second backslash it is six characters


def parsed(record: dk.ConsumerRecord) -> tuple[str | None, str]:
    """Runs on executors. What Postgres would not take as JSON is kept as a text, for somebody to look at."""
    text = (record.value or b"null").decode(errors="replace").replace("\0", "\ufffd")
    try:
        document = json.loads(text)
        kept = json.dumps(document, ensure_ascii=False, allow_nan=False)  # jsonb knows neither NaN nor Infinity,
        if NUL.search(kept):
            raise ValueError("nor this character,")
        kept.encode()  # nor half a surrogate pair
    except (ValueError, RecursionError):
        return "invalid", json.dumps(text)
    kind = document.get("kind") if isinstance(document, dict) else None
    return (kind if isinstance(kind, str) else None), kept


def save(offset_range: dk.OffsetRange, rows: Iterable[tuple[str | None, str]]) -> Iterator[int]:
    """Runs on executors, for each partition."""
    with psycopg.connect(DSN) as connection:
        written = list(rows)
        connection.cursor().executemany("INSERT INTO documents VALUES (%s, %s)", written)
        STORE.advance(connection, [offset_range], rows=len(written))
    if written:
        crash_if_asked("after a commit")
    yield len(written)


def write(rdd: RDD) -> None:
    """Runs on the driver, for each batch."""
    ranges = dk.offset_ranges(rdd)
    rdd.mapPartitionsWithIndex(lambda number, rows: save(ranges[number], rows)).foreach(lambda rows: None)


if __name__ == "__main__":
    with psycopg.connect(DSN) as connection:
        connection.execute(TABLE)
    with dk.Cluster(kafka_params()) as cluster:
        offsets = STORE.preload(cluster.earliest(cluster.partitions(TOPIC)))
    context = streaming_context()
    strategy = dk.Assign(list(offsets), kafka_params(), offsets)
    dk.create_direct_stream(context, strategy, message_handler=parsed).foreachRDD(write)
    run(context)
