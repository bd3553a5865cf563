"""Arrow record batches into files: Parquet, lines of JSON, lines of text. Values that travel to the executors."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from directkafka.errors import RowRejectedError
from directkafka.payloads.json.texts import json_objects
from directkafka.sinks.files.schema import plain_schema

ParquetCompression = Literal["zstd", "snappy", "lz4", "gzip", "none"]
TextCompression = Literal["gzip", "none"]

#: Favours speed over the last percent: it is paid on every batch.
_GZIP_LEVEL = 4

_CHUNK_BYTES = 1 << 20


class FileFormat(Protocol):
    """How rows become a file, and how many rows a file has."""

    @property
    def suffix(self) -> str:
        """The end of the file's name, by which readers know format and compression."""

    def write(self, path: Path, batches: Iterable[pa.RecordBatch]) -> int:
        """Write a new file; returns the number of its rows. There is at least one batch."""

    def count(self, path: Path) -> int:
        """The number of rows in a file, read from it."""

    @property
    def is_counted_quickly(self) -> bool:
        """Whether a file says how many rows it has, so that nobody needs to read it for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFormat:
    """Parquet files.

    Attributes:
        compression: of the column chunks.
        row_group_bytes: a row group ends when its rows take this much as Arrow data; it is held in memory.
    """

    compression: ParquetCompression = "zstd"
    row_group_bytes: int = 64 * 1024 * 1024

    @property
    def suffix(self) -> str:
        """As Spark names its files: ``zstd.parquet``."""
        return "parquet" if self.compression == "none" else f"{self.compression}.parquet"

    def write(self, path: Path, batches: Iterable[pa.RecordBatch]) -> int:
        """Write row group by row group; returns the number of rows."""
        rows = 0
        with ExitStack() as opened:
            writer: pq.ParquetWriter | None = None
            for table in _row_groups(batches, self.row_group_bytes):
                if writer is None:
                    codec = self.compression.upper()
                    writer = opened.enter_context(pq.ParquetWriter(path, table.schema, compression=codec))
                writer.write_table(table, row_group_size=table.num_rows)
                rows += table.num_rows
        return rows

    @property
    def is_counted_quickly(self) -> bool:
        """It has a footer."""
        return True

    def count(self, path: Path) -> int:
        """The number of rows that the footer names.

        Raises:
            pyarrow.ArrowInvalid: the file has no footer.
        """
        return int(pq.read_metadata(path).num_rows)


class _Lines:
    """What formats of one row a line have in common."""

    __slots__ = ()

    def write(self, path: Path, batches: Iterable[pa.RecordBatch]) -> int:
        """Write line by line; returns the number of rows."""
        rows = 0
        with self._opened(path) as file:
            for batch in batches:
                file.write(_content(self.lines(batch)))
                rows += batch.num_rows
        return rows

    @property
    def is_counted_quickly(self) -> bool:
        """All of it has to be read."""
        return False

    def count(self, path: Path) -> int:
        """The number of line ends."""
        lines = 0
        with pa.input_stream(str(path), compression="gzip" if path.suffix == ".gz" else None) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                lines += chunk.count(b"\n")
        return lines

    def lines(self, batch: pa.RecordBatch) -> pa.Array:
        """One string for each row."""
        raise NotImplementedError

    def _opened(self, path: Path) -> BinaryIO:
        if self.suffix.endswith(".gz"):
            return cast(BinaryIO, gzip.open(path, "xb", compresslevel=_GZIP_LEVEL))
        return path.open("xb")

    @property
    def suffix(self) -> str:
        """As Spark names its files: ``json``, ``json.gz``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonFormat(_Lines):
    """One JSON object a line, as Spark's ``to_json`` writes it.

    Attributes:
        compression: ``gzip`` or ``none``.
        store, sink: for messages.
    """

    compression: TextCompression = "none"
    store: str
    sink: str

    @property
    def suffix(self) -> str:
        """``json`` or ``json.gz``."""
        return "json.gz" if self.compression == "gzip" else "json"

    def lines(self, batch: pa.RecordBatch) -> pa.Array:
        """One object for each row.

        Raises:
            RowRejectedError: a date or a time of a year that no text has.
        """
        try:
            return json_objects(batch)
        except pa.ArrowInvalid as error:
            raise RowRejectedError(store=self.store, sink=self.sink, detail=str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFormat(_Lines):
    """The text of the only column, one row a line.

    Attributes:
        compression: ``gzip`` or ``none``.
        store, sink: for messages.
    """

    compression: TextCompression = "none"
    store: str
    sink: str

    @property
    def suffix(self) -> str:
        """``txt`` or ``txt.gz``."""
        return "txt.gz" if self.compression == "gzip" else "txt"

    def lines(self, batch: pa.RecordBatch) -> pa.Array:
        """The column, once no row of it would be read back as none or as several.

        Raises:
            RowRejectedError: a null, or a text with a line break in it.
        """
        texts = batch.column(0)
        bad = pc.fill_null(pc.match_substring_regex(texts, "[\\r\\n]"), True)
        if pc.any(bad).as_py():
            position = pc.index(bad, True).as_py()
            text = texts[position].as_py()
            problem = "a null" if text is None else f"a line break in {text[:60]!r}"
            raise RowRejectedError(
                store=self.store,
                sink=self.sink,
                detail=f"{problem}: a row of a text file is a line; escape it, or write format 'json'",
            )
        return texts


def _row_groups(batches: Iterable[pa.RecordBatch], bytes_max: int) -> Iterator[pa.Table]:
    """Spark's batches of 10,000 rows at most, put together to what makes a good row group.

    Spark calls a field of a struct not nullable and gives a null in it where the struct is null; Parquet's writer
    refuses that. So all columns are nullable here, which copies nothing.
    """
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= bytes_max:
            yield _nullable(held)
            held, held_bytes = [], 0
    if held:
        yield _nullable(held)


def _nullable(batches: list[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(batches)
    return table.cast(plain_schema(table.schema))


def _content(lines: pa.Array) -> memoryview:
    """The lines with their ends, as they lie in one Arrow buffer."""
    # Made here, by tasks: Arrow's first scalar imports pandas, for which a driver has no use.
    line_end, separator = pa.scalar("\n", pa.large_string()), pa.scalar("", pa.large_string())
    ended = pc.binary_join_element_wise(pc.cast(lines, pa.large_string()), line_end, separator)
    _, offsets, content = ended.buffers()
    ends = pa.Array.from_buffers(pa.int64(), len(ended) + 1, [None, offsets], offset=ended.offset)
    return memoryview(content)[ends[0].as_py() : ends[len(ended)].as_py()]
