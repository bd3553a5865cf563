"""The user's transform: a query or a function, applied to one batch, and what can be told of its plan."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from directkafka.errors import DirectKafkaError, OptionError, TransformError

__all__ = [
    "DEFAULT_OUTPUT",
    "PythonTransform",
    "SqlTransform",
    "Transform",
    "apply_transform",
    "is_per_batch",
    "load_function",
    "remarks",
]

DEFAULT_OUTPUT = "default"

#: What a function may return: one DataFrame, or several by name.
Outputs = DataFrame | Mapping[str, DataFrame]


@dataclass(frozen=True, slots=True)
class SqlTransform:
    """A query over the view ``source``."""

    text: str


@dataclass(frozen=True, slots=True)
class PythonTransform:
    """A function from the batch's DataFrame to one or several."""

    function: Callable[[DataFrame], Outputs]
    name: str


Transform = SqlTransform | PythonTransform


def apply_transform(transform: Transform, source: DataFrame, session: SparkSession) -> dict[str, DataFrame]:
    """The outputs by name; a single one is called ``default``. Nothing runs yet.

    Raises:
        TransformError: the query does not compile, the function raises, or it returns something else.
    """
    source.createOrReplaceTempView("source")
    name = transform.name if isinstance(transform, PythonTransform) else "sql"
    try:
        outputs = _produce(transform, source, session)
    except DirectKafkaError:
        raise
    except PySparkException as error:
        message = str(error.getMessage() or error).partition("\n\nJVM stacktrace")[0]
        raise TransformError(source=name, cause=message) from error
    except Exception as error:
        raise TransformError(source=name, cause=f"{type(error).__name__}: {error}") from error
    return _checked(outputs, name)


def _produce(transform: Transform, source: DataFrame, session: SparkSession) -> Outputs:
    match transform:
        case SqlTransform(text):
            return session.sql(text)
        case PythonTransform(function):
            return function(source)
        case _:
            assert_never(transform)


def _checked(outputs: object, name: str) -> dict[str, DataFrame]:
    named: Mapping[str, object] = outputs if isinstance(outputs, Mapping) else {DEFAULT_OUTPUT: outputs}
    frames = {}
    for output, frame in named.items():
        if not isinstance(frame, DataFrame):
            raise TransformError(
                source=name,
                cause=f"output {output!r} is a {type(frame).__name__}; return a DataFrame, or a dict of "
                "DataFrames by name",
            )
        if frame.isStreaming:
            raise TransformError(
                source=name, cause=f"output {output!r} is a streaming DataFrame; use the one the function is given"
            )
        frames[output] = frame
    return frames


def remarks(outputs: Mapping[str, DataFrame], *, store_count: int) -> tuple[str, ...]:
    """What a user should know of the plans before they run; empty when there is nothing.

    Raises:
        TransformError: a plan with a watermark, which the direct engine would not honour.
    """
    found = []
    for name, frame in outputs.items():
        plan = str(frame._jdf.queryExecution().logical().toString())
        if "EventTimeWatermark" in plan:
            raise TransformError(
                source=f"output {name!r}",
                cause="it has a watermark, but the direct engine keeps no state from batch to batch; remove "
                "withWatermark, or use a merge sink for totals",
            )
        if is_per_batch(frame):
            found.append(
                f"output {name!r} groups, windows or removes duplicates: within each batch alone (use mode = "
                '"merge" for totals across batches)'
            )
        if store_count > 1 and not frame._jdf.queryExecution().analyzed().deterministic():
            found.append(
                f"output {name!r} takes values from the clock or a random number: after a crash between two "
                "stores they differ from store to store"
            )
    return tuple(found)


def is_per_batch(frame: DataFrame) -> bool:
    """Whether a plan's rows depend on which records are in one batch: it groups, windows or removes duplicates."""
    plan = str(frame._jdf.queryExecution().logical().toString())
    return any(operator in plan for operator in ("Aggregate", "Window", "Deduplicate", "Distinct"))


def load_function(reference: str, folder: Path, session: SparkSession | None = None) -> PythonTransform:
    """Import ``module:function``; the module may lie in ``folder``. Its file is shipped to the executors.

    Raises:
        OptionError: no such module or function, or the module fails while it is imported.
    """
    module_name, _, function_name = reference.partition(":")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
        function = getattr(module, function_name)
    except (ImportError, AttributeError) as error:
        raise OptionError(
            option="transform.python",
            reason=f"{reference!r} cannot be imported ({error}); the module must lie in {folder} or be installed",
        ) from error
    except Exception as error:
        raise OptionError(
            option="transform.python", reason=f"importing {module_name!r} raised {type(error).__name__}: {error}"
        ) from error
    if session is not None and module.__file__ is not None and Path(module.__file__).parent == folder.resolve():
        session.sparkContext.addPyFile(module.__file__)
    return PythonTransform(function, reference)
