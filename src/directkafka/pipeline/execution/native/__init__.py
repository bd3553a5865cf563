"""Native pipelines: a batch is read, transformed and written by the same Python workers, and the JVM has no row."""
