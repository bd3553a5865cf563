"""The order in which a query's runs tell its group how far they are; the Spark is none."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from typing import Any, Self

import pytest
from py4j.protocol import Py4JNetworkError

from directkafka.offsets import TopicPartition
from directkafka.spark.datasource import query_groups
from directkafka.spark.datasource.query_groups import QueryGroups

PATIENCE_S = 60.0


class Called:
    """An object of Java's: each name is a function that returns what it was given under that name, or itself."""

    def __init__(self, **returned: Any) -> None:
        self._returned = returned

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self._returned.get(name, self)


class Group:
    """A source's cluster that keeps what its group is told; telling waits until ``may_answer``."""

    def __init__(self, told: list[int]) -> None:
        self._committed = told
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.closed = threading.Event()

    def commit_to_group(self, ends: Mapping[TopicPartition, int]) -> None:
        self.asked.set()
        assert self.may_answer.wait(PATIENCE_S)
        self._committed += ends.values()

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> QueryGroups:
    monkeypatch.setattr(query_groups, "_leaves", lambda *_: [Called()])
    monkeypatch.setattr(query_groups, "_has_group", lambda _: True)
    spark: Any = Called()
    spark._jsparkSession = Called()
    return QueryGroups(spark)


def progress(run: str, end: int) -> Any:
    source = {"description": "source", "endOffset": {"flights": {"0": end}}}
    return Called(progress=Called(id="query", runId=run, json=json.dumps({"sources": [source]})))


def start(listener: QueryGroups, run: str, group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_groups, "_groups_of", lambda _: {"source": group})
    listener.onQueryStarted(Called(id="query", runId=run))


@pytest.mark.parametrize("is_ended", [True, False], ids=["told of its end", "not told of its end"])
def test_an_earlier_run_does_not_set_the_group_back(
    listener: QueryGroups, monkeypatch: pytest.MonkeyPatch, is_ended: bool
) -> None:
    """Its commit is tried again while the query goes on already, and what it has left is old."""
    told: list[int] = []
    first, second = Group(told), Group(told)
    second.may_answer.set()
    start(listener, "run 1", first, monkeypatch)
    listener.onQueryProgress(progress("run 1", 10))
    assert first.asked.wait(PATIENCE_S)
    listener.onQueryProgress(progress("run 1", 15))
    if is_ended:
        listener.onQueryTerminated(Called(id="query", runId="run 1"))
    start(listener, "run 2", second, monkeypatch)
    listener.onQueryProgress(progress("run 2", 20))
    listener.onQueryTerminated(Called(id="query", runId="run 2"))
    first.may_answer.set()
    assert second.closed.wait(PATIENCE_S)
    assert first.closed.wait(PATIENCE_S)
    assert told == [10, 20]


def test_a_run_tells_its_last_batch_behind_its_end(listener: QueryGroups, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    group = Group(told)
    start(listener, "run 1", group, monkeypatch)
    listener.onQueryProgress(progress("run 1", 10))
    assert group.asked.wait(PATIENCE_S)
    listener.onQueryProgress(progress("run 1", 15))
    listener.onQueryTerminated(Called(id="query", runId="run 1"))
    group.may_answer.set()
    assert group.closed.wait(PATIENCE_S)
    assert told == [10, 15]


def test_a_run_that_fails_before_its_first_report_is_told(
    listener: QueryGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[tuple[str, str | None]] = []

    class Observer:
        def on_batch(self, *_: Any) -> None: ...

        def on_end(self, query_id: str, failure: str | None) -> None:
            ended.append((query_id, failure))

    monkeypatch.setattr(query_groups, "_observers", [Observer()])
    start(listener, "run 1", Group([]), monkeypatch)
    failure = Called(isDefined=True, get="no space left")
    listener.onQueryTerminated(Called(id="query", runId="run 1", exception=failure))
    assert ended == [("query", "no space left")]


def test_a_child_that_is_forked_and_ends_leaves_its_parent_s_queries_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Listener:
        is_closed = False

        def close(self, _timeout_s: float) -> None:
            self.is_closed = True

    listener: Any = Listener()
    monkeypatch.setattr(query_groups, "_listeners", {listener})
    query_groups._end_all(os.getpid() + 1)
    assert not listener.is_closed
    query_groups._end_all(os.getpid())
    assert listener.is_closed


def test_a_session_whose_jvm_is_gone_is_over() -> None:
    class Gone:
        @property
        def sparkContext(self) -> Self:  # noqa: N802 - Spark's name
            raise Py4JNetworkError("nobody answers")

    spark: Any = Gone()
    assert QueryGroups(spark).is_over()


def test_observers_hear_of_a_query_that_has_nothing_to_do(
    listener: QueryGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Any] = []

    class Observer:
        def on_idle(self, query: Mapping[str, Any], sources: Any) -> None:
            heard.append((query, sources))

    observers: list[Any] = [Observer()]
    monkeypatch.setattr(query_groups, "_observers", observers)
    monkeypatch.setattr(query_groups, "_sources_of", lambda _: {"source": "its options"})
    listener._spark._jsparkSession = Called(streamingQuery=Called(name="flights"))  # type: ignore[misc]
    listener.onQueryIdle(Called(id="query", runId="run 1"))
    assert heard == [({"id": "query", "name": "flights"}, ["its options"])]


def test_the_end_of_the_process_waits_for_what_an_ended_query_has_still_to_tell(
    listener: QueryGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    group = Group(told)
    start(listener, "run 1", group, monkeypatch)
    listener.onQueryProgress(progress("run 1", 10))
    assert group.asked.wait(PATIENCE_S)
    listener.onQueryTerminated(Called(id="query", runId="run 1"))
    answer = threading.Timer(0.2, group.may_answer.set)
    answer.start()
    query_groups._end_all(os.getpid())
    assert told == [10]
    answer.join()
