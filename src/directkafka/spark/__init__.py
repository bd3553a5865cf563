"""Thin adapters between Spark and the wire."""
