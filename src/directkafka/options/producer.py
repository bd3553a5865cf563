"""What a producer needs besides its connection, parsed from Kafka's own dotted names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from directkafka.options.spec import INT_MAX, option

__all__ = ["Codec", "ProducerOptions"]

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """How records are written. Travels to executors. Every write is idempotent and waits for all in-sync replicas.

    Each field is named, bounded and explained by its :class:`~directkafka.options.OptionSpec`.
    """

    compression: Codec = option(
        "none",
        name="compression.type",
        kind="choice",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        doc="How record batches are compressed.",
    )
    gzip_level: int = option(
        -1,
        name="compression.gzip.level",
        kind="integer",
        minimum=-1,
        maximum=9,
        doc="1 is fast, 9 is small, -1 is gzip's own default.",
    )
    lz4_level: int = option(
        9,
        name="compression.lz4.level",
        kind="integer",
        minimum=1,
        maximum=17,
        doc="9 is lz4's fast way, as in the Java client; any other number is its high compression of that level.",
    )
    zstd_level: int = option(
        3,
        name="compression.zstd.level",
        kind="integer",
        minimum=-131_072,
        maximum=22,
        doc="Negative is fastest, 22 is smallest.",
    )
    # Kafka's own default of 16 KiB is for records that come one by one; here they come by the thousand.
    batch_size_bytes: int = option(
        262_144,
        name="batch.size",
        kind="integer",
        minimum=0,
        maximum=INT_MAX,
        doc="Most bytes of a record batch before compression; a single larger record goes alone.",
    )
    request_bytes_max: int = option(
        1_048_576,
        name="max.request.size",
        kind="integer",
        minimum=0,
        maximum=INT_MAX,
        doc="Most bytes of one request, and of a record before compression; a larger record is an error.",
    )
    buffer_bytes_max: int = option(
        33_554_432,
        name="buffer.memory",
        kind="integer",
        minimum=1,
        doc="Bytes of encoded records that may wait for their acknowledgement; a task that has more waits.",
    )
    in_flight_max: int = option(
        5,
        name="max.in.flight.requests.per.connection",
        kind="integer",
        minimum=1,
        maximum=5,
        doc="Requests that may wait for their answer at a broker; it knows five batches of a producer again.",
    )
    delivery_timeout_ms: int = option(
        120_000,
        name="delivery.timeout.ms",
        kind="integer",
        maximum=INT_MAX,
        doc="How long a batch may take until it is acknowledged, all tries included.",
    )
    topic_timeout_ms: int = option(
        60_000,
        name="max.block.ms",
        kind="integer",
        doc="How long a topic that is written to may be missing.",
    )
