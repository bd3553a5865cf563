"""Questions to the cluster about topics, offsets, groups and settings."""
