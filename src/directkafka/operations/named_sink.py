"""A sink of which only the name is known, from a ledger: for operations on a pipeline without its file."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from directkafka.sinks.api import LedgerEntry, Sink, Store
from directkafka.sinks.ledger import OFFSET_COUNTS

#: Stands for the table of a pipeline that has written no rows yet.
_NO_TABLE: Final = "(no table yet)"


class NamedSink(Sink):
    """Stands for a sink. How it writes is not known, so it neither writes nor looks at its table.

    Args:
        name: as the ledger has it.
        store: whose ledger.
    """

    def __init__(self, name: str, store: Store) -> None:
        self._name = name
        self._store = store

    @classmethod
    def of_entry(cls, entry: LedgerEntry | None, store: Store) -> tuple[NamedSink, ...]:
        """All sinks whose rows a pipeline has ever written into a store, that of dead letters too; at least one.

        Args:
            entry: the pipeline's; None where it has none.
            store: the store.
        """
        names = sorted((entry.total_rows if entry else {}).keys() - OFFSET_COUNTS) or [_NO_TABLE]
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
