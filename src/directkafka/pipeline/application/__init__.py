"""The Spark application that a pipeline starts where it finds none."""
