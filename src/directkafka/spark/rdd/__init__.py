"""Exact offset ranges as RDDs."""
