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
from directkafka.pipeline.transform import PythonTransform

__all__ = ["FunctionReference", "load_function"]

_OPTION = "transform.python"

#: One import at a time, since it changes ``sys.path``; and what has been shipped to which Spark application.
_lock = threading.Lock()
_shipped: set[tuple[str, Path]] = set()


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
        OptionError: no such module or function, the module fails while it is imported, or another module of its
            name is loaded already: executors know a module by its name alone, so one process has one of a name.
    """
    module_name, _, function_name = reference.name.partition(":")
    with _lock:
        module = _import(module_name, reference)
        if session is not None:
            _ship(module, reference.folder, session)
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
        sys.path.insert(0, folder)
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
    beside = _beside(name, reference.folder)
    if beside is not None and (module.__file__ is None or Path(module.__file__).resolve() != beside):
        raise OptionError(
            option=_OPTION,
            reason=f"{beside} is not what {name!r} means in this process, which is {module.__file__ or 'built in'}; "
            "rename one of the two",
        )
    return module


def _beside(name: str, folder: Path) -> Path | None:
    """The file in the folder that the user means by the module's name."""
    place = folder.joinpath(*name.split("."))
    for candidate in (place.with_suffix(".py"), place / "__init__.py"):
        if candidate.is_file():
            return candidate.resolve()
    return None


def _ship(module: ModuleType, folder: Path, session: SparkSession) -> None:
    file = Path(module.__file__).resolve() if module.__file__ else None
    application = session.sparkContext.applicationId
    if file is None or file.parent != folder.resolve() or (application, file) in _shipped:
        return
    session.sparkContext.addPyFile(str(file))
    _shipped.add((application, file))
