"""Types of sinks by the name that a pipeline file gives them: those of this package, and those of others.

Another package names its own in its metadata, under the entry points ``directkafka.sinks``::

    [project.entry-points."directkafka.sinks"]
    mine = "my_package.sink:MineSink"
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Final

from directkafka.errors import OptionError
from directkafka.options.spec import shown
from directkafka.sinks.api import Sink, Store
from directkafka.sinks.config import SinkConfig

#: Of this package. No metadata is looked at for them: they are there in a zip file too, and nobody takes their place.
BUILT_IN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "postgres": "directkafka.sinks.postgres.sink:PostgresSink",
        "sqlite": "directkafka.sinks.embedded.sqlite:SQLiteSink",
        "duckdb": "directkafka.sinks.embedded.duckdb:DuckDBSink",
        "kafka": "directkafka.sinks.kafka.sink:KafkaSink",
        "files": "directkafka.sinks.files.sink:FilesSink",
        "delta": "directkafka.sinks.delta.sink:DeltaSink",
    }
)

#: Former names.
_ALIASES: Final[Mapping[str, str]] = MappingProxyType({"parquet": "files"})

#: Schemes of stores' URLs that differ from the type's name.
_SCHEMES: Final[Mapping[str, str]] = MappingProxyType({"postgresql": "postgres"})

_EXAMPLES: Final = "postgresql://HOST/DATABASE, mysql://HOST/DATABASE, sqlite:PATH, kafka://HOST:PORT"

#: The group under which packages name sinks of their own.
ENTRY_POINTS: Final = "directkafka.sinks"


def own_types() -> tuple[str, ...]:
    """The types that come with this package: those above, and those that its own metadata names."""
    others = (name for name, point in _others().items() if point.dist is not None and point.dist.name == "directkafka")
    return (*BUILT_IN, *sorted(others))


def sink_type(name: str | None) -> type[Sink]:
    """The class of a type of sinks. Its module is imported here, so that a file needs the packages of its own sinks.

    Args:
        name: the type; None where there is none.

    Raises:
        OptionError: there is none of this name, or what the entry point names cannot be used.
    """
    home = BUILT_IN.get(_ALIASES.get(name, name)) if name is not None else None
    if home is not None:
        module, _, class_name = home.partition(":")
        built_in: type[Sink] = getattr(import_module(module), class_name)
        return built_in
    others = _others()
    known = [*BUILT_IN, *others]
    if name is None:
        raise OptionError(option="type", reason=f"this name is missing; expected one of {', '.join(map(repr, known))}")
    if name not in others:
        near = difflib.get_close_matches(name, [*known, *_ALIASES], n=1)
        hint = f"; did you mean {near[0]!r}" if near else ""
        reason = f"expected one of {', '.join(map(repr, known))}, found {shown(name)}{hint}"
        raise OptionError(option="type", reason=reason)
    return _loaded(others[name])


def store_at(url: str) -> Store:
    """The store that a URL stands for: ``postgresql://...``, ``mysql://...``, ``sqlite:PATH``, ``duckdb:PATH``,
    ``files:PATH``, ``delta:PATH``, ``kafka://HOST:PORT``.

    Args:
        url: its scheme is a sink's type; what follows is for the type to read. No error shows it.

    Raises:
        OptionError: there is no such scheme, or what follows it is wrong.
    """
    scheme, colon, _ = url.partition(":")
    if not colon or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", scheme):
        raise OptionError(option="--store", reason=f"it has no scheme; expected one like {_EXAMPLES}")
    name = _SCHEMES.get(scheme, scheme)
    known = [*BUILT_IN, *_others()]
    if name not in known and name not in _ALIASES:
        schemes = {kind: scheme for scheme, kind in _SCHEMES.items()}
        expected = ", ".join(schemes.get(kind, kind) for kind in known)
        raise OptionError(option="--store", reason=f"{shown(scheme)} is none of its schemes: {expected}")
    made = sink_type(name)
    assert issubclass(made, SinkConfig), "a sink of a pipeline file has a configuration"
    return made.store_at(url)


@functools.cache
def _others() -> Mapping[str, EntryPoint]:
    """What is installed, by type; to look takes some milliseconds."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _loaded(point: EntryPoint) -> type[Sink]:
    package = point.dist.name if point.dist is not None else "a package"
    try:
        sink_class = point.load()
    except Exception as error:
        reason = f"{package} names {point.value}, which cannot be imported: {type(error).__name__}: {error}"
        raise OptionError(option="type", reason=reason.rstrip(".")) from error
    if not (isinstance(sink_class, type) and issubclass(sink_class, Sink) and issubclass(sink_class, SinkConfig)):
        reason = f"{package} names {point.value}, which is no directkafka.Sink with a SinkConfig"
        raise OptionError(option="type", reason=reason)
    return sink_class
