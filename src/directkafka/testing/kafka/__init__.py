"""A cluster of test brokers: its settings, and how one is asked whom it sees."""
