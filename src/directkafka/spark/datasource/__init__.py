"""The format ``directkafka`` for Spark's readers and writers, batch and streaming."""
