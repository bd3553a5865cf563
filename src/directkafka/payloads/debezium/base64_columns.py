"""Base64 in a column of texts, decoded at once: RFC 4648 with its padding, as Kafka Connect writes it in JSON."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_DIGITS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_GROUP: Final = 4
_BYTES: Final = 3
_NO_DIGIT: Final = 64
_PADDING: Final = ord("=")


class Decoded(NamedTuple):
    """Bytes of texts.

    Attributes:
        data: uint8, those of all texts.
        starts: int64, where those of each begin.
        lengths: int64, how many each has.
        is_valid: bool, whether the text is there, and is Base64.
    """

    data: Any
    starts: Any
    lengths: Any
    is_valid: Any


def decode_base64(texts: pa.Array) -> Decoded:
    """Decode a column.

    Args:
        texts: string.
    """
    has_groups = pc.equal(pc.bit_wise_and(pc.binary_length(texts), _GROUP - 1), 0)
    is_valid = pc.fill_null(has_groups, False)
    # Others would move the groups of those behind them.
    whole = pc.if_else(is_valid, texts, "").cast(pa.binary())
    _, ends, data = whole.buffers()
    bounds = np.frombuffer(ends, np.int32)[whole.offset :][: len(whole) + 1].astype(np.int64)
    raw = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]] if bounds[-1] else np.zeros(0, np.uint8)
    bounds -= bounds[0]
    others = np.concatenate([[0], np.cumsum(_TABLE[raw] == _NO_DIGIT)])
    padding = _padding(raw, bounds)
    is_base64 = others[bounds[1:]] - others[bounds[:-1]] == padding
    groups = (_TABLE[raw] & (_NO_DIGIT - 1)).reshape(-1, _GROUP).astype(np.uint32)
    bits = groups[:, 0] << 18 | groups[:, 1] << 12 | groups[:, 2] << 6 | groups[:, 3]
    decoded = np.stack([bits >> 16, bits >> 8 & 255, bits & 255], axis=1).astype(np.uint8).reshape(-1)
    lengths = np.diff(bounds) // _GROUP * _BYTES - padding
    return Decoded(
        decoded,
        bounds[:-1] // _GROUP * _BYTES,
        np.where(is_base64, lengths, 0),
        is_valid.to_numpy(zero_copy_only=False) & is_base64,
    )


def _padding(raw: Any, bounds: Any) -> Any:
    """How many signs of padding each text ends in, two at most."""
    padding = np.zeros(len(bounds) - 1, np.int64)
    (filled_rows,) = np.nonzero(np.diff(bounds))
    last = raw[bounds[1:][filled_rows] - 1] == _PADDING
    padding[filled_rows] = last.astype(np.int64) + (last & (raw[bounds[1:][filled_rows] - 2] == _PADDING))
    return padding


def _table() -> Any:
    table = np.full(256, _NO_DIGIT, np.uint8)
    table[np.frombuffer(_DIGITS, np.uint8)] = np.arange(len(_DIGITS))
    return table


_TABLE: Final = _table()
