"""Details of a pipeline that are looked up when somebody opens them: its dead letters, and what a reset would do.

Each lookup has sinks and connections of its own, so that it disturbs neither a running pipeline nor another lookup. One
is made at a time: a page that is opened many times must not be a load for the databases.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from directkafka.errors import OptionError
from directkafka.offsets import Earliest, Exact, Latest
from directkafka.operations.reset import Reset, ResetOutcome, ResetRequest
from directkafka.operations.reset_effects import totals
from directkafka.options.source import SourceOptions
from directkafka.options.texts import whole_number
from directkafka.pipeline.execution.rejection import DEAD_LETTERS
from directkafka.pipeline.execution.routes import Route, cloned, route_outputs
from directkafka.pipeline.file import load
from directkafka.pipeline.ledger.pause import set_paused
from directkafka.pipeline.status import started_pipelines
from directkafka.plain_text import cut, message, one_line
from directkafka.planning.reset_target import ResetTo, RowsPolicy, ShiftBy, TopicChoice, parse_ago, parse_moment
from directkafka.sinks.api import Store
from directkafka.sinks.dead_letters.table import DeadLetter, DeadLetters, Selection

#: How long a lookup waits for the one before, in seconds.
_TURN_S: Final = 30.0
_LETTERS_MAX: Final = 50
_REASONS_MAX: Final = 100
_REASON_CHARACTERS_MAX: Final = 500
_VALUE_BYTES_MAX: Final = 2_000
_EFFECTS_MAX: Final = 2_000


class BusyError(Exception):
    """Another lookup takes long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """A pipeline with sinks of this lookup alone."""

    name: str
    source: SourceOptions
    routes: tuple[Route, ...]

    def stores(self) -> tuple[Store, ...]:
        """Each place once, in order."""
        first: dict[str, Store] = {}
        for route in self.routes:
            first.setdefault(route.sink.store.identity, route.sink.store)
        return tuple(first.values())


class Details:
    """Looks details up, of pipelines of this process and of those of files.

    Args:
        files: pipeline files, by the pipelines' names.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = dict(files)
        self._turn = threading.Lock()

    def dead_letters(self, name: str, *, reason: str | None = None) -> dict[str, Any]:
        """The dead letters of a pipeline: how many have which reason, and the first of them.

        Args:
            name: the pipeline's.
            reason: of the records that are shown, a text that their reason has in it.

        Raises:
            LookupError: there is no such pipeline.
            BusyError: another lookup takes long.
            DirectKafkaError: the store does not answer.
        """
        with self._opened(name) as parts:
            sink = next((route.sink for route in parts.routes if route.output == DEAD_LETTERS), None)
            if sink is None:
                return _no_letters("this pipeline has no dead letters")
            table = sink.dead_letters()
            if table is None:
                return _no_letters(f"they are in {sink.name} of {sink.store.identity}, which this page cannot read")
            found = DeadLetters(table, name)
            if not found.is_there:
                return _no_letters("none yet")
            counts = list(found.count_by_reason(Selection()).items())
            first = found.first(Selection(reason=reason, limit=_LETTERS_MAX), bytes_max=_VALUE_BYTES_MAX)
        return {
            "note": "",
            "count": sum(count for _, count in counts),
            "reasons": [{"reason": _reason(text), "count": count} for text, count in counts[:_REASONS_MAX]],
            "letters": [_as_record(letter) for letter in first],
        }

    def plan_reset(self, name: str, asked: Mapping[str, str]) -> dict[str, Any]:
        """What a reset would do; nothing is changed.

        Args:
            name: the pipeline's.
            asked: ``to``, ``value``, ``topic`` and ``rows``, as the page has them.

        Raises:
            OptionError: the request is wrong, or the reset cannot be right.
            LookupError, BusyError, DirectKafkaError: as :meth:`dead_letters`.
        """
        request = reset_request(asked)
        with self._opened(name) as parts:
            return _outcome(Reset(name, parts.source, parts.routes, request).plan())

    def reset(self, name: str, asked: Mapping[str, str]) -> dict[str, Any]:
        """Do it; fences a driver.

        Raises:
            FencedError: a newer driver, or another reset, came in between.
            OptionError, LookupError, BusyError, DirectKafkaError: as :meth:`plan_reset`.
        """
        request = reset_request(asked)
        with self._opened(name) as parts:
            return _outcome(Reset(name, parts.source, parts.routes, request).run())

    def set_paused(self, name: str, *, is_paused: bool) -> dict[str, Any]:
        """Pause a pipeline, or let it go on.

        Raises:
            LookupError, BusyError, DirectKafkaError: as :meth:`dead_letters`.
        """
        with self._opened(name) as parts:
            return {"changed": set_paused(parts.stores(), name, is_paused=is_paused)}

    @contextmanager
    def _opened(self, name: str) -> Iterator[_Parts]:
        if not self._turn.acquire(timeout=_TURN_S):
            raise BusyError
        try:
            with ExitStack() as ending:
                parts = self._parts(name)
                for route in parts.routes:
                    ending.callback(route.sink.store.close)
                yield parts
        finally:
            self._turn.release()

    def _parts(self, name: str) -> _Parts:
        if name in self._files:
            spec = load(self._files[name])
            return _Parts(name=name, source=spec.source_parsed(), routes=route_outputs(*spec.sinks()))
        for status in started_pipelines():
            if status.view.pipeline == name and status.routes and len(status.sources) == 1:
                routes = cloned(status.routes)
                if routes is not None:
                    return _Parts(name=name, source=status.sources[0], routes=routes)
        raise LookupError(name)


def reset_request(asked: Mapping[str, str]) -> ResetRequest:
    """What a form asks for.

    Args:
        asked: ``to`` is earliest, latest, offset, datetime, duration or shift, ``value`` what the last four need;
            ``topic`` may be ``topic`` or ``topic:0,1``, and ``rows`` keep or delete.

    Raises:
        OptionError: it is wrong.
    """
    rows = asked.get("rows") or RowsPolicy.KEEP
    if rows not in set(RowsPolicy):
        raise OptionError(option="rows", reason="expected keep or delete")
    topic = asked.get("topic", "").strip()
    return ResetRequest(
        to=_reset_to(asked.get("to", ""), asked.get("value", "").strip()),
        topics=(TopicChoice.parse(topic),) if topic else (),
        rows=RowsPolicy(rows),
    )


def _reset_to(to: str, value: str) -> ResetTo:
    match to:
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
        case "offset":
            return Exact(_number(value, is_signed=False))
        case "datetime":
            return parse_moment(value, option="datetime")
        case "duration":
            return parse_ago(value, option="duration")
        case "shift":
            return ShiftBy(_number(value, is_signed=True))
    raise OptionError(option="to", reason="expected earliest, latest, offset, datetime, duration or shift")


def _number(text: str, *, is_signed: bool) -> int:
    found = whole_number(text)
    if found is None or abs(found) >> 63 or (found < 0 and not is_signed):
        raise OptionError(option="shift" if is_signed else "offset", reason="expected a whole number")
    return found


def _outcome(outcome: ResetOutcome) -> dict[str, Any]:
    effects: Sequence[Any] = outcome.effects
    return {
        "changes_something": outcome.changes_something,
        "remarks": [message(remark) for remark in outcome.remarks],
        "totals": totals(effects),
        "effects": [effect.as_record() for effect in effects[:_EFFECTS_MAX]],
        "offsets": [
            {"topic": place.topic, "partition": place.partition, "offset": offset}
            for place, offset in outcome.offsets.items()
        ],
    }


def _no_letters(note: str) -> dict[str, Any]:
    return {"note": note, "count": 0, "reasons": [], "letters": []}


def _reason(text: str) -> str:
    return one_line(cut(text, _REASON_CHARACTERS_MAX))


def _as_record(letter: DeadLetter) -> dict[str, Any]:
    return {
        "topic": one_line(letter.topic),
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp_ms": letter.timestamp_ms,
        "reason": _reason(letter.reason),
        "value": None if letter.value is None else one_line(letter.value.decode(errors="backslashreplace")),
        "byte_count": letter.byte_count,
    }
