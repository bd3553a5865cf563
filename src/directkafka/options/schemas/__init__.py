"""Schemas of payloads, as options name them: read, checked, and held as values."""
