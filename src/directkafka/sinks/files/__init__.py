"""Files as a store and a sink: Parquet, JSON lines and text behind a log of commits."""
