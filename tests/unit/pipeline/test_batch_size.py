"""Batches that take longer than a store's transaction may, among fakes: what is planned next, and what is said."""

from __future__ import annotations

import pytest
from tests.unit.pipeline.fakes import PARTITION, FakeStore, World, bench

from directkafka.errors import StoreUnavailableError
from directkafka.errors.kafka import TransactionTooSlowError

SLOW = TransactionTooSlowError(transactional_id="directkafka.a", elapsed_ms=9_000, budget_ms=8_000, timeout_ms=10_000)


def test_a_batch_that_was_too_slow_is_halved_until_it_fits(caplog: pytest.LogCaptureFixture) -> None:
    driver = bench(latest=40)
    driver.world.fail("commit a", None, SLOW, SLOW)  # the first one is the origin's
    driver.engine.run()
    assert driver.writer.written[:3] == [(1, "t-0[0, 40)"), (1, "t-0[0, 20)"), (1, "t-0[0, 10)")]
    assert driver.stores[0].entry is not None
    assert driver.stores[0].entry.ends() == {PARTITION: 40}
    assert "40 offsets took 9000 ms, and a transaction has 8000 ms" in caplog.text
    assert "with 20 offsets at most" in caplog.text


def test_batches_grow_again_while_they_are_easy() -> None:
    driver = bench(latest=80)
    driver.world.fail("write", SLOW, SLOW)  # 80 offsets, and 40
    driver.engine.run()
    assert [ranges for _, ranges in driver.writer.written] == ["t-0[0, 20)", "t-0[20, 60)", "t-0[60, 80)"]


def test_the_ledgers_are_read_before_a_smaller_batch_is_planned() -> None:
    driver = bench(latest=40)
    driver.world.fail("write", SLOW)
    driver.engine.run()
    assert driver.world.after("write")[:3] == ["read a", "snapshot", "write"]


def test_a_batch_of_one_offset_that_is_too_slow_stops_the_pipeline_and_says_what_to_raise() -> None:
    driver = bench(latest=1)
    driver.world.fail("commit a", None, SLOW)
    with pytest.raises(TransactionTooSlowError, match=r"Raise kafka\.transaction\.timeout\.ms.*1 offsets cannot be"):
        driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 1)")]


def test_a_stop_ends_the_halving() -> None:
    driver = bench(latest=40)

    def stop_and_be_slow() -> None:
        driver.stop.set()
        raise SLOW

    driver.world.fail("commit a", None, stop_and_be_slow)
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 40)")]


def test_a_batch_that_another_store_has_stays_as_large_as_it_is() -> None:
    """The commit of the first store took so long that nothing was left for the second: there it is written again."""
    world = World()
    driver = bench(world=world, stores=[FakeStore(world, name) for name in "ab"], latest=40)
    world.fail("commit b", None, SLOW)
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 40)")], "kept, since no transaction held it"
    assert driver.stores[0].rows == driver.stores[1].rows


def test_a_batch_that_another_store_has_and_that_is_too_slow_again_says_what_to_raise() -> None:
    world = World()
    driver = bench(world=world, stores=[FakeStore(world, name) for name in "ab"], latest=40)
    world.fail("commit b", None, StoreUnavailableError(store="b", cause="gone fishing"), SLOW)
    with pytest.raises(TransactionTooSlowError, match="cannot be made smaller, since another store has it"):
        driver.engine.run()
