"""The operation of pipelines by whoever is on call: looking at them, and changing where they go on, without Spark."""
