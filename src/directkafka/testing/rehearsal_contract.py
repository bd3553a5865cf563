"""The tests that a store passes which can rehearse a commit, beside the store contract.

Used like :mod:`directkafka.testing.store_contract`::

    class TestMyStore(StoreContract, RehearsalContract): ...
"""

from __future__ import annotations

import pytest

from directkafka.errors import FencedError
from directkafka.testing.store_driver import BrokenSink, Job, StoreHarness


class RehearsalContract:
    """What a store does with a commit that is to be taken back."""

    def test_what_is_rehearsed_is_taken_back(self, harness: StoreHarness, job: Job) -> None:
        """Rows, ledger and files; and the same batch can be committed afterwards."""
        sink = harness.sink("flights")
        first = job.run((sink, [[(1, 1)]]))
        entry = job.next_entry()
        written = job.write(sink, job.batch(entry), [[(2, 2)], [(3, 3)]])
        job.store.rehearse(entry, previous=first, writes=[written])
        assert job.store.read("flights") == first
        assert harness.rows(sink) == [(1, 1)]
        job.run((sink, [[(2, 2)], [(3, 3)]]))
        assert harness.rows(sink) == [(1, 1), (2, 2), (3, 3)]

    def test_a_rehearsal_fails_as_the_commit_would(self, harness: StoreHarness, job: Job) -> None:
        """A sink refuses the rows; another driver has gone on meanwhile."""
        sink = harness.sink("flights")
        first = job.run((sink, [[(1, 1)]]))
        entry = job.next_entry()
        _, batch, reports = job.write(sink, job.batch(entry), [[(2, 2)]])
        with pytest.raises(RuntimeError, match="broke"):
            job.store.rehearse(entry, previous=first, writes=[(BrokenSink(sink), batch, reports)])
        newer = Job(harness.open_store()).start()
        with pytest.raises(FencedError):
            job.store.rehearse(entry, previous=first, writes=[(sink, batch, reports)])
        newer.run((harness.sink("flights"), [[(3, 3)]]))
        assert harness.rows(sink) == [(1, 1), (3, 3)]
        newer.store.close()
