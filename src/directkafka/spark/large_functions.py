"""Functions that tasks run and that are large: broadcasts, each of which ends with the batch that it was made for.

PySpark broadcasts a function of more than 1 MiB by itself (``_prepare_for_python_RDD``), and nobody destroys that
broadcast: its file stays on the driver's disk until the application ends. Sequence of events: a transform holds a model
of 20 MB; every batch runs a function of its own, which holds the transform; a batch a second fills the disk in a day.
Executors import this module without ``pyspark.sql``.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final

from pyspark import Broadcast, SparkContext
from pyspark.serializers import CloudPickleSerializer

#: Below PySpark's own limit, with room for what it puts around a function.
_LARGE_BYTES: Final = 512 * 1024

_ending: ContextVar[ExitStack | None] = ContextVar("directkafka_broadcasts", default=None)


@contextmanager
def batch_broadcasts() -> Iterator[None]:
    """What :func:`carried` broadcasts inside, in this thread, is destroyed at the end: no later job may need it."""
    with ExitStack() as ending:
        token = _ending.set(ending)
        try:
            yield
        finally:
            _ending.reset(token)


@contextmanager
def lasting_functions() -> Iterator[None]:
    """Nobody knows when frames that are made inside are read for the last time: Spark sends their functions."""
    token = _ending.set(None)
    try:
        yield
    finally:
        _ending.reset(token)


def carried(function: Callable[..., Any], context: SparkContext) -> Callable[..., Any]:
    """A function for Spark's tasks, in a form that leaves nothing on the driver's disk.

    Args:
        function: takes an iterator.
        context: whose tasks run it.

    Returns:
        What does the same; outside :func:`batch_broadcasts` the function itself.
    """
    ending = _ending.get()
    if ending is None:
        return function
    pickled: bytes = CloudPickleSerializer().dumps(function)  # type: ignore[no-untyped-call]
    name = getattr(function, "__name__", type(function).__name__)
    if len(pickled) <= _LARGE_BYTES:
        return PickledFunction(name, pickled)
    broadcast = context.broadcast(pickled)
    ending.callback(_destroy, broadcast)
    return PickledFunction(name, broadcast)


class PickledFunction:
    """A function as bytes, pickled once.

    Args:
        name: of the function, for Spark's plans.
        content: the bytes, or a broadcast of them.
    """

    def __init__(self, name: str, content: bytes | Broadcast[bytes]) -> None:
        self.__name__ = name
        self._content = content

    def __call__(self, rows: Iterator[Any]) -> Iterator[Any]:
        """What the function makes of a task's rows."""
        content = self._content if isinstance(self._content, bytes) else self._content.value
        function: Callable[[Iterator[Any]], Iterator[Any]] = pickle.loads(content)
        return function(rows)


def _destroy(broadcast: Broadcast[bytes]) -> None:
    # A Spark that is gone has no broadcasts, and must not hide why it is.
    with suppress(Exception):
        broadcast.destroy()
