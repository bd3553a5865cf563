"""The engine under Structured Streaming: a query's micro-batches, and its checkpoint."""
