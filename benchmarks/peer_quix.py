"""quixstreams with its own Postgres sink, at least once: one process of a consumer group, run by ``peers.py``."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from json_flights import TABLE
from quixstreams import Application
from quixstreams.sinks.community.postgresql import PostgreSQLSink

#: Messages of one checkpoint: the sink's transaction, then the group's offsets.
_COMMIT_EVERY = 20_000
_COMMIT_INTERVAL_S = 0.5


def main() -> None:
    """Say that all is imported, wait for the start, and run until SIGTERM."""
    arguments: dict[str, Any] = json.loads(sys.argv[1])
    application = Application(
        broker_address=arguments["servers"],
        consumer_group=arguments["group"],
        auto_offset_reset="earliest",
        commit_interval=_COMMIT_INTERVAL_S,
        commit_every=_COMMIT_EVERY,
        loglevel="ERROR",
        auto_create_topics=False,
        max_partition_buffer_size=100_000,
        consumer_extra_config={"queued.max.messages.kbytes": 256 * 1024, "fetch.message.max.bytes": 8 * 1024 * 1024},
    )
    sink = PostgreSQLSink(
        host=arguments["host"],
        port=arguments["port"],
        dbname=arguments["database"],
        user=arguments["user"],
        password=os.environ["PGPASSWORD"],
        table_name=TABLE,
        schema_auto_update=False,
        include_metadata=False,
    )
    # "json" is orjson there.
    frame = application.dataframe(application.topic(arguments["topic"], value_deserializer="json"))
    frame.sink(sink)
    print("ready", flush=True)
    sys.stdin.readline()
    application.run()


if __name__ == "__main__":
    main()
