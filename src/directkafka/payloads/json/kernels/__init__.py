"""Kernels that read JSON texts: from bytes to Arrow's own buffers, without a Python object."""
