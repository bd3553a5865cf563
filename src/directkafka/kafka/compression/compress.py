"""Record bytes compressed as producers do it: gzip, snappy, lz4, zstd; one call of a library per batch.

What each codec's bytes look like is told in :mod:`directkafka.kafka.compression.decompress`, which reads them. Here lz4
is written as Java does, in a plain frame of independent blocks of 64 KiB, and snappy raw, as librdkafka does.

Levels are the Java client's: gzip 1 to 9, -1 for gzip's own 6; lz4 9 for the fast compressor, any other one for the
high compression of that level; zstd -131072 to 22. Source: KIP-390.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import cramjam
import deflate
import lz4.frame

from directkafka.kafka.compression.lz4 import GZIP, LZ4, NO_COMPRESSION, SNAPPY, ZSTD
from directkafka.options.producer import ProducerOptions

#: From a buffer to the compressed bytes.
Compress = Callable[[Any], Any]

_GZIP_DEFAULT: Final = -1
_LZ4_FAST: Final = 9
#: liblz4's frame functions take lower levels for the fast compressor, and 12 is its highest.
_LZ4_HIGH_MIN, _LZ4_HIGH_MAX = 3, 12


def compressor(options: ProducerOptions) -> tuple[int, Compress | None]:
    """The codec's id in batches, and what compresses one batch's records; None without compression."""
    match options.compression:
        case "none":
            return NO_COMPRESSION, None
        case "gzip":
            level = 6 if options.gzip_level == _GZIP_DEFAULT else options.gzip_level
            return GZIP, lambda data: deflate.gzip_compress(data, level)
        case "snappy":
            return SNAPPY, cramjam.snappy.compress_raw
        case "lz4":
            return LZ4, _lz4(options.lz4_level)
        case "zstd":
            from directkafka.kafka.compression.zstd import ZstdCompressor

            frames = ZstdCompressor(level=options.zstd_level)
            return ZSTD, lambda data: frames.compress(data, frames.FLUSH_FRAME)


def _lz4(level: int) -> Compress:
    chosen = 0 if level == _LZ4_FAST else min(max(level, _LZ4_HIGH_MIN), _LZ4_HIGH_MAX)

    def compress(data: Any) -> Any:
        return lz4.frame.compress(
            data,
            compression_level=chosen,
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )

    return compress
