"""Schemas of Protocol Buffers, from the files that declare them to the columns that are for them."""
