"""A pipeline's stores and their ledgers: compared, and owned by one run."""
