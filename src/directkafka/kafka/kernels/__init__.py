"""Compiled functions: how they are compiled, where they are kept, and the C functions that they call."""
