"""A table of which a store's ledger has the name, and nothing else is known: for operations without a pipeline file."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from directkafka.sinks.api import LedgerEntry, Sink, Store
from directkafka.sinks.ledger import OFFSET_COUNTS

#: Stands for the table of a pipeline that has written no rows yet.
_UNKNOWN: Final = "unknown"


class LedgerTable(Sink):
    """Names a table. How it is written is not known, so it is neither written nor looked at.

    Args:
        name: as the ledger has it.
        store: whose ledger.
    """

    def __init__(self, name: str, store: Store) -> None:
        self._name = name
        self._store = store

    @classmethod
    def all_of(cls, entry: LedgerEntry, store: Store) -> tuple[LedgerTable, ...]:
        """The tables that a pipeline has written into a store, those of dead letters too; at least one."""
        names = sorted(entry.total_rows.keys() - OFFSET_COUNTS) or [_UNKNOWN]
        return tuple(cls(name, store) for name in names)

    @property
    def name(self) -> str:
        """See :class:`Sink`."""
        return self._name

    @property
    def store(self) -> Store:
        """See :class:`Sink`."""
        return self._store

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"only the name of {self._name} is known")

    check = prepare = task_writer = apply = recount = _refuse
