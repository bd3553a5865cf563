"""Ranges of offsets fetched from the partitions' leaders."""
