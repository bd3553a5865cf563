"""Names that users' Spark settings have; what they stand for is in :mod:`directkafka.spark`."""
