"""Chunks: many rows as one binary value, which the JVM carries unread.

A chunk is a stream of Arrow's, or bytes of a store's own. Spark makes a row of its own of each row that a Python worker
gives, and Arrow again when another worker takes it. A chunk is one such row, however many it holds. Executors import
this module without ``pyspark.sql``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from directkafka.arrow_columns import column_of

#: Rows in chunks travel through two pipes and the JVM, which costs more than LZ4 does.
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")

#: The codec for bytes of a store's own. Such a chunk begins with their size before compression, in eight bytes.
_CODEC: Final = "lz4_raw"
_SIZE_BYTES: Final = 8

#: About how large a chunk is before compression, where the rows of the batch are alike.
_CHUNK_BYTES: Final = 8 * 1024 * 1024

#: The column of a frame of chunks; binary.
CHUNK: Final = "chunk"


def packed(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Batches of one schema, at least one, as a chunk."""
    rows = pa.BufferOutputStream()
    with pa.ipc.new_stream(rows, batches[0].schema, options=_OPTIONS) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return bytes(rows.getvalue())


def unpacked(chunk: bytes | pa.Buffer) -> tuple[pa.RecordBatch, ...]:
    """The batches that :func:`packed` was given."""
    return tuple(pa.ipc.open_stream(chunk))


@dataclass(frozen=True, slots=True)
class BatchesOfChunk(Collection[pa.RecordBatch]):
    """The batches of a chunk, which is unpacked anew each time somebody goes through them or asks for their number.

    Until then the chunk alone is held. Pickled, it stays a chunk: another process unpacks it there.

    Attributes:
        chunk: as :func:`packed` made it.
    """

    chunk: bytes = field(repr=False)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from pa.ipc.open_stream(self.chunk)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, batch: object) -> bool:
        return any(batch == each for each in self)


def compressed(encoded: bytes) -> bytes:
    """Bytes in which a store takes rows, as a chunk."""
    content: bytes = pa.compress(encoded, codec=_CODEC, asbytes=True)
    return len(encoded).to_bytes(_SIZE_BYTES, "little") + content


def decompressed(chunk: bytes) -> bytes:
    """The bytes that :func:`compressed` was given."""
    size = int.from_bytes(chunk[:_SIZE_BYTES], "little")
    encoded: bytes = pa.decompress(memoryview(chunk)[_SIZE_BYTES:], size, codec=_CODEC, asbytes=True)
    return encoded


@dataclass(frozen=True, slots=True)
class DecompressedChunks(Collection[bytes]):
    """The bytes of chunks, each decompressed when it is asked for.

    So a store need not wait for all of them, nor the driver hold them.

    Attributes:
        chunks: as :func:`compressed` made them.
    """

    chunks: tuple[bytes, ...] = field(repr=False)

    def __iter__(self) -> Iterator[bytes]:
        return map(decompressed, self.chunks)

    def __len__(self) -> int:
        return len(self.chunks)

    def __contains__(self, encoded: object) -> bool:
        return any(encoded == each for each in self)


def chunks_of(batch: pa.RecordBatch) -> Iterator[bytes]:
    """A batch as chunks of about :data:`_CHUNK_BYTES`; none where it has no rows."""
    rows_max = max(1, _CHUNK_BYTES * batch.num_rows // max(1, batch.nbytes))
    for first in range(0, batch.num_rows, rows_max):
        yield packed([batch.slice(first, rows_max)])


def rows_of_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a frame of chunks.

    Args:
        batches: with the column :data:`CHUNK`.
    """
    for batch in batches:
        for chunk in batch.column(CHUNK):
            yield from unpacked(chunk.as_buffer())


def chunks_by_share(
    batch: pa.RecordBatch, share_of: np.ndarray[Any, Any], share_count: int
) -> Iterator[tuple[int, bytes]]:
    """The chunks of each share, share after share; within one, rows keep their order.

    Args:
        batch: the rows.
        share_of: the number of each row's share.
        share_count: how many shares there are.
    """
    order = np.argsort(share_of, kind="stable")
    bounds = np.searchsorted(share_of[order], np.arange(share_count + 1))
    ordered = batch if np.array_equal(order, np.arange(len(order))) else batch.take(column_of(order, pa.int64()))
    for share in range(share_count):
        rows = ordered.slice(bounds[share], bounds[share + 1] - bounds[share])
        for chunk in chunks_of(rows):
            yield share, chunk
