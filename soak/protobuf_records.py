"""``python -m soak.protobuf_records``: so many broken records of random ``.proto`` files, by two readers.

What the kernel reads, Google's library must read the same; what only the kernel refuses must be one of the five things
that it is meant to refuse. Records of whole batches lie before a page that may not be read: a byte too far ends the
process. Each file is read by protoc too, and each whole record is compared.
"""

from __future__ import annotations

import base64
import multiprocessing
import random
import sys
from typing import Annotated, Final

import pyarrow as pa
import typer
from rich.progress import track
from tests.guarded_texts import GuardedTexts
from tests.protobuf_records import compiled, differences, fill, message_class, mutated, random_file

from directkafka.options.schemas.protobuf.files import parse_protobuf
from directkafka.payloads.protobuf.decoder import ProtobufDecoder

_RECORDS: Final = 20
_AT_ONCE: Final = 400


def main(
    count: Annotated[int, typer.Option(help="How many broken records.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="The same makes the same records.")] = 1,
    processes: Annotated[int, typer.Option(help="How many work at a time.")] = 2,
) -> None:
    """Compare the kernel with Google's library; the first difference ends it."""
    seeds = range(seed * 1_000_000, seed * 1_000_000 + -(-count // _AT_ONCE))
    rows = 0
    with multiprocessing.Pool(processes) as pool:
        parts = pool.imap_unordered(_compare, seeds, chunksize=20)
        for rows_read, difference in track(parts, "files", total=len(seeds)):
            rows += rows_read
            if difference:
                sys.exit(difference)
    print(f"{len(seeds) * _AT_ONCE:,} broken records of {len(seeds):,} files, no difference; {rows:,} could be read")


def _compare(seed: int) -> tuple[int, str]:
    """How many of a seed's broken records were rows, and the first difference."""
    rng = random.Random(seed)
    text = random_file(rng)
    descriptors = compiled(text)
    schema = parse_protobuf([text], "Record")
    other = parse_protobuf([base64.b64encode(descriptors).decode()], "Record")
    if (schema.messages, schema.enums) != (other.messages, other.enums):
        return 0, f"seed {seed}: protoc reads another schema in {text}"
    kind, decoder = message_class(descriptors, schema.message), ProtobufDecoder(schema)
    records = [fill(kind(), rng).SerializeToString() for _ in range(_RECORDS)]
    rows = decoder.decode(pa.array(records, pa.binary()))
    problems = [*differences(text, kind, records, rows, decoder.problems), *decoder.problems.values()]
    broken = [mutated(rng.choice(records), rng, records) for _ in range(_AT_ONCE)]
    with GuardedTexts(broken, b"") as column:
        rows = decoder.decode(column)
    rows.validate(full=True)
    problems += differences(text, kind, broken, rows, decoder.problems)
    return len(broken) - len(decoder.problems), f"seed {seed}: {problems[0]} of {text}" if problems else ""


if __name__ == "__main__":
    typer.run(main)
