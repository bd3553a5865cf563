"""A pipeline as operations see it: its name, its source, and the stores it commits to; without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from directkafka.options.source import SourceOptions
from directkafka.pipeline.file import load
from directkafka.sinks.api import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A pipeline that something is asked of, or done to.

    Attributes:
        pipeline: its name.
        source: what it reads; None if no brokers are known.
        stores: where it commits, in order.
        dead_letter_sink: name of the sink of its dead letters; None without one, or where that is not known.
    """

    pipeline: str
    source: SourceOptions | None
    stores: tuple[Store, ...]
    dead_letter_sink: str | None = None

    def unique_stores(self) -> tuple[Store, ...]:
        """The stores without repeats."""
        return unique_stores(self.stores)


def unique_stores(stores: Iterable[Store]) -> tuple[Store, ...]:
    """Stores without repeats, in order: two names of one store count once."""
    first: dict[str, Store] = {}
    for store in stores:
        first.setdefault(store.identity, store)
    return tuple(first.values())


@contextmanager
def target_of_file(file: Path) -> Iterator[Target]:
    """The pipeline of a file; its stores are closed at the end.

    Raises:
        OptionError: the file is wrong.
    """
    spec = load(file)
    of_outputs, dead_letters = spec.sinks()
    sinks = (*(sink for some in of_outputs.values() for sink in some), *([dead_letters] if dead_letters else []))
    with ExitStack() as ending:
        for sink in sinks:
            ending.callback(sink.store.close)
        yield Target(
            pipeline=spec.pipeline.name,
            source=spec.source_parsed(),
            stores=tuple(sink.store for sink in sinks),
            dead_letter_sink=dead_letters.name if dead_letters else None,
        )
