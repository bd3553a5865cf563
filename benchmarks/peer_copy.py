"""confluent-kafka, orjson and psycopg's COPY in a loop, at least once: one process of a consumer group, run by
``peers.py``. A transaction's rows first, then the group's offsets.
"""

from __future__ import annotations

import json
import operator
import signal
import sys
from typing import Any

import orjson
import psycopg
from confluent_kafka import Consumer, Message
from json_flights import NAMES, TABLE, TYPES

_ROWS_MAX = 50_000
_WAIT_S = 0.1


def main() -> None:
    """Say that all is imported, wait for the start, and run until SIGTERM."""
    arguments: dict[str, Any] = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    consumer = Consumer(
        {
            "bootstrap.servers": arguments["servers"],
            "group.id": arguments["group"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 256 * 1024,
            "fetch.message.max.bytes": 8 * 1024 * 1024,
        }
    )
    address = {"host": arguments["host"], "port": arguments["port"], "dbname": arguments["database"]}
    connection = psycopg.connect(**address, user=arguments["user"])
    print("ready", flush=True)
    sys.stdin.readline()
    consumer.subscribe([arguments["topic"]])
    while True:
        messages = consumer.consume(_ROWS_MAX, timeout=_WAIT_S)
        if messages:
            _copy(connection, messages)
            consumer.commit(asynchronous=False)


def _copy(connection: psycopg.Connection[Any], messages: list[Message]) -> None:
    values = operator.itemgetter(*NAMES)
    with connection.cursor() as cursor, cursor.copy(f"COPY {TABLE} FROM STDIN (FORMAT binary)") as copy:
        copy.set_types([kind.replace("double precision", "float8") for kind in TYPES.values()])
        for message in messages:
            copy.write_row(values(orjson.loads(message.value())))
    connection.commit()


if __name__ == "__main__":
    main()
