"""Avro's binary encoding, read by a compiled kernel into Arrow's columns; schemas and their resolution, in Python."""
