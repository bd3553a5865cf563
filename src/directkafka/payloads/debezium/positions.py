"""Positions of changes in a database's log, as one decimal that grows with it.

Which fields of ``source`` say it depends on the database:

- Postgres: ``lsn``, a number of bytes.
- MySQL and MariaDB: ``file`` and ``pos``. The position is the number that the file's name ends in, times 10^12, plus
  ``pos``, which has 4 bytes in the binary log.
- SQL Server and Db2: ``commit_lsn`` and ``change_lsn``, three hexadecimal numbers each (of a virtual log file, a block
  in it and a slot). The first orders transactions, the second the changes in one. Together they have 160
  bits, and Spark's decimals 126, so the position is ``commit_lsn * 2^46 + 2^46 - 1 - (commit_lsn - change_lsn)``:
  changes of one transaction that lie more than 2^46 - 1 before its commit (2^30 blocks, or another log file) have one
  position.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

POSITION: Final = pa.decimal128(38, 0)
#: The fields of ``source`` that say where a change stands.
POSITION_FIELDS: Final = (
    pa.field("lsn", pa.int64()),
    pa.field("file", pa.string()),
    pa.field("pos", pa.int64()),
    pa.field("commit_lsn", pa.string()),
    pa.field("change_lsn", pa.string()),
)

_FILE_FACTOR: Final = 10**12
#: Files that leave the position in 63 bits.
_FILE_DIGITS: Final = 6
_LSN: Final = "^[0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4}$"
_LSN_LENGTH: Final = 22
_CHANGE_BITS: Final = 46
_CHANGE_MAX: Final = (1 << _CHANGE_BITS) - 1


def positions_of(source: pa.StructArray) -> pa.Array:
    """The position of each change, null where nothing says it.

    Args:
        source: with those of :data:`POSITION_FIELDS` that there are; others are passed over.
    """
    fields = {
        name: array
        for name, array in zip(source.type.names, source.flatten(), strict=True)
        if array.null_count < len(array)
    }
    positions = [
        _decimals(fields["lsn"].cast(pa.int64())) if "lsn" in fields else None,
        _of_files(fields["file"], fields["pos"].cast(pa.int64())) if {"file", "pos"} <= fields.keys() else None,
        _of_lsns(fields["commit_lsn"], fields.get("change_lsn")) if "commit_lsn" in fields else None,
    ]
    known = [array for array in positions if array is not None and array.null_count < len(array)]
    return pc.coalesce(*known) if known else pa.nulls(len(source), POSITION)


def _decimals(numbers: pa.Array) -> pa.Array:
    return numbers.cast(pa.decimal128(19, 0)).cast(POSITION)


def _of_files(files: pa.Array, places: pa.Array) -> pa.Array:
    # Changes share a few files.
    names = files.dictionary_encode()
    pattern = rf"\.(?P<number>[0-9]{{1,{_FILE_DIGITS}}})$"
    numbers = pc.struct_field(pc.extract_regex(names.dictionary.cast(pa.string()), pattern), "number").cast(pa.int64())
    base = pc.multiply(numbers, _FILE_FACTOR).take(names.indices)
    # A place behind the factor would be one in the next file.
    inside = pc.and_(pc.greater_equal(places, 0), pc.less(places, _FILE_FACTOR))
    return _decimals(pc.if_else(inside, pc.add(base, places), pa.scalar(None, pa.int64())))


def _of_lsns(commits: pa.Array, changes: pa.Array | None) -> pa.Array:
    commit_files, commit_places, has_commit = _lsns(commits)
    behind = np.full(len(commits), _CHANGE_MAX, np.int64)
    if changes is not None:
        change_files, change_places, has_change = _lsns(changes)
        in_one_file = has_change & (change_files == commit_files)
        distance = np.clip(commit_places - change_places, 0, _CHANGE_MAX)
        behind = np.where(in_one_file, distance, behind)
    low = (commit_places & ((1 << 18) - 1)) << _CHANGE_BITS | (_CHANGE_MAX - behind)
    high = commit_files << 30 | commit_places >> 18
    words = np.empty((len(commits), 2), np.int64)
    words[:, 0], words[:, 1] = low, high
    validity = pa.array(has_commit).buffers()[1]
    return pa.Array.from_buffers(POSITION, len(commits), [validity, pa.py_buffer(words)])


def _lsns(texts: pa.Array) -> tuple[Any, Any, Any]:
    """Of each text the log file's number, the block and the slot as one number, and whether it is one at all."""
    texts = texts.cast(pa.string())
    is_one = pc.fill_null(pc.match_substring_regex(texts, _LSN), False)
    whole = pc.if_else(is_one, texts, "00000000:00000000:0000").cast(pa.binary())
    _, ends, data = whole.buffers()
    first = int(np.frombuffer(ends, np.int32)[whole.offset]) if len(whole) else 0
    characters = np.frombuffer(data, np.uint8) if len(whole) else np.empty(0, np.uint8)
    signs = characters[first : first + len(whole) * _LSN_LENGTH].reshape(-1, _LSN_LENGTH)
    # Letters stand behind the digits: 0x41 and 0x61 are 10.
    digits = ((signs & 15) + 9 * (signs >> 6)).astype(np.int64)
    return (
        _number(digits[:, :8]),
        _number(digits[:, [*range(9, 17), *range(18, 22)]]),
        is_one.to_numpy(zero_copy_only=False),
    )


def _number(digits: Any) -> Any:
    number = np.zeros(len(digits), np.int64)
    for column in range(digits.shape[1]):
        number = number << 4 | digits[:, column]
    return number
