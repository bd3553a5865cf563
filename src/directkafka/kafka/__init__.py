"""The wire: Kafka's protocol as bytes and as Arrow columns. Imports no Spark."""
