"""The isolating writer around one that is scripted: what is set apart, and what never is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.pipeline.fakes import FakeSink, FakeStore, World
from tests.unit.pipeline.isolation.tasks import offsets_of, range_tasks

from directkafka.errors import DirectKafkaError, OptionError, RowRejectedError, TransformError
from directkafka.kafka.consumer.range_task import RangeTask, ReadCount
from directkafka.pipeline.execution.background_job import BackgroundJob
from directkafka.pipeline.execution.batch_writer import WrittenBatch
from directkafka.pipeline.execution.native.dead_letters import DeadLettersOfBatch
from directkafka.pipeline.isolation import writer as module
from directkafka.pipeline.isolation.policy import DeadLetterPolicy
from directkafka.pipeline.isolation.ranges import RecordPlace
from directkafka.pipeline.isolation.writer import IsolatingWriter, isolating, write_again
from directkafka.pipeline.retry import StopAsked
from directkafka.sinks.api import BatchAttempt, LedgerEntry, TaskReport
from directkafka.sinks.ledger import with_notes

STORE = "letters' store"
TASKS = range_tasks((0, 8), (10, 8))


def place_at(offset: int, topic: str = "t0") -> RecordPlace:
    return RecordPlace(topic, 0, offset)


def attempt(batch_id: int = 5) -> BatchAttempt:
    return BatchAttempt(pipeline="p", generation=1, batch_id=batch_id, attempt="a")


@dataclass
class Inner:
    """Writes ranges without the records that are bad."""

    bad: Collection[RecordPlace] = ()
    error: Callable[[RecordPlace], DirectKafkaError] = field(
        default=lambda record_place: TransformError(source="sql", cause=str(record_place))
    )
    written: list[list[RecordPlace]] = field(default_factory=list)
    #: Offsets without records.
    gaps: Collection[RecordPlace] = ()
    session: Any = None

    def write(self, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]) -> WrittenBatch:
        places = offsets_of(tasks)
        self.written.append(places)
        if bad_places := [each for each in places if each in self.bad]:
            raise self.error(bad_places[0])
        records = [each for each in places if each not in self.gaps]
        return WrittenBatch(name=name, reports=((SINK, ()),), read={"t0": ReadCount(len(records))})


WORLD = World()
SINK = FakeSink(FakeStore(WORLD, STORE), "letters")


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> list[dict[RecordPlace, str]]:
    """The dead letters that were written, each time."""
    written_letters: list[dict[RecordPlace, str]] = []

    def write(writer: Any, letters: Any, name: Any, tasks: Any, reasons: Any) -> Any:
        written_letters.append(dict(reasons))
        return TaskReport(rows=len(reasons), attempt="letters", staged=False), []

    monkeypatch.setattr(module, "write_dead_letters", write)
    monkeypatch.setattr(DeadLettersOfBatch, "of", lambda *_: None)
    return written_letters


def isolating_writer(inner: Inner, *, max_per_batch: int = 100, stop: threading.Event | None = None) -> IsolatingWriter:
    by_spark: Any = FakeBySpark()
    policy = DeadLetterPolicy(SINK, "isolate", max_per_batch)
    writer: Any = inner
    return IsolatingWriter(writer, by_spark, policy, stop or threading.Event())


class FakeBySpark:
    source_schema = dead_letter_writer = None


def test_what_fails_is_set_apart_and_the_rest_is_written(letters: list[Any]) -> None:
    inner = Inner(bad=[place_at(3), place_at(12, "t1")])
    written = isolating_writer(inner).write(attempt(), TASKS, stores=[STORE])
    assert written.set_apart == ("t0-0@3", "t1-0@12")
    assert letters == [{place_at(3): "TransformError: t0-0@3", place_at(12, "t1"): "TransformError: t1-0@12"}]
    assert inner.written[-1] == [each for each in offsets_of(TASKS) if each not in inner.bad]
    assert [report.rows for report in written.reports[0][1]] == [2]


def test_of_a_batch_of_which_every_record_fails_none_is_set_apart(letters: list[Any]) -> None:
    """A service that is down is no record's fault."""
    inner = Inner(bad=offsets_of(TASKS))
    with pytest.raises(TransformError):
        isolating_writer(inner).write(attempt(), TASKS, stores=[STORE])
    assert letters == []


def test_of_a_batch_whose_other_offsets_have_no_records_none_is_set_apart(letters: list[Any]) -> None:
    """As those of a transaction's end, and those that a compacted topic has lost."""
    places = offsets_of(TASKS)
    inner = Inner(bad=places[::2], gaps=places[1::2])
    writer = isolating_writer(inner)
    with pytest.raises(TransformError):
        writer.write(attempt(), TASKS, stores=[STORE])
    assert letters == []


def test_a_batch_that_is_given_up_in_the_background_sets_nothing_apart(
    letters: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its jobs fail because they are cancelled."""

    monkeypatch.setattr(BackgroundJob, "__init__", lambda self, session, job: setattr(self, "job", job))
    monkeypatch.setattr(BackgroundJob, "result", lambda self, limit_s=None: self.job())
    inner = Inner(bad=offsets_of(TASKS)[:1])
    writer = isolating_writer(inner)
    running: Any = writer.begin(attempt(6), TASKS, stores=[STORE])
    with pytest.raises(TransformError):
        running.job()
    assert len(inner.written) == 1, "nothing was looked for"
    # When its turn comes it is looked for.
    assert running.result().set_apart == ("t0-0@0",)


def refused_commits(writer: IsolatingWriter, bad: Collection[RecordPlace], inner: Inner, rounds: int) -> WrittenBatch:
    """What the engine does: write, commit, look for what was refused, again; meanwhile the next batch is written."""
    written_of: dict[int, list[RecordPlace]] = {}

    def rehearse(written: WrittenBatch) -> None:
        if refused_places := [each for each in inner.written[-1] if each in bad]:
            raise RowRejectedError(store=STORE, sink="rows", detail=str(refused_places[0]))

    for _ in range(rounds):
        written = writer.write(attempt(5), TASKS, stores=[STORE])
        written_of[5] = inner.written[-1]
        writer.write(attempt(6), range_tasks((8, 4)), stores=[STORE])
        if not (refused_places := [each for each in written_of[5] if each in bad]):
            return written
        error = RowRejectedError(store=STORE, sink="rows", detail=str(refused_places[0]))
        writer.find_refused(attempt(5), TASKS, error, stores=[STORE], rehearse=rehearse)
    raise AssertionError("it never ends")


def test_what_a_store_refuses_is_found_though_the_next_batch_is_written_meanwhile(letters: list[Any]) -> None:
    inner = Inner()
    written = refused_commits(isolating_writer(inner), [place_at(2), place_at(15, "t1")], inner, rounds=4)
    assert set(written.set_apart) == {"t0-0@2", "t1-0@15"}


def test_a_letter_that_is_refused_is_not_looked_for_for_ever(letters: list[Any]) -> None:
    """The batch has one record, which is set apart already."""
    tasks = range_tasks((0, 1))
    writer = isolating_writer(Inner(bad=[place_at(0)]))
    writer.write(attempt(), tasks, stores=[STORE])
    error = RowRejectedError(store=STORE, sink="letters", detail="no")
    with pytest.raises(RowRejectedError):
        writer.find_refused(attempt(), tasks, error, stores=[STORE], rehearse=lambda written: None)


def test_a_store_that_cannot_rehearse_stops_the_pipeline_by_what_it_refused() -> None:
    def rehearse(written: WrittenBatch) -> None:
        raise NotImplementedError("a store of one's own")

    error = RowRejectedError(store=STORE, sink="rows", detail="no")
    with pytest.raises(RowRejectedError):
        isolating_writer(Inner()).find_refused(attempt(), TASKS, error, stores=[STORE], rehearse=rehearse)


def test_a_stop_ends_a_search(letters: list[Any]) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(StopAsked):
        isolating_writer(Inner(bad=[place_at(3)]), stop=stop).write(attempt(), TASKS, stores=[STORE])


def entry(*set_apart: str) -> LedgerEntry:
    plain = LedgerEntry(pipeline="p", generation=1, lineage="l", batch_id=5, progress=())
    return with_notes(plain, schema_ids={}, set_apart=set_apart)


def test_a_store_that_lacks_a_batch_goes_without_the_same_records_and_no_others(letters: list[Any]) -> None:
    inner = Inner()
    writer: Any = isolating_writer(inner)
    written = write_again(writer, entry("t0-0@3"), attempt(), TASKS, [STORE])
    assert written.set_apart == ("t0-0@3",)
    assert place_at(3) not in inner.written[0]
    assert "when the batch was first tried" in letters[0][place_at(3)]
    inner.bad = [place_at(4)]
    with pytest.raises(TransformError):
        write_again(writer, entry("t0-0@3"), attempt(), TASKS, [STORE])


def test_a_pipeline_that_isolates_no_more_must_not_forget_what_was_set_apart() -> None:
    writer: Any = Inner()
    with pytest.raises(OptionError, match=r"without 1 records.*t0-0@3.*on_error = 'isolate' until"):
        write_again(writer, entry("t0-0@3"), attempt(), TASKS, [STORE])
    assert write_again(writer, entry(), attempt(), TASKS, [STORE]).reports


def test_a_pipeline_without_the_choice_is_left_as_it_is() -> None:
    assert isolating(None, is_structured=False, stop=threading.Event()) is None
    assert isolating(DeadLetterPolicy(SINK), is_structured=True, stop=threading.Event()) is None
    with pytest.raises(OptionError, match="planned by Spark"):
        isolating(DeadLetterPolicy(SINK, "isolate"), is_structured=True, stop=threading.Event())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"on_error": "ignore"}, "expected 'fail' or 'isolate'"),
        ({"max_per_batch": 0}, "a whole number from 1"),
        ({"max_per_batch": True}, "a whole number from 1"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        DeadLetterPolicy(SINK, **options)
    given: Any = "letters"
    with pytest.raises(OptionError, match="expected a sink or a DeadLetterPolicy, found str"):
        DeadLetterPolicy.of(given)
