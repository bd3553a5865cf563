"""Files of a POSIX file system that a commit can rest on: whole or absent, and what its errors mean.

Relied on: ``link()`` fails with EEXIST where the name is taken, and is atomic; ``rename()`` is atomic; a name is
durable once its directory is synced. Local file systems keep all of this; of NFS, version 3 and later do. There,
an answer can be lost and the call repeated by the client: ``link()`` may then say EEXIST although it was this one
that made the name. Who made it is therefore read from the file, never from the answer.

Contract with the rest: no :class:`OSError` leaves ``sinks`` untranslated.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from directkafka.errors import DirectKafkaError, StoreAccessError, StoreRequestError, StoreUnavailableError
from directkafka.options.texts import fault_of_path

#: What trying again does not help against.
_ACCESS: Final = {errno.EACCES, errno.EPERM, errno.EROFS}

#: What a file system answers that has no hard links.
_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}

#: A path that cannot be what the options say it is.
_NONSENSE: Final = {errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}


@contextmanager
def translated(store: str) -> Iterator[None]:
    """Raise the project's errors for the operating system's.

    Args:
        store: the store's label.

    Raises:
        StoreAccessError: this user may not.
        StoreRequestError: the path is no directory, or no such name can be.
        StoreUnavailableError: anything else (disk full, stale handle, input/output error): it may pass.
    """
    try:
        yield
    except OSError as error:
        raise _error_for(store, error) from error


def _error_for(store: str, error: OSError) -> DirectKafkaError:
    location = f" ({error.filename})" if error.filename else ""
    cause = f"{error.strerror or error}{location}"
    if error.errno in _ACCESS:
        user = f"user id {os.geteuid()}"
        remedy = f"Give {user} the right to read and write there, and to make links and folders."
        return StoreAccessError(store=store, cause=cause, remedy=remedy)
    if error.errno in _NONSENSE:
        return StoreRequestError(store=store, code=errno.errorcode[error.errno], cause=cause)
    return StoreUnavailableError(store=store, cause=cause)


def resolve_folder(path: str | os.PathLike[str]) -> Path:
    """The absolute path without symbolic links, for a folder that need not exist.

    Raises:
        ValueError: it is a URL, or a name in it is too long. The reason is a sentence without a final full stop.
    """
    text = os.fspath(path)
    if "://" in text or text.startswith("file:"):
        scheme = text.partition(":")[0]
        raise ValueError(
            f"{text.partition('?')[0]!r} has the scheme {scheme!r}: only paths of a local file system, or of one "
            "that driver and executors share, can be committed to"
        )
    if not text:
        raise ValueError("a path is needed")
    real_path = Path(os.path.realpath(text))
    if fault := fault_of_path(real_path):
        raise ValueError(fault)
    return real_path


def require_writable(folder: Path, *, store: str) -> None:
    """Refuse a folder that this user may not write into; one that is not there, by the folder it would be made in.

    Raises:
        StoreAccessError: naming the folder and the user.
    """
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        user = os.geteuid()
        cause = f"user id {user} may not write into {there}"
        raise StoreAccessError(store=store, cause=cause, remedy=f"Run chown {user} {there}, or give it the right.")


def prepare_file(target: Path, content: bytes, *, durable: bool) -> Path:
    """Write a file under a temporary name beside ``target``, which tells what it was meant for; return its path."""
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    with temporary.open("xb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    return temporary


def link_new(temporary: Path, target: Path) -> bool:
    """Give a prepared file its name if nobody has it: put-if-absent. Whether the name is new.

    Raises:
        OSError: the file system refuses; without hard links there is no put-if-absent that is whole or absent.
    """
    try:
        os.link(temporary, target)
    except (FileExistsError, FileNotFoundError):
        # Not found: a temporary file whose target has been made is removed by anybody, so this one came too late.
        return False
    except OSError as error:
        if error.errno in _NO_LINKS and os.access(target.parent, os.W_OK):
            text = "the file system has no hard links, which the log's entries are put with"
            raise OSError(errno.ENOTDIR, text, str(target.parent)) from error
        raise
    return True


def make_folder(folder: Path, *, root: Path, durable: bool) -> None:
    """Make a folder, and those that it is in.

    Args:
        folder: ``root``, or one in it.
        root: where the store begins.
        durable: their names are to survive a power cut. Those below ``root`` are synced though they are there, and
            that of ``root`` where ``folder`` is not: who has made them may have died before that.
    """
    is_new, above = not folder.exists(), (folder, *folder.parents)
    named = [path for path in above if not path.exists() or (path.is_relative_to(root) and path != root)]
    folder.mkdir(parents=True, exist_ok=True)
    if not durable:
        return
    if is_new and root not in named:
        # Where this user may not read the folder above, it was not this user who made the root.
        with suppress(OSError):
            sync_directory(root.parent)
    for path in reversed(named):
        sync_directory(path.parent)


def sync_file(path: Path) -> None:
    """Make the content of a file survive a power cut."""
    _sync(path, os.O_RDONLY)


def sync_directory(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file that somebody else may have removed."""
    with suppress(FileNotFoundError):
        path.unlink()
