"""A topic with gaps: compaction has taken more than half of its records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.real.kafka.logs import consume, create_topic_again, end_offset
from tests.vectors.capture import overwritten_keys
from tests.waiting import until

from directkafka.testing import KafkaBroker

TOPIC = "compacted"


@contextmanager
def compacted_topic() -> Iterator[tuple[str, int]]:
    """The addresses of a broker of its own that has the topic :data:`TOPIC`, and where that one ends."""
    with KafkaBroker(config={"log.cleaner.backoff.ms": 100, "log.cleaner.enable": "true"}) as broker:
        servers = broker.bootstrap_servers
        config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
        create_topic_again(servers, TOPIC, config=config)
        overwritten_keys(servers, TOPIC)
        end = end_offset(servers, TOPIC)
        until(lambda: len(consume(servers, TOPIC)) < end / 2, "the cleaner did not run")
        yield servers, end
