"""The pipeline that a command is about: that of a pipeline file, or one that a store knows by its name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from directkafka.errors import OptionError
from directkafka.plain_text import one_line

if TYPE_CHECKING:
    from directkafka.operations.target import Target
    from directkafka.sinks.api import LedgerEntry, Sink, Store

OptionalFileArgument = Annotated[
    Path | None, typer.Argument(help="The pipeline file (TOML).", metavar="FILE", show_default=False)
]
StoreOption = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="Without FILE: a store of the pipeline, such as sqlite:PATH."),
]
NameOption = Annotated[str | None, typer.Option("--pipeline", metavar="NAME", help="With --store: the pipeline.")]
BootstrapServerOption = Annotated[
    str | None,
    typer.Option("--bootstrap-server", metavar="HOST:PORT", help="With --store: brokers to ask for offsets."),
]


@contextmanager
def opened(
    file: Path | None,
    store: str | Sequence[str] | None = None,
    pipeline: str | None = None,
    bootstrap_server: str | None = None,
    *,
    only_known_partitions: bool = False,
    has_committed: bool = True,
) -> Iterator[Target]:
    """The pipeline that the command line names; its stores are closed at the end.

    Args:
        file: the pipeline file.
        store: without one, the URL of its store, or of several.
        pipeline: the name that they know it by.
        bootstrap_server: where Kafka is.
        only_known_partitions: without a file, of each topic only the partitions that the ledgers know.
        has_committed: whether a store must have an entry of the pipeline itself; else one of its pause, or of its
            replays, is enough.

    Raises:
        OptionError: neither a file nor a store is named, or both, or a store has no such pipeline.
        StoreError: a store cannot be read.
    """
    from directkafka.operations.target import target_of_file

    urls = [store] if isinstance(store, str) else [*(store or ())]
    with ExitStack() as ending:
        if file is not None:
            if urls or pipeline or bootstrap_server:
                raise OptionError(option="--store", reason="give FILE, or --store and --pipeline, not both")
            yield ending.enter_context(target_of_file(file))
        elif not urls or pipeline is None:
            raise OptionError(option="FILE", reason="name a pipeline file, or --store URL and --pipeline NAME")
        else:
            yield _of_stores(
                urls, pipeline, bootstrap_server, ending,
                only_known_partitions=only_known_partitions, has_committed=has_committed,
            )  # fmt: skip


def _of_stores(
    urls: Sequence[str],
    pipeline: str,
    bootstrap_server: str | None,
    ending: ExitStack,
    *,
    only_known_partitions: bool,
    has_committed: bool,
) -> Target:
    from directkafka.operations.named_sink import NamedSink
    from directkafka.operations.offsets import source_of
    from directkafka.operations.target import Target
    from directkafka.pipeline.execution.routes import route_outputs
    from directkafka.pipeline.file import pause_name, replay_name
    from directkafka.sinks.registry import store_at

    entries: list[LedgerEntry] = []
    sinks: list[Sink] = []
    for url in urls:
        store = store_at(url)
        ending.callback(store.close)
        entry = store.read(pipeline)
        others = () if has_committed else (pause_name(pipeline), replay_name(pipeline))
        if entry is None and all(store.read(name) is None for name in others):
            raise OptionError(option="--pipeline", reason=_unknown(pipeline, store))
        entries += [] if entry is None else [entry]
        sinks += NamedSink.of_entry(entry, store)
    source = None
    if bootstrap_server is not None:
        source = source_of(entries, bootstrap_server, only_known_partitions=only_known_partitions)
    return Target(pipeline=pipeline, source=source, routes=route_outputs(sinks))


def _unknown(pipeline: str, store: Store) -> str:
    from directkafka.operations.pipelines import names_in
    from directkafka.pipeline.file import is_pipeline

    known = [name for name in names_in(store) if is_pipeline(name)]
    near = difflib.get_close_matches(pipeline, known, n=1)
    hint = f"; did you mean {near[0]!r}" if near else ""
    listed = ", ".join(map(repr, known)) or "none"
    return one_line(f"{store.identity} has no pipeline {pipeline!r}; it has {listed}{hint}")
