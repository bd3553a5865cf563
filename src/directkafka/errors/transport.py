"""Errors on their way from an executor to the driver.

Spark brings an executor's exception to the driver as a traceback's text. Executors therefore raise with the
error's type and fields as a note in JSON, which every traceback shows, and the driver makes the error again.

The same text holds what records hold: a failed cast tells the value that it could not take, and whoever can write to
the topic has chosen it. So a note is signed, with a key that the driver makes and sends to its tasks alone. The key is
not part of the note, since tracebacks are logged. A text that only looks like a note is the transform's failure.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self

from directkafka import errors
from directkafka.errors import DirectKafkaError, data_loss, registry, streams
from directkafka.errors import kafka as kafka_errors

#: Where errors are defined.
_MODULES: Final = (errors, kafka_errors, data_loss, registry, streams)

_NOTE: Final = re.compile(
    r"^\[directkafka (?P<name>\w+) (?P<values>\{.*\}) (?P<signature>[0-9a-f]{64})\]$", re.MULTILINE
)

#: Made when this process starts; the tasks that it starts get a copy.
_KEY: Final = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class Notes:
    """Writes notes on errors and reads them; travels from a driver to its tasks.

    Attributes:
        key: what notes are signed with; whoever has it can make up errors.
    """

    key: bytes = field(repr=False)

    @classmethod
    def of_this_process(cls) -> Self:
        """The notes of this driver and of its tasks."""
        return cls(_KEY)

    def on(self, error: DirectKafkaError) -> DirectKafkaError:
        """Add the error's type and fields to it as a note. Executors raise the result."""
        name = type(error).__name__
        values = json.dumps({field.name: getattr(error, field.name) for field in fields(error)})
        error.add_note(f"[directkafka {name} {values} {self._signature(name, values)}]")
        return error

    @contextmanager
    def signing(self) -> Iterator[None]:
        """What an executor does in here raises errors of ours with their notes."""
        try:
            yield
        except DirectKafkaError as error:
            raise self.on(error) from error.__cause__

    def read(self, text: str) -> DirectKafkaError | None:
        """The error whose note stands in a traceback's text; None when there is none with this signature.

        Args:
            text: what Spark tells of a failed task.
        """
        for match in reversed(list(_NOTE.finditer(text))):
            name, values, signature = match.group("name", "values", "signature")
            if hmac.compare_digest(signature, self._signature(name, values)):
                return _error(name, values)
        return None

    def _signature(self, name: str, values: str) -> str:
        return hmac.new(self.key, f"{name} {values}".encode(), hashlib.sha256).hexdigest()


def _error(name: str, values: str) -> DirectKafkaError | None:
    """None for what this version does not know."""
    error_type = next((getattr(module, name) for module in _MODULES if hasattr(module, name)), None)
    if not (isinstance(error_type, type) and issubclass(error_type, DirectKafkaError)):
        return None
    try:
        return error_type(**{key: _as_tuple(value) for key, value in json.loads(values).items()})
    except (TypeError, ValueError):
        return None


def _as_tuple(value: Any) -> Any:
    """JSON has one kind of sequence; the errors' fields are tuples."""
    return tuple(value) if isinstance(value, list) else value
