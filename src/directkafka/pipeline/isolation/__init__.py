"""Isolation: records that make their batch fail are found, and become dead letters, so that the rest can go on."""
