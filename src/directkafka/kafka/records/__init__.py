"""Record batches (magic 2) from bytes to Arrow, and from Arrow to bytes."""
