"""Kafka's transactions as this library uses them: the coordinator, and which attempt of a task counts."""
