"""Errors on their way from an executor to the driver.

Spark brings an executor's exception to the driver as a traceback's text. Executors therefore raise with the
error's type and fields as a note in JSON, which every traceback shows, and the driver makes the error again.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any

from directkafka import errors, producer_errors, spark_conditions, stream_errors
from directkafka.errors import DirectKafkaError

__all__ = ["from_note", "with_note"]

#: Where errors are defined.
_MODULES = (errors, producer_errors, spark_conditions, stream_errors)
_NOTE = re.compile(r"^\[directkafka (\w+) (\{.*\})\]$", re.MULTILINE)


def with_note(error: DirectKafkaError) -> DirectKafkaError:
    """Add the error's type and fields to it as a note. Executors raise the result."""
    values = {field.name: getattr(error, field.name) for field in fields(error)}
    error.add_note(f"[directkafka {type(error).__name__} {json.dumps(values)}]")
    return error


def from_note(text: str) -> DirectKafkaError | None:
    """The error whose note stands in a traceback's text; None when there is none.

    Args:
        text: what Spark tells of a failed task.
    """
    found = _NOTE.findall(text)
    if not found:
        return None
    name, values = found[-1]
    error_type = next((getattr(one, name) for one in _MODULES if hasattr(one, name)), None)
    if not (isinstance(error_type, type) and issubclass(error_type, DirectKafkaError)):
        return None
    return error_type(**{key: _as_tuple(value) for key, value in json.loads(values).items()})


def _as_tuple(value: Any) -> Any:
    """JSON has one kind of sequence; the errors' fields are tuples."""
    return tuple(value) if isinstance(value, list) else value
