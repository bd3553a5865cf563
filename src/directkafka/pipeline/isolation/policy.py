"""The policy of dead letters: where they go, and what becomes of a record that makes its batch fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from directkafka.errors import OptionError
from directkafka.sinks.api import Sink

OnError = Literal["fail", "isolate"]

MAX_PER_BATCH: Final = 100

#: What the section of a pipeline file has beside the sink's own names.
ON_ERROR_NAME: Final = "on_error"
MAX_PER_BATCH_NAME: Final = "max_per_batch"
POLICY_NAMES: Final = (ON_ERROR_NAME, MAX_PER_BATCH_NAME)


@dataclass(frozen=True, slots=True)
class DeadLetterPolicy:
    """Where dead letters go, and which records become some::

        Pipeline(..., dead_letters=dk.DeadLetterPolicy(PostgresSink(dsn, "letters"), on_error="isolate"))

    Attributes:
        sink: takes a record as it came, and the reason.
        on_error: what becomes of a record for which the transform raises, or whose row a sink refuses. ``"fail"``: the
            pipeline stops. ``"isolate"``: the batch is halved until the record is found, and the rest goes on.
        max_per_batch: how many records of a batch may become dead letters by ``"isolate"``; with more of them the
            pipeline stops. At least 1.

    Raises:
        OptionError: a value makes no sense.
    """

    sink: Sink
    on_error: OnError = "fail"
    max_per_batch: int = MAX_PER_BATCH

    def __post_init__(self) -> None:
        """Refuse values that make no sense."""
        where = "the dead letters"
        if self.on_error not in get_args(OnError):
            raise OptionError(
                option=ON_ERROR_NAME, where=where, reason=f"expected 'fail' or 'isolate', found {self.on_error!r}"
            )
        if type(self.max_per_batch) is not int or self.max_per_batch < 1:
            reason = f"expected a whole number from 1, found {self.max_per_batch!r}"
            raise OptionError(option=MAX_PER_BATCH_NAME, where=where, reason=reason)

    @classmethod
    def of(cls, given: Sink | DeadLetterPolicy | None) -> DeadLetterPolicy | None:
        """The policy that a pipeline was given; a sink alone is one.

        Raises:
            OptionError: it is neither.
        """
        if given is None or isinstance(given, cls):
            return given
        if not isinstance(given, Sink):
            reason = f"expected a sink or a DeadLetterPolicy, found {type(given).__name__}"
            raise OptionError(option="dead_letters", reason=reason)
        return cls(given)

    @property
    def isolates(self) -> bool:
        """Whether records that make their batch fail are set apart."""
        return self.on_error == "isolate"
