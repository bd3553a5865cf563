"""A pipeline as operations see it: its name, its source, and the stores it commits to; without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from directkafka.errors import OptionError
from directkafka.options.source import SourceOptions
from directkafka.pipeline.execution.rejection import DEAD_LETTERS
from directkafka.pipeline.execution.routes import Route, route_outputs
from directkafka.pipeline.file import load
from directkafka.sinks.api import Sink, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A pipeline that something is asked of, or done to.

    Attributes:
        pipeline: its name.
        source: what it reads; None if no brokers are known.
        routes: to its sinks, in the order in which their stores commit.
        checkpoint: of a structured query; None without one, or where that is not known.
    """

    pipeline: str
    source: SourceOptions | None
    routes: tuple[Route, ...]
    checkpoint: str | None = None

    @property
    def dead_letter_sink(self) -> Sink | None:
        """The sink of its dead letters; None without one, or where that is not known."""
        return next((route.sink for route in self.routes if route.output == DEAD_LETTERS), None)

    def unique_stores(self) -> tuple[Store, ...]:
        """Where it commits, without repeats."""
        return unique_stores(route.sink.store for route in self.routes)


def unique_stores(stores: Iterable[Store]) -> tuple[Store, ...]:
    """Stores without repeats, in order: two names of one store count once."""
    first: dict[str, Store] = {}
    for store in stores:
        first.setdefault(store.identity, store)
    return tuple(first.values())


@contextmanager
def target_of_file(file: Path, *, expected: str | None = None) -> Iterator[Target]:
    """The pipeline of a file; its stores are closed at the end.

    Args:
        file: the file.
        expected: the name that the pipeline had when the file was read first.

    Raises:
        OptionError: the file is wrong, or that of another pipeline by now.
    """
    spec = load(file)
    if expected not in (None, spec.pipeline.name):
        raise OptionError(option="name", reason=f"the file of {expected} is that of {spec.pipeline.name} now")
    sinks, dead_letters = spec.sinks()
    routes = route_outputs(sinks, None if dead_letters is None else dead_letters.sink)
    with ExitStack() as ending:
        for route in routes:
            ending.callback(route.sink.store.close)
        yield Target(
            pipeline=spec.pipeline.name,
            source=spec.source_parsed(),
            routes=routes,
            checkpoint=spec.pipeline.checkpoint,
        )
