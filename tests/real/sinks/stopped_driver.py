"""A driver in a process of its own: commits a first batch, then one batch more at which a fault point stops it.

Prints one JSON line with what became of that batch.
"""

from __future__ import annotations

import json
import os
import sys

from directkafka.errors import DirectKafkaError
from directkafka.sinks.postgres.sink import PostgresSink
from directkafka.sinks.postgres.store import PostgresStore
from directkafka.testing.store_driver import Job


def main(fault: str) -> None:
    # A command line can be seen by everybody.
    dsn = os.environ["DSN"]
    sink = PostgresSink(dsn, "flights")
    job = Job(PostgresStore(dsn, fence_timeout_s=5.0, resolve_timeout_s=5.0)).start()
    job.run((sink, [[(1, 1)]]))
    os.environ["DIRECTKAFKA_FAULTS"] = fault
    outcome = {"error": ""}
    try:
        job.run((sink, [[(2, 1)]]))
    except DirectKafkaError as error:
        outcome = {"error": type(error).__name__, "message": str(error)}
    print(json.dumps(outcome), flush=True)
    job.store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
