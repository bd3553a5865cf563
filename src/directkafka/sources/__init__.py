"""Former module names: in Spark settings of users, and in the checkpoints of direct streams.

Spark puts a stream's functions into its checkpoint as pickled code, which names modules of the version that wrote it.
Where such a checkpoint is read, the names that are gone stand for nothing (:class:`_Gone`), and the planner of the
stream, the first of ours that is whole, becomes an error with the stream's offsets.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from directkafka.errors import EnvironmentFaultError
from directkafka.offsets import OffsetRange, PartitionProgress, TopicPartition

_GONE = ("directkafka.sources.", "directkafka.options.rates")


class _Gone:
    """Whatever a checkpoint has of a class or function that is gone, with what it was made of."""

    def __init__(self, *arguments: Any, **_: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        """Its fields are of no use."""


def _restored(_plan: Any, pickled: bytes) -> NoReturn:
    """What the planner of a stream was unpickled by.

    Raises:
        EnvironmentFaultError: always, with the offsets.
    """
    progress: Mapping[TopicPartition, PartitionProgress]
    packed: Mapping[int, bytes]
    progress, packed, *_ = pickle.loads(pickled).arguments
    ends = {topic_partition: partition.end for topic_partition, partition in sorted(progress.items())}
    starts = dict(ends)
    for ms in sorted(packed, reverse=True):
        ranges: Sequence[OffsetRange] = pickle.loads(packed[ms])
        starts |= {offset_range.topic_partition: offset_range.from_offset for offset_range in ranges}
    raise EnvironmentFaultError(
        what="this checkpoint has code of an earlier version of directkafka in it, which this version cannot run; its "
        f"stream had planned batches up to {_as_python(ends)}",
        remedy=f"Start the stream without the checkpoint, with offsets={_as_python(starts)} in its Subscribe, "
        "SubscribePattern or Assign. The oldest batch that may not have ended begins there: nothing is passed over, "
        "and the newest batches come again. A stream that commits to its group, or keeps its offsets in a database, "
        "goes on from those instead.",
    )


def _as_python(offsets: Mapping[TopicPartition, int]) -> str:
    entries = (
        f"TopicPartition({topic_partition.topic!r}, {topic_partition.partition}): {offset}"
        for topic_partition, offset in offsets.items()
    )
    return f"{{{', '.join(entries)}}}"


class _Names(MetaPathFinder, Loader):
    """Finds the modules that no other finder has found."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """For a name that was a module's once."""
        return ModuleSpec(fullname, self) if fullname.startswith(_GONE) else None

    def exec_module(self, module: ModuleType) -> None:
        """Let it have every name but Python's own: whoever goes through all modules asks for their files."""

        def attribute(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return _restored if name == "_restored" else _Gone

        vars(module)["__getattr__"] = attribute


sys.meta_path.append(_Names())
