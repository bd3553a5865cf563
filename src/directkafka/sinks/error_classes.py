"""What a database's own error means here: five meanings, one error of the project's for each."""

from __future__ import annotations

from typing import Literal

from directkafka.errors import (
    DirectKafkaError,
    RowRejectedError,
    SchemaMismatchError,
    StoreAccessError,
    StoreRequestError,
    StoreUnavailableError,
)

__all__ = ["Meaning", "meant"]

#: ``unavailable`` may pass; ``access``: a right or an address; ``rows``: values it cannot hold; ``schema``: a table
#: or column that is not as expected; ``request``: anything else.
Meaning = Literal["unavailable", "access", "rows", "schema", "request"]


def meant(
    meaning: Meaning, *, store: str, sink: str, cause: str, remedy: str = "", code: str = "none"
) -> DirectKafkaError:
    """The project's error for a meaning.

    Args:
        meaning: what the database's error means.
        store: the store's label.
        sink: the sink whose table the statement was about; empty for the ledger.
        cause: the database's words, without secrets.
        remedy: what to do about ``access``.
        code: the database's own code, for ``request``.
    """
    subject = sink or "the ledger"
    match meaning:
        case "unavailable":
            return StoreUnavailableError(store=store, cause=cause)
        case "access":
            return StoreAccessError(store=store, cause=cause, remedy=remedy)
        case "rows":
            return RowRejectedError(store=store, sink=subject, detail=cause)
        case "schema":
            return SchemaMismatchError(store=store, sink=subject, detail=cause)
        case "request":
            return StoreRequestError(store=store, code=code, cause=cause)
