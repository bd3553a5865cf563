"""Kafka's protocol: error codes, requests and their versions."""
