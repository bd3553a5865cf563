"""Rows into a store's transaction."""
