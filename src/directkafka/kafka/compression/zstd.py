"""zstd's functions, from the standard library where Python has them (3.14), else from their backport.

Processes that meet no zstd do not load this module.
"""

try:
    from compression.zstd import ZstdCompressor, ZstdError, get_frame_info  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    from backports.zstd import ZstdCompressor, ZstdError, get_frame_info

__all__ = ["ZstdCompressor", "ZstdError", "get_frame_info"]
