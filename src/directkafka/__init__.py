"""directkafka: Kafka to PySpark to your store, exactly once, with pip alone."""

from directkafka.version import __version__

__all__ = ["__version__"]
