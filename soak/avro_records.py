"""``python -m soak.avro_records``: so many broken Avro records, of random schemas, read by the kernel and by fastavro.

What the kernel reads, fastavro must read the same, with all of the bytes; the other way round fastavro does not check
all that it should. Records of whole batches lie before a page that may not be read: a byte too far ends the process.
Each schema is also resolved to a changed one, and its whole records are compared.
"""

from __future__ import annotations

import copy
import json
import multiprocessing
import random
import sys
from typing import Annotated, Any, Final

import pyarrow as pa
import typer
from rich.progress import track
from tests.avro_records import Changes, Json, Schemas, mutated, plain, read, same, written
from tests.guarded_texts import GuardedTexts

from directkafka.options.schemas.avro import parse_schema
from directkafka.payloads.avro.decoder import AvroDecoder

_RECORDS: Final = 20
_BROKEN_FOR_EACH: Final = 10
_AT_ONCE: Final = _RECORDS * _BROKEN_FOR_EACH


def main(
    count: Annotated[int, typer.Option(help="How many broken records.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="The same makes the same records.")] = 1,
    processes: Annotated[int, typer.Option(help="How many work at a time.")] = 2,
) -> None:
    """Compare the kernel with fastavro; the first difference ends it."""
    seeds = range(seed * 1_000_000, seed * 1_000_000 + -(-count // _AT_ONCE))
    rows = 0
    with multiprocessing.Pool(processes) as pool:
        parts = pool.imap_unordered(_compare, seeds, chunksize=20)
        for rows_read, difference in track(parts, "schemas", total=len(seeds)):
            rows += rows_read
            if difference:
                sys.exit(difference)
    print(f"{len(seeds) * _AT_ONCE:,} broken records of {len(seeds):,} schemas, no difference; {rows:,} could be read")


def _compare(seed: int) -> tuple[int, str]:
    """How many of a seed's broken records were rows, and the first difference."""
    schemas, rng = Schemas(seed), random.Random(seed)
    writer = schemas.record()
    records = written(writer, [schemas.value(writer) for _ in range(_RECORDS)])
    reader = Changes(seed).of(copy.deepcopy(writer))
    decoder = _decoder(reader, writer)
    for text, row in zip(records, decoder.decode(pa.array(records, pa.binary())).to_pylist(), strict=True):
        if not same(row, read(text, writer, reader)[0]):
            return 0, f"seed {seed}: {text!r} of {json.dumps(writer)} as {json.dumps(reader)}: {row}"
    broken = [mutated(rng, text) for text in records * _BROKEN_FOR_EACH]
    bare = plain(writer)
    with GuardedTexts(broken, b"") as column:
        _decoder(writer).decode(column).validate(full=True)
        by_kernel = _decoder(bare)
        array = by_kernel.decode(column)
        array.validate(full=True)
        rows = array.to_pylist()
        del array
    for number, (text, row) in enumerate(zip(broken, rows, strict=True)):
        if number not in by_kernel.problems and not _is_read_so(text, bare, row):
            return 0, f"seed {seed}: {text!r} of {json.dumps(bare)}: {row}"
    return len(broken) - len(by_kernel.problems), ""


def _decoder(reader: Json, writer: Json | None = None) -> AvroDecoder:
    return AvroDecoder(parse_schema(json.dumps(reader)), None if writer is None else parse_schema(json.dumps(writer)))


def _is_read_so(text: bytes, schema: Json, row: Any) -> bool:
    try:
        value, length = read(text, schema, schema)
    except Exception:  # noqa: BLE001 - of whatever kind, fastavro does not read it
        return False
    return length == len(text) and same(row, value)


if __name__ == "__main__":
    typer.run(main)
