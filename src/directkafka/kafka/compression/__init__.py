"""Kafka's codecs, both ways."""

try:
    from compression import zstd  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    from backports import zstd

__all__ = ["zstd"]
