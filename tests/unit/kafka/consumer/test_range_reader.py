"""What the fetch thread decides, with a scripted leader in place of the network."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.record_encoder import Record, encode_batch

from directkafka.errors import BrokerResponseError, DataLossError, FetchTimeoutError, MalformedBatchError
from directkafka.errors.data_loss import TopicRecreatedError
from directkafka.kafka.consumer import range_reader
from directkafka.kafka.consumer.fetch import FetchResponse
from directkafka.kafka.consumer.partition_connection import LeaderState, TopicGone, TryAgain
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.offsets import OffsetRange
from directkafka.options.client import ClientOptions

CLIENT = ClientOptions(bootstrap_servers=("broker:9092",), retry_backoff_ms=1)


def task(until_offset: int = 20, **fields: Any) -> RangeTask:
    values: dict[str, Any] = {"poll_timeout_ms": 5_000, **fields}
    return RangeTask(
        range=OffsetRange("flights", 3, 10, until_offset), topic_id="id", host="a", port=1, client=CLIENT, **values
    )


def answer(first: int = 0, last: int = -1, **fields: Any) -> tuple[FetchResponse, bytes]:
    """A response with one batch of the offsets ``first`` to ``last``, or with none."""
    offsets = range(first, last + 1)
    epoch = fields.pop("leader_epoch", 0)
    records = encode_batch([Record(offset=offset, value=b"value") for offset in offsets]) if offsets else b""
    records = records[:12] + epoch.to_bytes(4, "big") + records[16:] if offsets else b""
    values: dict[str, Any] = {"throttle_ms": 0, "partition": 3, **fields}
    return FetchResponse(correlation_id=1, error_code=0, **values, records_end=len(records)), records


def merged(*answers: tuple[FetchResponse, bytes]) -> tuple[FetchResponse, bytes]:
    """One response with the batches of several."""
    records = b"".join(batches for _, batches in answers)
    return replace(answers[0][0], records_end=len(records)), records


def refusal(code: int) -> tuple[FetchResponse, bytes]:
    return FetchResponse(correlation_id=1, throttle_ms=0, error_code=code), b""


class Leader:
    """Answers from a script; an exception in it is raised. Remembers what was asked and done."""

    def __init__(self) -> None:
        self.script: deque[Any] = deque()
        self.state = LeaderState(address=("broker", 9092), earliest=0, latest=1_000)
        self.address = self.state.address
        self.rack = "near"
        self.asked: list[int] = []
        self.asked_at: list[float] = []
        self.done: list[str] = []
        self.times_served = 0
        self.host, self.port = "broker", 9092

    def answer(self, _: object, task: RangeTask, position: int, *, buffer: bytearray, **__: Any) -> FetchResponse:
        self.asked.append(position)
        self.asked_at.append(time.monotonic())
        scripted_answer = self.script.popleft() if self.script else answer()
        if isinstance(scripted_answer, Exception):
            raise scripted_answer
        response, records = scripted_answer
        buffer[: len(records)] = records
        return response  # type: ignore[no-any-return]

    def open(self, _: int) -> Leader:
        return self

    def leader_state(self, _: int) -> LeaderState:
        self.done.append("ask why")
        return self.state

    def move_to(self, node_id: int, _: int) -> None:
        self.done.append(f"move to {node_id}")
        self.address = (f"replica-{node_id}", 9092)

    def forget(self) -> None:
        self.done.append("forget")
        self.address = self.state.address

    def served(self) -> None:
        self.times_served += 1

    def __getattr__(self, name: str) -> Callable[[], None]:
        return lambda: self.done.append(name)


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Leader]:
    made = Leader()
    monkeypatch.setattr(range_reader, "PartitionConnection", lambda _: made)
    monkeypatch.setattr(range_reader, "send_fetch", made.answer)
    yield made
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("fetch ")]


def run(a_task: RangeTask) -> list[tuple[int, int]]:
    """``(asked offset, next offset)`` of every response."""
    fetching = range_reader.RangeFetch(a_task)
    offset_pairs = []
    try:
        for fetched in fetching:
            offset_pairs.append((fetched.from_offset, fetched.index.next_offset))
            fetching.recycle(fetched)
    finally:
        fetching.close()
    return offset_pairs


def test_every_answer_without_an_error_says_that_the_topic_is_there(leader: Leader) -> None:
    leader.script += [answer(8, 12), refusal(6), answer(), answer(13, 25)]
    run(task())
    assert (len(leader.asked), leader.times_served) == (4, 3)


def test_the_next_request_starts_where_the_last_batch_ended(leader: Leader) -> None:
    leader.script += [answer(8, 12), answer(13, 17), answer(18, 25)]
    assert run(task()) == [(10, 13), (13, 18), (18, 26)]
    assert leader.done == ["keep"]


@pytest.mark.parametrize("code", [3, 5, 6, 9, 56, 74, 75, 78, 100, 103])
def test_a_leader_that_is_none_is_looked_up_again(leader: Leader, code: int) -> None:
    leader.script += [refusal(code), answer(10, 19)]
    assert run(task()) == [(10, 20)]
    assert leader.done == ["forget", "keep"]


def test_a_lost_connection_is_made_again_at_the_same_position(leader: Leader) -> None:
    leader.script += [answer(10, 14), ConnectionResetError("gone"), TryAgain("no leader"), answer(15, 19)]
    assert run(task()) == [(10, 15), (15, 20)]
    assert leader.asked == [10, 15, 15, 15]


def test_a_leader_that_is_away_is_left_alone_for_as_long_as_is_said(leader: Leader) -> None:
    leader.script += [refusal(6), TryAgain("no leader"), answer(10, 19)]
    patient = replace(CLIENT, refresh_leader_backoff_ms=150)
    assert run(replace(task(), client=patient)) == [(10, 20)]
    first, second, third = leader.asked_at
    assert min(second - first, third - second) >= 0.15


def test_an_empty_answer_is_asked_again(leader: Leader) -> None:
    leader.script += [answer(), answer(), answer(10, 19)]
    assert run(task()) == [(10, 20)]


# A replica that is nearer.


def test_a_leader_that_refers_to_a_nearer_replica_is_followed_at_once(leader: Leader) -> None:
    leader.script += [answer(preferred_read_replica=2), answer(10, 19)]
    begun = time.monotonic()
    assert run(task()) == [(10, 20)]
    assert leader.done == ["move to 2", "keep"]
    assert time.monotonic() - begun < 0.5


def test_a_replica_that_lacks_what_the_leader_has_sends_back_to_the_leader(leader: Leader) -> None:
    leader.script += [answer(preferred_read_replica=2), refusal(1), answer(10, 19)]
    assert run(task()) == [(10, 20)]
    assert leader.done == ["move to 2", "forget", "ask why", "keep"]


def test_a_replica_that_has_nothing_to_give_is_left_for_the_leader(leader: Leader) -> None:
    """What it says of the end of the log counts for nothing: it may be behind."""
    leader.state = replace(leader.state, local_start=0)
    leader.script += [answer(preferred_read_replica=2), answer(high_watermark=1_000), answer(10, 19)]
    assert run(task()) == [(10, 20)]
    assert leader.done == ["move to 2", "ask why", "forget", "keep"]


# Offsets that hold nothing.


def test_offsets_that_compaction_has_emptied_are_moved_over_with_one_request(leader: Leader) -> None:
    leader.state = replace(leader.state, local_start=10)
    leader.script += [answer(high_watermark=1_000)]
    assert run(task()) == []
    assert leader.asked == [10]


def test_under_read_committed_nothing_is_moved_over_that_is_not_stable_yet(leader: Leader) -> None:
    leader.state = replace(leader.state, local_start=0)
    committed = replace(CLIENT, isolation_level="read_committed")
    ends = {"high_watermark": 1_000, "last_stable_offset": 15}
    leader.script += [answer(**ends), answer(**ends), answer(15, 19)]
    assert run(replace(task(), client=committed)) == [(15, 20)]
    assert leader.asked == [10, 15, 15]


@pytest.mark.parametrize("local_start", [None, 11])
def test_what_may_lie_in_remote_storage_is_waited_for(leader: Leader, local_start: int | None) -> None:
    leader.state = replace(leader.state, local_start=local_start)
    leader.script += [answer(high_watermark=1_000), answer(10, 19)]
    assert run(task()) == [(10, 20)]
    assert leader.asked == [10, 10]


def test_a_throttled_client_is_told_nothing_and_asks_again(leader: Leader) -> None:
    leader.state = replace(leader.state, local_start=0)
    leader.script += [answer(partition=-1, throttle_ms=1), answer(10, 19)]
    assert run(task()) == [(10, 20)]
    assert leader.done == ["keep"]


def test_a_throttled_client_is_silent_for_as_long_as_the_broker_says_whoever_it_asks_next(leader: Leader) -> None:
    leader.state = replace(leader.state, local_start=0)
    leader.script += [answer(partition=-1, throttle_ms=1_500), answer(10, 19)]
    assert run(task(poll_timeout_ms=1_000)) == [(10, 20)]
    assert leader.asked_at[1] - leader.asked_at[0] >= 1.49


def test_an_error_without_a_code_of_its_own_is_asked_about_again(leader: Leader) -> None:
    """Remote storage that fails for a moment is one."""
    leader.script += [refusal(-1), answer(10, 19)]
    assert run(task()) == [(10, 20)]


# A log that was cut since the range was planned.


def test_what_a_later_leader_wrote_in_place_of_the_range_is_a_loss(leader: Leader) -> None:
    leader.script += [merged(answer(10, 12), answer(13, 17, leader_epoch=6)), answer(13, 17, leader_epoch=6)]
    with pytest.raises(DataLossError, match="cut and written again") as caught:
        run(task(leader_epoch=5))
    assert (caught.value.lost_from, caught.value.lost_until) == (13, 20)


def test_what_was_there_before_the_cut_is_read(leader: Leader) -> None:
    leader.script += [merged(answer(10, 12), answer(13, 17, leader_epoch=6)), answer(13, 17, leader_epoch=6)]
    assert run(task(leader_epoch=5, fail_on_data_loss=False)) == [(10, 13)]


def test_what_a_later_leader_wrote_behind_the_range_is_nothing_special(leader: Leader) -> None:
    leader.script += [merged(answer(10, 17), answer(20, 25, leader_epoch=6))]
    assert run(task(leader_epoch=5)) == [(10, 26)]


def test_a_range_of_an_unknown_epoch_takes_what_there_is(leader: Leader) -> None:
    leader.script += [answer(10, 19, leader_epoch=6)]
    assert run(task()) == [(10, 20)]


def test_a_log_that_was_cut_and_not_written_again_is_a_loss(leader: Leader) -> None:
    leader.state = replace(leader.state, latest=14, planned_end=14)
    leader.script += [answer(10, 13), answer(high_watermark=14)]
    with pytest.raises(DataLossError, match="ends at offset 14 now") as caught:
        run(task(leader_epoch=5))
    assert (caught.value.lost_from, caught.value.lost_until) == (14, 20)


def test_a_new_leader_that_has_all_and_still_learns_so_is_waited_for(leader: Leader) -> None:
    leader.state = replace(leader.state, planned_end=20, local_start=0)
    leader.script += [answer(10, 13), answer(high_watermark=14), answer(14, 19)]
    assert run(task(leader_epoch=5)) == [(10, 14), (14, 20)]


def test_offsets_that_are_gone_are_lost_up_to_where_the_log_starts(leader: Leader) -> None:
    leader.script += [refusal(1)]
    leader.state = replace(leader.state, earliest=15)
    with pytest.raises(DataLossError) as caught:
        run(task())
    assert (caught.value.lost_from, caught.value.lost_until) == (10, 15)
    assert leader.done == ["forget", "ask why", "interrupt", "drop"]


def test_lost_offsets_are_passed_over_when_that_is_allowed(leader: Leader) -> None:
    leader.script += [refusal(1), answer(15, 19)]
    leader.state = replace(leader.state, earliest=15)
    assert run(task(fail_on_data_loss=False)) == [(15, 20)]


def test_a_truncated_log_loses_the_rest_of_the_range(leader: Leader) -> None:
    leader.script += [refusal(1)]
    leader.state = replace(leader.state, latest=5)
    assert run(task(fail_on_data_loss=False)) == []
    leader.script += [refusal(1)]
    with pytest.raises(DataLossError, match="ends at offset 5"):
        run(task())


def test_a_topic_that_was_made_again_loses_the_rest_of_the_range(leader: Leader) -> None:
    leader.script += [answer(10, 14), TopicGone(TopicRecreatedError, "made again")]
    with pytest.raises(DataLossError, match="made again") as caught:
        run(task())
    assert (caught.value.condition, caught.value.lost_from, caught.value.lost_until) == ("TOPIC_RECREATED", 15, 20)
    leader.script += [answer(10, 14), TopicGone(TopicRecreatedError, "made again")]
    assert run(task(fail_on_data_loss=False)) == [(10, 15)]


def test_an_error_that_no_retry_helps_is_raised(leader: Leader) -> None:
    leader.script += [refusal(29)]
    with pytest.raises(BrokerResponseError, match="topic flights, partition 3"):
        run(task())


def test_bytes_that_do_not_go_on_are_malformed(leader: Leader) -> None:
    leader.script += [answer(3, 7)]
    with pytest.raises(MalformedBatchError, match="no complete batch that goes on") as caught:
        run(task())
    assert caught.value.offset == 10


def test_no_progress_for_the_poll_timeout_is_an_error_that_says_why(leader: Leader) -> None:
    leader.script += [answer(10, 14), *[answer(high_watermark=15)] * 10_000]
    begun = time.monotonic()
    with pytest.raises(FetchTimeoutError, match=r"no records at offset 15 \(high watermark 15") as caught:
        run(task(poll_timeout_ms=400))
    assert time.monotonic() - begun < 3.0
    assert (caught.value.offset, caught.value.until_offset, caught.value.timeout_ms) == (15, 20, 400)


def test_progress_starts_the_poll_timeout_anew(leader: Leader) -> None:
    """Each step stalls for a while, all together for longer than the timeout."""
    for offset in range(10, 20):
        leader.script += [TryAgain("stalled")] * 5 + [answer(offset, offset)]
    leader_answer = leader.answer

    def slow(*arguments: Any, **named: Any) -> FetchResponse:
        time.sleep(0.02)
        return leader_answer(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_reader, "send_fetch", slow)
        assert run(task(poll_timeout_ms=800))[-1] == (19, 20)


def test_a_throttled_client_waits_before_its_next_request_and_not_with_its_records(leader: Leader) -> None:
    first, records = answer(10, 14)
    throttled = replace(first, throttle_ms=300)
    leader.script += [(throttled, records), answer(15, 19)]
    fetching = iter_of(task())
    begun = time.monotonic()
    next(fetching)
    assert time.monotonic() - begun < 0.25
    assert list(fetching) == [(15, 20)]
    assert leader.asked_at[1] - leader.asked_at[0] >= 0.29


def iter_of(a_task: RangeTask) -> Iterator[tuple[int, int]]:
    fetching = range_reader.RangeFetch(a_task)
    try:
        for fetched in fetching:
            yield fetched.from_offset, fetched.index.next_offset
            fetching.recycle(fetched)
    finally:
        fetching.close()


def test_no_more_responses_wait_than_there_are_buffers(leader: Leader) -> None:
    leader.script += [answer(offset, offset) for offset in range(10, 40)]
    fetching = range_reader.RangeFetch(task(until_offset=40))
    lent = []
    responses = iter(fetching)
    for _ in range(range_reader.BUFFERS):
        lent.append(next(responses))
    # All buffers are out: the thread has nothing to receive into.
    assert len(leader.asked) == range_reader.BUFFERS
    fetching.recycle(lent[0])
    next(responses)
    assert len(leader.asked) == range_reader.BUFFERS + 1
    fetching.close()


def test_closing_before_the_first_response_is_harmless(leader: Leader) -> None:
    fetching = range_reader.RangeFetch(task())
    fetching.close()
    assert leader.asked == []
