"""The cache of compiled kernels on disk, so that no process but the first compiles them.

numba's own cache, with five differences, each because of how executors are installed and started:

- Entries are read from folders that cannot be written: an image that brings the cache in ``__pycache__`` and is
  mounted read-only.
- If none of ``NUMBA_CACHE_DIR``, the package's folder and the user's cache folder can be written (a container's
  user without a home), a private temporary folder is used.
- An entry is named after the contents of all the files that compiled code comes from, and whether indices are
  checked. numba looks at the kernel's own file alone, and would use old code after an upgrade that changes a helper
  in another one. Files of two versions never have the same name, so processes of both may come and go at once.
- An entry that cannot be read or written, whatever the reason, is as if there were none.
- What is read is executed: a folder in which another user may have put it is left alone, with a warning
  (:mod:`directkafka.own_folders`). The package's own folder is not asked: Python executes what lies there
  anyway.

Several processes may start at once: entries are written under a temporary name and renamed.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numba
import numba.core.config
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.misc.appdirs import AppDirs

from directkafka.own_folders import USER_ID, refuse_foreign

log = logging.getLogger(__name__)

#: The modules of this package that compiled code comes from, besides the one a kernel stands in.
COMPILED = (
    "kafka.compression.decompress",
    "kafka.compression.lz4",
    "kafka.kernels.addresses",
    "kafka.kernels.c_functions",
    "kafka.kernels.compile",
    "kafka.records.record_batch",
    "kafka.records.encode_kernel",
    "kafka.records.record",
    "kafka.records.record_columns",
    "payloads.avro.kernels.numbers",
    "payloads.avro.kernels.values",
    "payloads.avro.kernels.write_records",
    "payloads.avro.program",
    "payloads.json.kernels.characters",
    "payloads.json.kernels.copies",
    "payloads.json.kernels.misfits",
    "payloads.json.kernels.moments",
    "payloads.json.kernels.names",
    "payloads.json.kernels.numbers",
    "payloads.json.kernels.scalars",
    "payloads.json.kernels.scopes",
    "payloads.kernels.arrow_columns",
    "payloads.kernels.nodes",
    "payloads.kernels.values",
    "payloads.protobuf.kernels.values",
    "payloads.protobuf.kernels.wire",
    "payloads.protobuf.kernels.write_records",
    "payloads.protobuf.program",
)
_PACKAGE = "directkafka"
_NAME = "directkafka-kernels"
#: The private folder below the temporary one; each user has one.
PRIVATE_NAME = f"{_NAME}-{USER_ID}"

_base_cache: Any = FunctionCache
_base_entries: Any = CompileResultCacheImpl
_config: Any = numba.core.config
_folders_of: Any = AppDirs


class KernelCache:
    """The cache of one kernel, in place of a dispatcher's own: several folders, in order.

    Args:
        function: the kernel, not compiled.

    Attributes:
        cache_path: the folder that is looked into first.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._folders = [
            _FolderCache(function, folder) for folder in cache_folders(Path(function.__code__.co_filename))
        ]
        self.cache_path = self._folders[0].cache_path

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The compiled code for a signature, or None."""
        for folder in self._folders:
            try:
                overload = folder.load_overload(signature, target_context)
            except Exception as error:  # noqa: BLE001 - what is damaged is compiled anew
                log.debug("no compiled kernel from %s: %s", folder.cache_path, error)
                continue
            if overload is not None:
                return overload
        _log_compiling()
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep compiled code in the first folder that takes it."""
        for folder in self._folders:
            try:
                folder.save_overload(signature, compiled)
                return
            except OSError as error:
                log.debug("a compiled kernel is not kept in %s: %s", folder.cache_path, error)


@cache
def _log_compiling() -> None:
    """Once: a program that stands still for ten seconds should say why."""
    log.info("compiling kernels, which takes about ten seconds and is kept for the next time")


def cache_folders(source: Path) -> list[Path]:
    """Where compiled code of a source file may be, the folder to be preferred first, the private one last."""
    folders = [source.parent / "__pycache__"]
    if _config.CACHE_DIR:
        folders.insert(0, Path(_config.CACHE_DIR) / _NAME)
    folders.append(Path(_folders_of(appname="numba", appauthor=False).user_cache_dir) / _NAME)
    with suppress(OSError):  # There is no temporary folder at all.
        folders.append(Path(tempfile.gettempdir()) / PRIVATE_NAME)
    # Links are followed once, here: what is looked at must be what is read.
    return [folder.resolve() for folder in folders]


def _is_the_package_s(folder: Path) -> bool:
    return folder.name == "__pycache__"


@cache
def _warn_foreign(folder: Path, why: str) -> None:
    log.warning("compiled kernels are neither read from %s nor kept there: %s", folder, why)


@cache
def _stamp(source: str, loader: Any) -> str:
    """A digest of the files that a kernel of this source file is compiled from, and of how."""
    digest = hashlib.sha256(str(_config.BOUNDSCHECK).encode())
    for name in COMPILED:
        digest.update(files(_PACKAGE).joinpath(f"{name.replace('.', '/')}.py").read_bytes())
    digest.update(loader.get_data(source))
    return digest.hexdigest()[:16]


class _Locator:
    """Tells numba where entries of one function lie, and what they are called."""

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self._folder = folder
        self._stamp = _stamp(function.__code__.co_filename, function.__globals__["__loader__"])
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(self._folder)

    def ensure_cache_path(self) -> None:
        if _is_the_package_s(self._folder):
            self._folder.mkdir(exist_ok=True)
            return
        for folder in (*reversed(self._folder.parents), self._folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        refuse_foreign(self._folder)

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return f"{self._line}-{self._stamp}"


class _Entries(_base_entries):  # type: ignore[misc]
    """How an entry is written: numba's way, in a given folder."""

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self._locator = _Locator(function, folder)
        self._lineno = function.__code__.co_firstlineno
        module = Path(function.__code__.co_filename).stem
        self._filename_base = self.get_filename_base(f"{module}.{function.__qualname__}", "")


class _FolderCache(_base_cache):  # type: ignore[misc]
    """numba's cache of one function in a given folder."""

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self._impl_class = partial(_Entries, folder=folder)
        self._folder = folder
        super().__init__(function)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        if not _is_the_package_s(self._folder):
            try:
                refuse_foreign(self._folder)
            except PermissionError as error:
                _warn_foreign(self._folder, str(error))
                raise
        try:
            return super().load_overload(signature, target_context)
        except OSError:
            raise
        except Exception:
            # Damaged by a write that was cut off. A save reads the index first; flush() empties it.
            self.flush()
            raise
