"""The page of errors, and the one of fault points."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from tools.reference.markdown import WIDTH, filled, items, markdown, sentence


def errors() -> Iterator[str]:
    """The tree of errors, with fields and messages."""
    from directkafka import errors as module
    from directkafka.errors import kafka as kafka_errors
    from directkafka.errors import streams

    tree = inspect.getdoc(module).split("::\n\n")[1].split("\n\nAn error is")[0]  # type: ignore[union-attr]
    yield "# Errors"
    yield filled(
        "One tree. Every error has its numbers as fields, survives pickling, and says what happened, where, the "
        "numbers and what to do. Those listed in `directkafka.__all__` are importable from `directkafka`; all of them "
        "from `directkafka.errors`."
    )
    yield "```text\n" + textwrap.dedent(tree) + "\n```"
    for name, member in vars(module).items():
        if inspect.isclass(member) and issubclass(member, module.DirectKafkaError):
            yield f"## `{name}`"
            yield from markdown(inspect.getdoc(member) or "")
            own = [field.name for field in dataclasses.fields(member)]
            if own:
                yield "Fields: " + ", ".join(f"`{field}`" for field in own) + "."
                yield "Message:\n\n" + textwrap.fill(_message(member), WIDTH - 2, initial_indent="> ",
                                                     subsequent_indent="> ", break_on_hyphens=False)  # fmt: skip

    yield from _leaves(kafka_errors, "Writing to Kafka", "`KafkaError`")
    yield from _leaves(streams, "Reading, direct streams and RDDs", "the tree")
    yield from _spark_conditions()


def _leaves(module: ModuleType, title: str, of: str) -> Iterator[str]:
    """Errors that are leaves in a module of their own."""
    yield f"## {title}"
    yield f"Leaves of {of}, importable from `{module.__name__}`."
    for error in _errors_of(module):
        yield f"### `{error.__name__}`"
        yield from markdown(inspect.getdoc(error) or "")
        yield "Fields: " + ", ".join(f"`{field.name}`" for field in dataclasses.fields(error)) + "."
        yield "Message:\n\n" + textwrap.fill(error.template, WIDTH - 2, initial_indent="> ",
                                             subsequent_indent="> ", break_on_hyphens=False)  # fmt: skip


def _errors_of(module: ModuleType) -> list[Any]:
    """The errors that a module defines, in the order of their names."""
    from directkafka.errors import DirectKafkaError

    classes = [
        value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == module.__name__
    ]
    errors = [kind for kind in classes if issubclass(kind, DirectKafkaError) and kind.__name__[0] != "_"]
    return sorted(errors, key=lambda kind: kind.__name__)


def _spark_conditions() -> Iterator[str]:
    """The types that are named after conditions of Spark's."""
    from directkafka.errors import data_loss as module

    conditions = _errors_of(module)
    yield "## Spark's conditions"
    yield filled(
        "Where Spark's own source has a name for what went wrong, the error has that name as its type and in its "
        "message. They are importable from `directkafka.errors.data_loss`, and caught by `DataLossError` or "
        "`OptionError` as well."
    )
    yield items((f"`{kind.__name__}`", sentence(inspect.getdoc(kind) or "").replace("``", "`")) for kind in conditions)


def _message(error: Any) -> str:
    # The one error that makes its message by itself; see its __str__.
    return error.template if "__str__" not in vars(error) else "option {option} in {where}: {reason}."


def faults() -> Iterator[str]:
    """The fault points."""
    from directkafka import fault_points as module

    yield "# Fault points"
    yield filled(
        "Places where a test can kill, stop or fail the process; no-ops unless the environment arms one. What each "
        "leaves behind, and what a restart makes of it, is in the crash table of [DESIGN.md](../DESIGN.md)."
    )
    yield from markdown(inspect.getdoc(module).partition("\n\n")[2])  # type: ignore[union-attr]
    yield items((f"`{point}`", sentence(what)) for point, what in module.FAULT_POINTS.items())
    yield "Those of a direct stream, whose batches have steps of their own:"
    yield items((f"`{point}`", sentence(what)) for point, what in module.STREAM_FAULT_POINTS.items())
