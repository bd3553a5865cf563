"""The bytes behind a schema's number that name a message of a ``.proto`` file, as Confluent's serializers write them.

How many numbers follow, and the numbers: the place of a message in the file, of one in it, and so on; each in zig-zag,
seven bits a byte. A single zero is the file's first message.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

FIRST: Final[tuple[int, ...]] = (0,)
_DEPTH_MAX: Final = 32
_BYTES_MAX: Final = 5
_PROBLEM: Final = "no message of the schema is named behind its number"


class MessageIndexes(NamedTuple):
    """What records say of their messages.

    Attributes:
        behind: int64, of each record the position behind the bytes that name its message.
        codes: int64, of each record the place of its message's indexes in ``paths``.
        paths: the indexes of the messages.
        problems: what is wrong with a record, by its number.
    """

    behind: Any
    codes: Any
    paths: list[tuple[int, ...]]
    problems: dict[int, str]


def message_indexes(indexes: tuple[int, ...]) -> bytes:
    """The bytes that name a message, which :func:`read_message_indexes` reads.

    Args:
        indexes: of the message.
    """
    if indexes == FIRST:
        return b"\0"
    return b"".join(_number(index) for index in (len(indexes), *indexes))


def _number(value: int) -> bytes:
    """A number that is not below 0, in zig-zag."""
    rest, groups = value << 1, bytearray()
    while rest > 0x7F:
        groups.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*groups, rest])


def read_message_indexes(data: Any, starts: Any, ends: Any) -> MessageIndexes:
    """Read what stands in front of each record.

    Args:
        data: uint8, the bytes.
        starts, ends: int64, of each record the position of its first byte and of the one behind its last.
    """
    behind, codes = starts.copy(), np.zeros(len(starts), np.int64)
    paths = [FIRST]
    is_first = np.zeros(len(starts), bool)
    filled = np.flatnonzero(starts < ends)
    is_first[filled] = data[starts[filled]] == 0
    behind[is_first] += 1
    others = np.flatnonzero(~is_first)
    if not len(others):
        return MessageIndexes(behind, codes, paths, {})
    at, limits = starts[others].copy(), ends[others]
    is_right = np.ones(len(others), bool)
    depths = _take(data, at, limits, is_right)
    is_right &= (depths > 0) & (depths <= _DEPTH_MAX)
    table = np.full((len(others), int(depths[is_right].max(initial=0))), -1, np.int64)
    for level in range(table.shape[1]):
        wanted = is_right & (depths > level)
        indexes = _take(data, at, limits, wanted)
        is_right &= ~(depths > level) | (wanted & (indexes >= 0))
        table[wanted, level] = indexes[wanted]
    uniques, numbers = np.unique(table[is_right], axis=0, return_inverse=True)
    paths += [tuple(index for index in line if index >= 0) for line in uniques.tolist()]
    codes[others[is_right]] = numbers.reshape(-1) + 1
    behind[others[is_right]] = at[is_right]
    return MessageIndexes(behind, codes, paths, dict.fromkeys(others[~is_right].tolist(), _PROBLEM))


def _take(data: Any, at: Any, ends: Any, wanted: Any) -> Any:
    """The next number of those that are wanted, which then stand behind it; those that have none are not, then."""
    values, open_ = np.zeros(len(at), np.int64), wanted.copy()
    for byte_index in range(_BYTES_MAX):
        wanted &= ~open_ | (at < ends)
        open_ &= wanted
        now = np.flatnonzero(open_)
        if not len(now):
            break
        digits = data[at[now]].astype(np.int64)
        values[now] |= (digits & 0x7F) << (7 * byte_index)
        at[now] += 1
        open_[now[digits < 0x80]] = False
    wanted &= ~open_
    return (values >> 1) ^ -(values & 1)
