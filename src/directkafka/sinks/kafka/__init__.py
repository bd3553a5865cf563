"""Kafka as a store and a sink: rows and ledger in one transaction."""
