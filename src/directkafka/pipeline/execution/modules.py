"""A transform named in a pipeline file: ``module:function``, imported and made known to the executors."""

from __future__ import annotations

import importlib
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from pyspark.sql import SparkSession

from directkafka.errors import OptionError
from directkafka.pipeline.execution.transform import PythonTransform

__all__ = ["FunctionReference", "load_function"]

_OPTION = "transform.python"

#: One import at a time, since it changes ``sys.path``; and what has been shipped to which Spark application.
_lock = threading.Lock()
_shipped: set[tuple[str, str]] = set()


@dataclass(frozen=True, slots=True)
class FunctionReference:
    """A function by name.

    Attributes:
        name: ``module:function``.
        folder: where the module may lie, beside everything that can be imported anyway; absolute.
    """

    name: str
    folder: Path


def load_function(reference: FunctionReference, session: SparkSession | None = None) -> PythonTransform:
    """Import the function. A module that lies in the folder is shipped to the executors, once.

    Raises:
        OptionError: no such module or function, the module fails while it is imported, or another text of its
            name is loaded already: executors know a module by its name alone, so one process has one of a name.
    """
    module_name, _, function_name = reference.name.partition(":")
    with _lock:
        module = _import(module_name, reference)
        beside = _beside(module_name, reference.folder)
        if beside is not None:
            _check_same(module_name, module, beside)
            if session is not None and "." not in module_name:
                _ship(module, session)
    function = getattr(module, function_name, None)
    if not callable(function):
        found = "no such name" if function is None else f"a {type(function).__name__}"
        raise OptionError(
            option=_OPTION, reason=f"{reference.name!r} is not a function: {module_name} has {found} {function_name!r}"
        )
    return PythonTransform(function, reference.name)


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
            option=_OPTION,
            reason=f"{reference.name!r} cannot be imported ({error}); the module must lie in {folder} or be installed",
        ) from error
    except Exception as error:
        raise OptionError(
            option=_OPTION, reason=f"importing {name!r} raised {type(error).__name__}: {error}"
        ) from error
    return module


def _check_same(name: str, module: ModuleType, beside: Path) -> None:
    """Refuse to run one file where the user means another; two copies of one text are as good as one."""
    loaded = Path(module.__file__).resolve() if module.__file__ else None
    if loaded != beside and not (loaded and loaded.is_file() and loaded.read_bytes() == beside.read_bytes()):
        raise OptionError(
            option=_OPTION,
            reason=f"{beside} is not what {name!r} means in this process, which is {loaded or 'built in'}; "
            "rename one of the two",
        )


def _beside(name: str, folder: Path) -> Path | None:
    """The file in the folder that the user means by the module's name."""
    place = folder.joinpath(*name.split("."))
    for candidate in (place.with_suffix(".py"), place / "__init__.py"):
        if candidate.is_file():
            return candidate.resolve()
    return None


def _ship(module: ModuleType, session: SparkSession) -> None:
    """Once to each Spark application, which would only warn of a second time."""
    shipped = (session.sparkContext.applicationId, str(module.__file__))
    if shipped not in _shipped:
        session.sparkContext.addPyFile(shipped[1])
        _shipped.add(shipped)
