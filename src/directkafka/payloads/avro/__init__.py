"""Avro's binary encoding: the resolution of two schemas to a program, and the kernel that runs it on records."""
