"""Delta tables as a store and a sink."""
