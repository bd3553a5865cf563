"""Details of a pipeline that are looked up when somebody opens them: its dead letters, and what a reset would do.

Each lookup has sinks and connections of its own, so that it disturbs neither a running pipeline nor another lookup. One
is made at a time: a page that is opened many times must not be a load for the databases.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from directkafka.errors import OptionError
from directkafka.offsets import Earliest, Exact, Latest
from directkafka.operations.reset import Reset, ResetOutcome, ResetRequest, checkpoint_remark
from directkafka.operations.reset_effects import totals
from directkafka.operations.target import Target, target_of_file
from directkafka.options.texts import whole_number
from directkafka.pipeline.execution.routes import cloned
from directkafka.pipeline.ledger.pause import set_paused
from directkafka.pipeline.status import started_pipelines
from directkafka.plain_text import message, one_line
from directkafka.planning.reset_target import (
    Listed,
    ResetTo,
    RowsPolicy,
    ShiftBy,
    TopicChoice,
    parse_ago,
    parse_moment,
    parse_offsets,
)
from directkafka.sinks.dead_letters.table import DeadLetter, DeadLetters

#: How long a lookup waits for the one before, in seconds, and how many may wait.
_TURN_S: Final = 30.0
_WAITING_MAX: Final = 3
_DEAD_LETTERS_MAX: Final = 50
_REASONS_MAX: Final = 100
_VALUE_BYTES_MAX: Final = 2_000
_EFFECTS_MAX: Final = 2_000


class BusyError(Exception):
    """Other lookups take long."""


class UnknownPipelineError(Exception):
    """There is no such pipeline, or this process does not know its stores."""


class _Turns:
    """Lets one in after the other; of many that wait, most are sent away at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue_slots = threading.BoundedSemaphore(_WAITING_MAX + 1)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """One turn.

        Raises:
            BusyError: too many wait, or the one before takes too long.
        """
        if not self._queue_slots.acquire(blocking=False):
            raise BusyError
        try:
            if not self._lock.acquire(timeout=_TURN_S):
                raise BusyError
            try:
                yield
            finally:
                self._lock.release()
        finally:
            self._queue_slots.release()


class Details:
    """Looks details up, of pipelines of this process and of those of files.

    Args:
        files: pipeline files, by the pipelines' names.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = dict(files)
        #: Lookups wait for lookups; a change must not wait for those that anybody may ask for.
        self._lookups = _Turns()
        self._changes = _Turns()

    def dead_letters(self, name: str, *, reason: str | None = None) -> dict[str, Any]:
        """The dead letters of a pipeline: how many have which reason, and some of them.

        Args:
            name: the pipeline's.
            reason: the beginning of the reason of those that are shown, as it is in the table; None for any.

        Raises:
            UnknownPipelineError: there is no such pipeline.
            BusyError: another lookup takes long.
            DirectKafkaError: the store does not answer.
        """
        with self._opened(name, self._lookups) as target:
            sink = target.dead_letter_sink
            if sink is None:
                return _no_dead_letters("this pipeline has no dead letters")
            table = sink.dead_letters()
            if table is None:
                return _no_dead_letters(
                    f"they are in {sink.name} of {sink.store.identity}, which this page cannot read"
                )
            dead_letters = DeadLetters(table, name)
            if not dead_letters.is_there:
                return _no_dead_letters("none yet")
            reasons = dead_letters.common_reasons(_REASONS_MAX)
            examples = dead_letters.examples(_DEAD_LETTERS_MAX, bytes_max=_VALUE_BYTES_MAX, reason=reason)
            count = dead_letters.count()
        return {
            "note": "",
            "count": count,
            # As it is in the table, for the next question, and as it may be shown.
            "reasons": [{"raw": text, "reason": one_line(text), "count": count} for text, count in reasons.items()],
            "letters": [_as_record(letter) for letter in examples],
        }

    def plan_reset(self, name: str, asked: Mapping[str, str]) -> dict[str, Any]:
        """What a reset would do; nothing is changed.

        Args:
            name: the pipeline's.
            asked: ``to``, ``value``, ``topic`` and ``rows``, as the page has them.

        Raises:
            OptionError: the request is wrong, or the reset cannot be right.
            UnknownPipelineError, BusyError, DirectKafkaError: as :meth:`dead_letters`.
        """
        request = reset_request(asked)
        with self._opened(name, self._lookups) as target:
            return _outcome(_reset(target, request).plan(), target, self._files.get(name))

    def reset(self, name: str, asked: Mapping[str, str]) -> dict[str, Any]:
        """Do it; fences a driver.

        Raises:
            FencedError: a newer driver, or another reset, came in between.
            OptionError, UnknownPipelineError, BusyError, DirectKafkaError: as :meth:`plan_reset`.
        """
        request = reset_request(asked)
        with self._opened(name, self._changes) as target:
            return _outcome(_reset(target, request).run(), target, self._files.get(name))

    def set_paused(self, name: str, *, is_paused: bool) -> dict[str, Any]:
        """Pause a pipeline, or let it go on.

        Raises:
            UnknownPipelineError, BusyError, DirectKafkaError: as :meth:`dead_letters`.
        """
        with self._opened(name, self._changes) as target:
            return {"changed": set_paused(target.unique_stores(), name, is_paused=is_paused)}

    @contextmanager
    def _opened(self, name: str, turns: _Turns) -> Iterator[Target]:
        """A pipeline with sinks of this lookup alone."""
        with turns.taken(), ExitStack() as ending:
            if name in self._files:
                target = ending.enter_context(target_of_file(self._files[name], expected=name))
            else:
                target = _target_of_process(name)
                for route in target.routes:
                    ending.callback(route.sink.store.close)
            yield target


def _target_of_process(name: str) -> Target:
    """A pipeline that was started in this process.

    Raises:
        UnknownPipelineError: there is none, or its sinks cannot be cloned.
    """
    for status in started_pipelines():
        if status.view.pipeline == name and status.routes and len(status.sources) == 1:
            routes = cloned(status.routes)
            if routes is not None:
                return Target(pipeline=name, source=status.sources[0], routes=routes, checkpoint=status.checkpoint)
    raise UnknownPipelineError(name)


def _reset(target: Target, request: ResetRequest) -> Reset:
    assert target.source is not None, "files and pipelines of this process have a source"
    return Reset(target.pipeline, target.source, target.routes, request)


def reset_request(asked: Mapping[str, str]) -> ResetRequest:
    """What a form asks for.

    Args:
        asked: ``to`` is earliest, latest, offset, datetime, duration, shift or offsets, ``value`` what the last five
            need; ``topic`` may be ``topic`` or ``topic:0,1``, and ``rows`` keep or delete.

    Raises:
        OptionError: it is wrong.
    """
    # None is what the command takes without --rows: a reset that is half done is finished as it was begun.
    rows = asked.get("rows") or None
    if rows not in {None, *RowsPolicy}:
        raise OptionError(option="rows", reason="expected keep or delete")
    topic = asked.get("topic", "").strip()
    return ResetRequest(
        to=_reset_to(asked.get("to", ""), asked.get("value", "").strip()),
        topics=(TopicChoice.parse(topic),) if topic else (),
        rows=None if rows is None else RowsPolicy(rows),
    )


def _reset_to(to: str, value: str) -> ResetTo:
    ways: dict[str, Callable[[], ResetTo]] = {
        "earliest": Earliest,
        "latest": Latest,
        "offset": lambda: Exact(_number(value, is_signed=False)),
        "datetime": lambda: parse_moment(value, option="datetime"),
        "duration": lambda: parse_ago(value, option="duration"),
        "shift": lambda: ShiftBy(_number(value, is_signed=True)),
        "offsets": lambda: Listed(parse_offsets(value.splitlines(), option="offsets", where="the request")),
    }
    if to not in ways:
        raise OptionError(option="to", reason=f"expected one of {', '.join(ways)}")
    return ways[to]()


def _number(text: str, *, is_signed: bool) -> int:
    number = whole_number(text)
    if number is None or abs(number) >> 63 or (number < 0 and not is_signed):
        raise OptionError(option="shift" if is_signed else "offset", reason="expected a whole number")
    return number


def _outcome(outcome: ResetOutcome, target: Target, file: Path | None) -> dict[str, Any]:
    effects: Sequence[Any] = outcome.effects
    remarks = list(outcome.remarks)
    if target.checkpoint is not None:
        remarks.append(checkpoint_remark(target.checkpoint, str(file or "FILE")))
    return {
        "changes_something": outcome.changes_something,
        "remarks": [message(remark) for remark in remarks],
        "totals": totals(effects),
        "effects": [effect.as_record() for effect in effects[:_EFFECTS_MAX]],
        "offsets": [
            {"topic": partition.topic, "partition": partition.partition, "offset": offset}
            for partition, offset in outcome.offsets.items()
        ],
    }


def _no_dead_letters(note: str) -> dict[str, Any]:
    return {"note": note, "count": 0, "reasons": [], "letters": []}


def _as_record(letter: DeadLetter) -> dict[str, Any]:
    return {
        "topic": one_line(letter.topic),
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp_ms": letter.timestamp_ms,
        "reason": one_line(letter.reason),
        "value": None if letter.value is None else one_line(letter.value.decode(errors="backslashreplace")),
        "byte_count": letter.byte_count,
    }
