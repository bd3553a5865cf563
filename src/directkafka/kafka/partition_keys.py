"""Which partition a keyed record goes to: the rule of the Java client's default partitioner, as a kernel.

``partition = (murmur2(key) & 0x7fffffff) % partitions``, murmur2 being the 32-bit MurmurHash2 with Kafka's seed
0x9747b28c over the key's bytes. A record without a key goes anywhere; an empty key is a key.

Sources: Kafka's ``Utils.murmur2``, ``BuiltInPartitioner.partitionForKey``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["key_hashes", "partitions_of_keys"]

Int32s = np.ndarray[Any, np.dtype[np.int32]]


def key_hashes(keys: pa.Array) -> Int32s:
    """The positive murmur2 hash of each key, -1 for null.

    Args:
        keys: binary or string, large or not, or null.
    """
    raise NotImplementedError


def partitions_of_keys(keys: pa.Array, partition_counts: Int32s | int, own: Int32s, first: int = 0) -> Int32s:
    """The partition of each row by its key; rows without key are dealt in turn to the partitions of one's own.

    Args:
        keys: binary or string, large or not, or null.
        partition_counts: number of the topic's partitions, of all rows or of each.
        own: partitions for rows without key; at least one.
        first: where in ``own`` to begin, so that a next call can go on.
    """
    raise NotImplementedError
