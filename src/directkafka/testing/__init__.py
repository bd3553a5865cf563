"""Real brokers and databases for tests, with no Docker.

Importing this costs nothing and needs none of the extra ``demo``; what is missing is named when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from directkafka.testing.kafka_broker import KafkaBroker
    from directkafka.testing.mariadb import EmbeddedMariaDB
    from directkafka.testing.postgres import EmbeddedPostgres
    from directkafka.testing.schema_registry import SchemaRegistry

__all__ = ["EmbeddedMariaDB", "EmbeddedPostgres", "KafkaBroker", "SchemaRegistry"]

_HOMES = {
    "EmbeddedMariaDB": "directkafka.testing.mariadb",
    "EmbeddedPostgres": "directkafka.testing.postgres",
    "KafkaBroker": "directkafka.testing.kafka_broker",
    "SchemaRegistry": "directkafka.testing.schema_registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
