"""A sink object in two pipelines of a process."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
from tests.unit.pipeline.fakes import FakeSink, FakeStore, World

from directkafka.errors import OptionError
from directkafka.pipeline.bindings import Binding
from directkafka.pipeline.ledgers import Ledgers


def ledgers(name: str, sink: Any) -> Ledgers:
    return Ledgers(name, [Binding(output="default", sink=sink)])


@pytest.fixture
def sink() -> FakeSink:
    return FakeSink(FakeStore(World(), "a"))


def test_the_second_pipeline_is_refused_and_both_are_named(sink: FakeSink) -> None:
    first = ledgers("first", sink)
    first.connect()
    with pytest.raises(OptionError, match=r"(?s)in pipeline 'second'.*in use by pipeline 'first' of this process"):
        ledgers("second", sink).connect()


def test_so_is_another_sink_of_the_same_store_object(sink: FakeSink) -> None:
    first = ledgers("first", sink)
    first.connect()
    with pytest.raises(OptionError, match="in use by pipeline 'first'"):
        ledgers("second", FakeSink(sink.store)).connect()


def test_it_is_free_again_when_the_first_has_stopped(sink: FakeSink) -> None:
    first = ledgers("first", sink)
    first.connect()
    first.close()
    ledgers("second", sink).connect()


def test_a_pipeline_that_starts_again_waits_for_its_last_run_to_end(sink: FakeSink) -> None:
    """A query that has ended is told before its connections are given back."""
    first = ledgers("same", sink)
    first.connect()
    closing = threading.Timer(0.2, first.close)
    closing.start()
    ledgers("same", sink).connect()
    closing.join()


def test_who_is_gone_without_a_word_claims_nothing(sink: FakeSink) -> None:
    ledgers("first", sink).connect()
    gc.collect()
    second = ledgers("second", sink)
    second.connect()
    second.connect()  # what it has, it keeps
    second.close()


def test_a_claim_that_fails_takes_nothing(sink: FakeSink) -> None:
    first, free = ledgers("first", sink), FakeSink(FakeStore(World(), "b"))
    first.connect()
    both = Ledgers("second", [Binding(output="x", sink=free), Binding(output="y", sink=sink)])  # type: ignore[arg-type]
    with pytest.raises(OptionError):
        both.connect()
    ledgers("third", free).connect()
