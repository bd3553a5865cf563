"""Kernels that read Protocol Buffers: from bytes to Arrow's own buffers, without a Python object."""
