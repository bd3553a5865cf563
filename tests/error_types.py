"""The errors that a module defines."""

from __future__ import annotations

from types import ModuleType

from directkafka.errors import DirectKafkaError


def errors_of(module: ModuleType) -> list[type[DirectKafkaError]]:
    """In the order of their names, those with an underscore left out."""
    errors = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, DirectKafkaError) and value.__module__ == module.__name__
    ]
    return sorted((error for error in errors if error.__name__[0] != "_"), key=lambda error: error.__name__)
