"""The user's transform, a query or a function: loaded, applied to one batch, its plan checked."""

from __future__ import annotations

import importlib
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Self, assert_never

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from directkafka.errors import DirectKafkaError, OptionError, RangeNotReadError, TransformError
from directkafka.pipeline.execution.executor_errors import from_executor, spark_is_gone
from directkafka.pipeline.execution.native.arrow_transform import (
    DEFAULT_OUTPUT,
    NO_TRANSFORM,
    ArrowTransform,
    OneOutput,
    schemas_of,
)
from directkafka.spark.dataframe import arrow_schema, map_in_arrow, spark_schema

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_PER_BATCH = frozenset({"Aggregate", "Window", "Deduplicate", "Distinct"})
#: Nodes whose rows are made of several rows.
_GROUPS = _PER_BATCH | {
    "FlatMapGroupsInPandas", "FlatMapGroupsInArrow", "FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow",
    "WindowInPandas", "ArrowWindowPython", "Sample",
}  # fmt: skip
#: Nodes that compare rows of both their sides.
_COMPARES = frozenset({"Join", "LateralJoin", "AsOfJoin", "Intersect", "Intersect All", "Except", "Except All"})
_CUTS = frozenset({"GlobalLimit", "LocalLimit", "Offset"})
_OPERATOR = re.compile(r"^[\s:+\-*!'()\d]*([A-Za-z]\w*)", re.MULTILINE)
_CLOCK = re.compile(r"\b(current_timestamp|current_date|current_time|localtimestamp|now)\(")

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


Transform = SqlTransform | PythonTransform | ArrowTransform


def apply_transform(transform: Transform, source: DataFrame, session: SparkSession) -> dict[str, DataFrame]:
    """The outputs by name; a single one is called ``default``. Nothing runs yet.

    Raises:
        TransformError: the query does not compile, the function raises, or it returns something else.
        RangeNotReadError: an output stops reading early (LIMIT, OFFSET).
    """
    source.createOrReplaceTempView("source")
    name = "sql" if isinstance(transform, SqlTransform) else transform.name
    try:
        outputs = _produce(transform, source, session)
    except DirectKafkaError:
        raise
    except Exception as error:
        if spark_is_gone(error):
            raise from_executor(error) from error
        if isinstance(error, PySparkException):
            message = str(error.getMessage() or error).partition("\n\nJVM stacktrace")[0]
            raise TransformError(source=name, cause=message) from error
        raise TransformError(source=name, cause=f"{type(error).__name__}: {error}") from error
    frames = _checked(outputs, name, is_stream=source.isStreaming)
    for output, frame in frames.items():
        if _is_cut(frame, source):
            raise RangeNotReadError(ranges=(f"the source of output {output!r}",))
    return frames


def _produce(transform: Transform, source: DataFrame, session: SparkSession) -> Outputs:
    match transform:
        case SqlTransform(text):
            return session.sql(text)
        case PythonTransform(function):
            return function(source)
        case ArrowTransform():
            schemas = schemas_of(transform, arrow_schema(source))
            return {
                output: map_in_arrow(source, OneOutput(transform, output, schemas), spark_schema(columns))
                for output, columns in schemas.items()
            }
        case _:
            assert_never(transform)


def _checked(outputs: object, name: str, *, is_stream: bool) -> dict[str, DataFrame]:
    named: Mapping[str, object] = outputs if isinstance(outputs, Mapping) else {DEFAULT_OUTPUT: outputs}
    frames = {}
    for output, frame in named.items():
        if not isinstance(frame, DataFrame):
            raise TransformError(
                source=name,
                cause=f"output {output!r} is a {type(frame).__name__}; return a DataFrame, or a dict of "
                "DataFrames by name",
            )
        if frame.isStreaming != is_stream:
            kind = "a streaming DataFrame" if frame.isStreaming else "no streaming DataFrame"
            raise TransformError(source=name, cause=f"output {output!r} is {kind}; use the one the function is given")
        frames[output] = frame
    return frames


def remarks(outputs: Mapping[str, DataFrame], *, store_count: int) -> tuple[str, ...]:
    """What a user should know of the plans before they run; empty when there is nothing.

    Raises:
        TransformError: a plan that ends in a watermark, which a transform of batches would not honour. Spark drops one
            from a plan that is no stream as soon as anything follows it; the note on windows is then what is left.
    """
    notes = []
    for name, frame in outputs.items():
        if "EventTimeWatermark" in operators_of(str(frame._jdf.queryExecution().logical().toString())):
            raise TransformError(
                source=f"output {name!r}",
                cause="it has a watermark, but nothing keeps state from batch to batch here; remove withWatermark and "
                'use a merge sink for totals, or use engine = "structured" with one output',
            )
        if is_per_batch(frame):
            notes.append(
                f"output {name!r} groups, windows or removes duplicates: within each batch alone (use mode = "
                '"merge" for totals across batches)'
            )
        if store_count > 1 and not _is_repeatable(frame):
            notes.append(
                f"output {name!r} takes values from the clock or a random number: after a crash between two "
                "stores they differ from store to store"
            )
    return tuple(notes)


def reads_alone(frame: DataFrame, source: DataFrame) -> bool:
    """Whether a plan reads the source and nothing else, neither beside it nor in a subquery."""
    plan, known = _Plan.of(frame), list(_Plan.of(source).leaves())
    return bool(plan.root.subqueriesAll().isEmpty()) and all(
        any(leaf.sameResult(other) for other in known) for leaf in plan.leaves()
    )


def batch_wide_part(frame: DataFrame, source: DataFrame) -> str | None:
    """What in a plan lets a row depend on other records of its batch; None: nothing does.

    Args:
        frame: an output.
        source: the batch.
    """
    plan, known = _Plan.of(frame), list(_Plan.of(source).leaves())

    def reads_batch(node: JavaObject) -> bool:
        return any(leaf.sameResult(other) for leaf in plan.leaves(node) for other in known)

    if any(reads_batch(subquery) for subquery in _each(plan.root.subqueriesAll())):
        return "a subquery over the batch"
    for node in plan.nodes():
        sides = list(_each(node.children()))
        if node.nodeName() in _GROUPS and reads_batch(node):
            return "an aggregate, a window, groups or the removal of duplicates"
        if node.nodeName() in _COMPARES and len(sides) > 1 and all(map(reads_batch, sides)):
            return "a join of the batch with itself"
    return None


def _is_cut(frame: DataFrame, source: DataFrame) -> bool:
    """Whether a LIMIT or an OFFSET lies between the source and an output.

    The proof of reading finds most of them, but not where the source is kept for several outputs or for dead letters:
    then all of it is read, and rows are left out behind the proof. (A LIMIT over a table of the user's own is no
    matter.)
    """
    if _CUTS.isdisjoint(operators_of(_plan_text(frame))):
        return False
    plan, read = _Plan.of(frame), list(_Plan.of(source).leaves())
    cuts = (node for node in _nodes(plan.root) if node.nodeName() in _CUTS)
    return any(leaf.sameResult(other) for cut in cuts for leaf in plan.leaves(cut) for other in read)


@dataclass(frozen=True, slots=True)
class _Plan:
    """An analyzed plan: its root, and what ``WITH`` defines, by number."""

    root: JavaObject
    definitions: Mapping[int, JavaObject]

    @classmethod
    def of(cls, frame: DataFrame) -> Self:
        root = frame._jdf.queryExecution().analyzed()
        return cls(root, {node.id(): node for node in _nodes(root) if node.nodeName() == "CTERelationDef"})

    def nodes(self) -> Iterator[JavaObject]:
        """All nodes, those of definitions too."""
        yield from _nodes(self.root)

    def leaves(self, below: JavaObject | None = None) -> Iterator[JavaObject]:
        """The leaves below a node; a name that ``WITH`` defines is no leaf, but stands for its definition's."""
        for node in _nodes(self.root if below is None else below):
            if node.nodeName() == "CTERelationRef":
                yield from self.leaves(self.definitions[node.cteId()])
            elif node.children().isEmpty():
                yield node


def _nodes(plan: JavaObject) -> Iterator[JavaObject]:
    """The nodes of a plan, from the root down."""
    yield plan
    for child in _each(plan.children()):
        yield from _nodes(child)


def _each(plans: JavaObject) -> Iterator[JavaObject]:
    """The plans of a sequence of Scala's."""
    return (plans.apply(number) for number in range(plans.size()))


def is_per_batch(frame: DataFrame) -> bool:
    """Whether a plan's rows depend on which records are in one batch: it groups, windows or removes duplicates."""
    return not _PER_BATCH.isdisjoint(operators_of(_plan_text(frame)))


def operators_of(plan: str) -> frozenset[str]:
    """Names of the operators in the text of a plan: the first word of each line, behind the tree's branches."""
    return frozenset(_OPERATOR.findall(plan))


def _is_repeatable(frame: DataFrame) -> bool:
    """Whether the plan gives the same rows each time.

    Spark calls the clock deterministic, since it reads it once for each query; two queries are what counts here.
    """
    analyzed = frame._jdf.queryExecution().analyzed()
    return bool(analyzed.deterministic()) and _CLOCK.search(_plan_text(frame)) is None


def _plan_text(frame: DataFrame) -> str:
    """The analyzed plan: an unresolved one hides ``SELECT count(*)`` and window functions in a projection."""
    return str(frame._jdf.queryExecution().analyzed().toString())


#: One import at a time, since it changes ``sys.path``; and what has been shipped to which Spark application.
_lock = threading.Lock()
_shipped: set[tuple[str, str]] = set()


@dataclass(frozen=True, slots=True)
class FunctionReference:
    """A function by name.

    Attributes:
        name: ``module:function``.
        folder: where the module may lie, beside everything that can be imported anyway; absolute.
        is_arrow: whether it takes Arrow batches, and not a DataFrame.
    """

    name: str
    folder: Path
    is_arrow: bool = False

    @property
    def option(self) -> str:
        """The option that names it."""
        return "transform.arrow" if self.is_arrow else "transform.python"


#: What a pipeline may be given: a query, a function, its name, or nothing.
GivenTransform = str | Callable[[DataFrame], Outputs] | ArrowTransform | FunctionReference | None


def load_function(
    reference: FunctionReference, session: SparkSession | None = None
) -> PythonTransform | ArrowTransform:
    """Import the function. A module that lies in the folder is shipped to the executors, once.

    Raises:
        OptionError: no such module or function, the module fails while it is imported, or another file of its
            name is loaded already: executors know a module by its name alone, so one process has one of a name.
    """
    module_name, _, function_name = reference.name.partition(":")
    with _lock:
        module = _import(module_name, reference)
        beside = _beside(module_name, reference.folder)
        if beside is not None:
            _check_same(module_name, module, beside, reference)
            if session is not None and "." not in module_name:
                _ship(module, session)
    function = getattr(module, function_name, None)
    if not callable(function):
        description = "no such name" if function is None else f"a {type(function).__name__}"
        raise OptionError(
            option=reference.option,
            reason=f"{reference.name!r} is not a function: {module_name} has {description} {function_name!r}",
        )
    return (ArrowTransform if reference.is_arrow else PythonTransform)(function, reference.name)


def transform_given(given: GivenTransform, session: SparkSession) -> Transform:
    """The transform that a pipeline was given, imported if it is a name.

    Raises:
        OptionError: it cannot be imported.
    """
    match given:
        case None:
            return NO_TRANSFORM
        case ArrowTransform():
            return given
        case FunctionReference():
            return load_function(given, session)
        case str():
            return SqlTransform(given)
        case _:
            return PythonTransform(given, getattr(given, "__name__", "function"))


def transform_named(
    *, sql: str | None, python: str | None, arrow: str | None, folder: Path
) -> str | FunctionReference | None:
    """What the section ``[transform]`` of a file names; at most one of the three is given.

    Args:
        sql: a query.
        python, arrow: ``module:function``.
        folder: where the module may lie; absolute.
    """
    name = python or arrow
    return sql if name is None else FunctionReference(name, folder, is_arrow=arrow is not None)


def _import(name: str, reference: FunctionReference) -> ModuleType:
    folder = str(reference.folder)
    if folder not in sys.path:
        # Behind all others: what lies beside a pipeline file must not take the place of any library's module.
        sys.path.append(folder)
        importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise OptionError(
            option=reference.option,
            reason=f"{reference.name!r} cannot be imported ({error}); the module must lie in {folder} or be installed",
        ) from error
    except Exception as error:
        raise OptionError(
            option=reference.option, reason=f"importing {name!r} raised {type(error).__name__}: {error}"
        ) from error
    return module


def _check_same(name: str, module: ModuleType, beside: Path, reference: FunctionReference) -> None:
    """Refuse to run one file where the user means another; two copies of one text are as good as one."""
    loaded = Path(module.__file__).resolve() if module.__file__ else None
    if loaded != beside and not (loaded and loaded.is_file() and loaded.read_bytes() == beside.read_bytes()):
        raise OptionError(
            option=reference.option,
            reason=f"{beside} is not what {name!r} means in this process, which is {loaded or 'built in'}; "
            "rename one of the two",
        )


def _beside(name: str, folder: Path) -> Path | None:
    """The file in the folder that the user means by the module's name."""
    path = folder.joinpath(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate.resolve()
    return None


def _ship(module: ModuleType, session: SparkSession) -> None:
    """Send the module's file to the executors, once in an application: Spark warns of a second time."""
    shipped = (session.sparkContext.applicationId, str(module.__file__))
    if shipped not in _shipped:
        session.sparkContext.addPyFile(shipped[1])
        _shipped.add(shipped)
