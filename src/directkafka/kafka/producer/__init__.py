"""Rows sent to the partitions' leaders, each exactly once in its partition."""
