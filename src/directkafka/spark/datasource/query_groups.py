"""Offsets of streaming queries on their way to consumer groups (``commitToGroup``): a listener of the session.

A source of Spark's hears that a batch is done when the next one is planned: one trigger late, and never of the last
batch of a run. A listener hears it at once. It is told what was read, but not with which options; those stand in the
query's plan, beside the stream that the report names. So one query may have several sources, with a group each.

Spark calls a session's listeners one after the other. To wait for a broker there would hold up all of them, so each
query that has a group has a thread, which commits what was told last.

The order of a run:

1. The query starts, and Spark waits for the listener: the thread is made. (Later may be too late: while a program
   ends, no thread can be.)
2. A batch is done, which is in Spark's log by now: its ends go to the thread.
3. The query ends, and Spark tells it behind its last batch: the thread commits what it still has, and ends.
4. The program ends: what Spark has not told yet is waited for, and then the threads, ten seconds at most.

After a kill between 2 and the commit the group is behind, until the query is started again: a source commits where
it goes on.

A query that is started again, with its checkpoint, is a new run of the same query. A commit of the run before may be on
its way then, or be tried again; so that it cannot set the group back, the new run's thread waits for the old one, which
begins nothing more.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from py4j.protocol import Py4JError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from directkafka.offsets import TopicPartition, from_nested
from directkafka.options.source import SourceOptions
from directkafka.spark.source_cluster import SourceCluster

log = logging.getLogger("directkafka.source")

# PySpark has no annotations there.
_take_calls: Any = ensure_callback_server_started

#: The option as Spark's plan has it when names are compared without their case.
_OPTION: Final = "committogroup"

#: How long a program that ends waits for what its queries have done, in seconds.
_EXIT_S: Final = 10.0

#: The listeners of this process, one for each session in which the format is registered, as long as Spark has them.
_listeners: weakref.WeakSet[QueryGroups] = weakref.WeakSet()
_lock = threading.Lock()
#: The last run of each query by the query's id, whatever session it was started in, as long as its thread runs.
_last_runs: weakref.WeakValueDictionary[str, _FollowedQuery] = weakref.WeakValueDictionary()


class QueryObserver(Protocol):
    """Hears of the batches of queries that read with the format ``directkafka``, on a thread of Spark's."""

    def on_batch(self, progress: Mapping[str, Any], sources: Sequence[SourceOptions]) -> None:
        """A batch is done.

        Args:
            progress: Spark's ``StreamingQueryProgress`` as it is in JSON; of its sources those of this format alone.
            sources: the options of these sources, in the same order.
        """

    def on_idle(self, query: Mapping[str, Any], sources: Sequence[SourceOptions]) -> None:
        """A query runs, and had nothing to do for a while.

        Args:
            query: its ``id`` and its ``name``, which may be None.
            sources: as for a batch.
        """

    def on_end(self, query_id: str, failure: str | None) -> None:
        """A run of a query has ended; by an error, if there is a text.

        Of a run that no batch was told of, it is not known whether the query reads with the format.
        """


#: Those who want to hear of queries, whatever session they were started in.
_observers: list[QueryObserver] = []


def observe_queries(observer: QueryObserver) -> None:
    """Tell an observer of all queries of this process from now on; a second call for the same one does nothing."""
    if observer not in _observers:
        _observers.append(observer)


def follow_queries(spark: SparkSession) -> bool:
    """Commit the offsets of this session's queries as its batches end; to be called once for each session.

    Args:
        spark: a session of this process, not one of Spark Connect.

    Returns:
        Whether it is so; where Spark refuses a listener, the sources do it, one trigger late.
    """
    try:
        listener = QueryGroups(spark)
        gateway: Any = spark.sparkContext._gateway
        _take_calls(gateway)
        wrapper = gateway.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper
        java_session: Any = spark._jsparkSession
        java_session.streams().addListener(wrapper(listener))
    except Exception as error:  # noqa: BLE001 - a group is a display: nothing of it may keep a program from its data
        log.warning("offsets go to the group of commitToGroup one trigger late: Spark takes no listener: %s", error)
        return False
    with _lock:
        atexit.unregister(_end_all)
        atexit.register(_end_all, os.getpid())
        over = [listener for listener in _listeners if listener.is_over()]
        _listeners.difference_update(over)
        _listeners.add(listener)
    for query in over:
        query.close(0.0)
    return True


def _end_all(owner: int) -> None:
    if os.getpid() != owner:
        # A child that the program has forked, and that ends: queries and the JVM's connections are the parent's.
        return
    with _lock:
        left = list(_listeners)
    until_s = time.monotonic() + _EXIT_S
    for query in left:
        query.close(max(0.0, until_s - time.monotonic()))
    # Also of queries that have ended: what their last batch has read may still be on its way to the group.
    with _lock:
        runs = list(_last_runs.values())
    for run in runs:
        run.join(max(0.0, until_s - time.monotonic()))


class QueryGroups:
    """Hears of a session's queries; its methods are called by Spark, on threads of Spark's.

    It takes Java's events as they are: to make PySpark's objects of a report costs a hundred calls into the JVM, also
    for a query that has no group.

    Args:
        spark: the session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._queries: dict[str, _FollowedQuery] = {}
        #: Of the runs that are observed, the JVM's execution, and the options of the format's sources by what reports
        #: call them, once they are known.
        self._observed: dict[str, tuple[Any, dict[str, SourceOptions] | None]] = {}
        self._changed = threading.Lock()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Follow the query if one of its sources has a group."""
        try:
            java_session: Any = self._spark._jsparkSession
            query = java_session.streams().get(event.id()).streamingQuery()
            if _observers:
                self._observed[str(event.runId())] = (query, None)
            if any(_has_group(leaf.extraOptions()) for leaf in _leaves(query.analyzedPlan(), "StreamingRelationV2")):
                followed = _follow(str(event.id()), query)
                with self._changed:
                    self._queries[str(event.runId())] = followed
        except Exception as error:  # noqa: BLE001 - as above, also below
            log.warning("the query %s goes on; its offsets go to no group: %s", event.id(), error)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """A batch is done."""
        progress = event.progress()
        with self._changed:
            query = self._queries.get(str(progress.runId()))
        if query is None and not _observers:
            return
        try:
            told = json.loads(progress.json())
            if query is not None:
                query.report_progress(told)
            if _observers:
                self._tell_observers(str(progress.runId()), told)
        except Exception as error:  # noqa: BLE001
            log.warning("the query %s goes on; a batch is in no group and in no metric: %s", progress.id(), error)

    def _tell_observers(self, run_id: str, progress: dict[str, Any]) -> None:
        _, sources = self._observed_run(run_id, progress["id"])
        ours = [source for source in progress["sources"] if source["description"] in sources]
        if ours:
            for observer in tuple(_observers):
                observer.on_batch(progress | {"sources": ours}, [sources[source["description"]] for source in ours])

    def _observed_run(self, run_id: str, query_id: str) -> tuple[Any, dict[str, SourceOptions]]:
        if run_id not in self._observed:  # it was started before anybody observed
            java_session: Any = self._spark._jsparkSession
            wrapper = java_session.streams().get(query_id)
            self._observed[run_id] = (None if wrapper is None else wrapper.streamingQuery(), None)
        query, sources = self._observed[run_id]
        if sources is None:
            # The streams are made after the query's start has been told.
            sources = {} if query is None else _sources_of(query)
            self._observed[run_id] = (query, sources)
        return query, sources

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """The query runs, and no batch was done."""
        if not _observers:
            return
        try:
            query, sources = self._observed_run(str(event.runId()), str(event.id()))
            if sources:
                for observer in tuple(_observers):
                    observer.on_idle({"id": str(event.id()), "name": query.name()}, list(sources.values()))
        except Exception as error:  # noqa: BLE001
            log.warning("the query %s goes on; that it runs is in no metric: %s", event.id(), error)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Nothing more comes of this run."""
        with self._changed:
            query = self._queries.pop(str(event.runId()), None)
        if query is not None:
            query.end()
        _, sources = self._observed.pop(str(event.runId()), (None, {}))
        # None: the run has ended before its first report. An observer passes over a query that it does not know.
        if sources or sources is None:
            for observer in tuple(_observers):
                exception = event.exception()
                observer.on_end(str(event.id()), str(exception.get()) if exception.isDefined() else None)

    def is_over(self) -> bool:
        """Whether the session's Spark application has been stopped: its queries have ended, told or not."""
        try:
            return self._spark.sparkContext._jsc is None or bool(self._spark.sparkContext._jsc.sc().isStopped())
        except (Py4JError, OSError, AttributeError):  # its JVM is gone, or goes this moment
            return True

    def close(self, timeout_s: float) -> None:
        """Commit what is done, and forget all queries.

        Args:
            timeout_s: how long that may take, in seconds.
        """
        until_s = time.monotonic() + timeout_s
        with self._changed:
            is_needed = bool(self._queries)
        if is_needed:
            # Spark may be gone by now, or have more to tell than there is time for.
            with suppress(Py4JError, OSError, AttributeError):
                self._spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(int(timeout_s * 1000))
        with self._changed:
            left, self._queries = list(self._queries.values()), {}
        for query in left:
            query.end()
        for query in left:
            query.join(max(0.0, until_s - time.monotonic()))

    class Java:
        """What Spark's wrapper around a listener written in Python calls."""

        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]  # noqa: RUF012 - as py4j has it


def _follow(query_id: str, query: Any) -> _FollowedQuery:
    """Follow a run of a query; the run before says nothing more."""
    with _lock:
        before = _last_runs.get(query_id)
        if before is not None:
            before.silence()
        followed = _last_runs[query_id] = _FollowedQuery(query, before)
    return followed


class _FollowedQuery:
    """One run of a query: its sources' groups, and the thread that commits to them.

    Args:
        query: the JVM's execution of it.
        before: the query's run before this one, which is waited for.
    """

    def __init__(self, query: Any, before: _FollowedQuery | None) -> None:
        self._query = query
        self._before = before
        self._sources: dict[str, SourceCluster] | None = None
        self._committed: dict[SourceCluster, Mapping[TopicPartition, int]] = {}
        self._is_over = False
        self._is_silent = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="directkafka query groups", daemon=True)
        self._thread.start()

    def report_progress(self, progress: Mapping[str, Any]) -> None:
        """A batch is done: commit its ends, and no older ones."""
        if self._sources is None:
            # The streams are made after the query's start has been told.
            self._sources = _groups_of(self._query)
        ends = {
            self._sources[source["description"]]: from_nested(source["endOffset"])
            for source in progress["sources"]
            if source["description"] in self._sources and source["endOffset"]
        }
        with self._changed:
            if not self._is_silent:
                self._committed |= ends
            self._changed.notify_all()

    def end(self) -> None:
        """The query has ended: the thread commits what it has, and ends too."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def silence(self) -> None:
        """A newer run goes on: the thread commits nothing more than what is on its way, and ends."""
        with self._changed:
            self._is_over = self._is_silent = True
            self._committed = {}
            self._changed.notify_all()

    def join(self, timeout_s: float | None) -> None:
        """Wait until the thread has ended."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        if self._before is not None:
            self._before.join(None)
            self._before = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._committed or self._is_over)
                told, self._committed = self._committed, {}
            if not told:
                break
            for cluster, ends in told.items():
                if self._is_silent:
                    break
                try:
                    cluster.commit_to_group(ends)
                except Exception as error:  # noqa: BLE001
                    log.warning("the query goes on; a batch's offsets go to no group: %s", error)
        for cluster in (self._sources or {}).values():
            cluster.close()


def _groups_of(query: Any) -> dict[str, SourceCluster]:
    """The sources of a running query that have a group, by what its reports call them."""
    sources = _sources_of(query).items()
    return {name: SourceCluster(options) for name, options in sources if options.commit_to_group is not None}


def _sources_of(query: Any) -> dict[str, SourceOptions]:
    """The sources of this format in a running query, by what its reports call them."""
    leaves = _leaves(query.logicalPlan(), "StreamingDataSourceV2ScanRelation")
    # One source may stand in a plan more than once.
    given = {leaf.stream().toString(): leaf.relation().options() for leaf in leaves if _is_ours(leaf)}
    return {
        name: SourceOptions.parse(dict(options.asCaseSensitiveMap()), streaming=True) for name, options in given.items()
    }


def _is_ours(leaf: Any) -> bool:
    return bool(leaf.relation().table().name() == "directkafka")


def _leaves(plan: Any, kind: str) -> list[Any]:
    leaves = plan.collectLeaves()
    leaf_nodes = [leaves.apply(number) for number in range(leaves.size())]
    return [leaf for leaf in leaf_nodes if leaf.getClass().getSimpleName() == kind]


def _has_group(options: Any) -> bool:
    return bool(options.containsKey(_OPTION))
