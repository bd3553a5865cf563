"""Postgres as a store and a sink."""
