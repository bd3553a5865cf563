"""A sink around another one hides nothing of it."""

from __future__ import annotations

from typing import Any

import pytest

from directkafka import KafkaSink
from directkafka.sinks.api import Sink
from directkafka.sinks.wrapped_sink import WrappedSink

PUBLIC = {name for name in vars(Sink) if not name.startswith("_")}


def test_all_that_a_sink_has_is_passed_on_but_its_clone() -> None:
    assert PUBLIC - set(vars(WrappedSink)) == {"clone"}


@pytest.mark.parametrize("name", sorted(PUBLIC - {"clone", "target"}))
def test_what_is_passed_on_is_the_inner_sink_s(name: str) -> None:
    inner = KafkaSink({"bootstrap.servers": "one:1"}, "flights", offsets_group="lag")
    assert getattr(WrappedSink(inner), name) == getattr(inner, name)


def test_its_store_may_ask_it_for_what_no_other_store_asks() -> None:
    wrapped: Any = WrappedSink(KafkaSink({"bootstrap.servers": "one:1"}, "flights", offsets_group="lag"))
    assert (wrapped.own_topics, wrapped.offsets_group) == (("flights",), "lag")
    with pytest.raises(AttributeError, match="nonsense"):
        _ = wrapped.nonsense


def test_a_method_that_a_subclass_has_is_its_own() -> None:
    class Named(WrappedSink):
        name = "mine"

    assert Named(KafkaSink({"bootstrap.servers": "one:1"}, "flights")).name == "mine"
