"""Protocol Buffers: records in its binary encoding to columns of a message's fields."""
