"""Kernels that read Avro's binary encoding: from bytes to Arrow's own buffers, without a Python object."""
