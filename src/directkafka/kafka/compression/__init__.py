"""Kafka's codecs, both ways."""
