"""How long a commit's outcome is looked for; the database is none."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from directkafka.errors import StoreUnavailableError
from directkafka.sinks.postgres.store import PostgresStore

#: ADR 44's bound on the end of a wait behind a stop.
STOP_S_MAX = 5.0


@pytest.mark.parametrize(
    "stopped_at",
    [1, pytest.param(4, marks=pytest.mark.slow)],
    ids=["stopped before", "stopped while it is tried again"],
)
def test_a_stop_bounds_the_search_for_what_became_of_a_commit(stopped_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are a few more tries: one of them may be answered, and the batch is known."""
    store = PostgresStore("postgresql://nobody@127.0.0.1:1/none", resolve_timeout_s=12.0)
    stop = threading.Event()
    store.heed(stop)
    tries: list[float] = []

    def unreachable(*_: Any) -> None:
        tries.append(time.monotonic())
        if len(tries) == stopped_at:
            stop.set()
        raise StoreUnavailableError(store="s", cause="down")

    monkeypatch.setattr(store._session, "read_settled", unreachable)
    with pytest.raises(StoreUnavailableError):
        store._read_settled("flights", 1)
    assert time.monotonic() - tries[stopped_at - 1] < STOP_S_MAX
    assert len(tries) > stopped_at + 1


def test_a_search_for_what_became_of_a_commit_does_not_sleep_through_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    store = PostgresStore("postgresql://nobody@127.0.0.1:1/none")
    slept: list[float | None] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            slept.append(timeout)
            self.set()
            return True

    store.heed(Stop())
    answers = iter([StoreUnavailableError(store="s", cause="down"), None])

    def read(*_: Any) -> Any:
        if (answer := next(answers)) is not None:
            raise answer
        return {"commit_id": 1}

    monkeypatch.setattr(store._session, "read_settled", read)
    assert store._read_settled("flights", 1) == {"commit_id": 1}
    assert len(slept) == 1
