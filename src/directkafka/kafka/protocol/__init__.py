"""Kafka's requests, by kafka-python's schemas."""
