"""Columns of a declared schema, in kernels: what the kernels of all formats share."""
