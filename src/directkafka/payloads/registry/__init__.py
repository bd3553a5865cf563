"""Schema registries with Confluent's REST API: what schemas they have, and how a record names its own."""
