"""The writer of a run, and in its place the one of a batch whose records were read with other schemas of a registry.

A run reads with the schemas that the registry has when it begins. A batch that one store has and another one lacks was
perhaps begun by an earlier run, which read with others: its entry has their ids, and it is done again with these.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from directkafka.options.payloads import Payloads
from directkafka.payloads.reader_schemas import reader_schema_ids, with_schemas_of
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.ledger import schema_ids

log = logging.getLogger("directkafka.pipeline")


class Writer(Protocol):
    """What checks a transform and its sinks, and has the sinks take its columns."""

    def check(self) -> tuple[str, ...]:
        """Find what is wrong; nothing is made or changed."""

    def prepare(self) -> None:
        """Make what is not there. The sinks take the columns of the writer that has prepared them last."""


W = TypeVar("W", bound=Writer)


class RunWriters(Generic[W]):
    """The writers of one run.

    Args:
        own: of every batch that the run begins.
        payloads: what values and keys are, with the schemas that they are read with.
        make: a writer for others; not needed where no registry has schemas.
    """

    def __init__(self, own: W, *, payloads: Payloads = (), make: Callable[[Payloads], W] | None = None) -> None:
        self.own = own
        self._payloads = payloads
        self._make = make
        self._is_own_prepared = True

    @property
    def schema_ids(self) -> Mapping[str, int]:
        """The ids of the schemas that the run reads with, by column, where a registry has them."""
        return reader_schema_ids(self._payloads)

    def of(self, entry: LedgerEntry) -> W:
        """The writer that reads as the batch of an entry was read.

        Args:
            entry: of a batch that another store has.

        Raises:
            RegistryError: the registry does not have its schemas, or does not answer.
            DirectKafkaError: transform or sinks do not fit the columns of then.
        """
        payloads = with_schemas_of(self._payloads, schema_ids(entry))
        if self._make is None or payloads == self._payloads:
            self.prepare_own()
            return self.own
        log.warning(
            "%s: batch %d was read with schemas %s, and is read again with them; those of this run are %s",
            entry.pipeline, entry.batch_id, schema_ids(entry), dict(self.schema_ids),
        )  # fmt: skip
        writer = self._make(payloads)
        writer.check()
        self._is_own_prepared = False
        writer.prepare()
        return writer

    def prepare_own(self) -> None:
        """Have the sinks take the run's own columns again, if another writer has prepared them."""
        if not self._is_own_prepared:
            self.own.prepare()
            self._is_own_prepared = True
