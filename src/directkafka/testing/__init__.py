"""Real brokers and databases for tests, with no Docker."""
