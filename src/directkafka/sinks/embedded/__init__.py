"""SQLite and DuckDB as stores and sinks: a database in a file."""
