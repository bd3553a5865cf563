"""Pipelines: the file, the numbered steps of a batch, recovery."""
