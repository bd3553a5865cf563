"""Folders of this user's own, which nobody else can put files into: what is read from them may be executed.

The rule is OpenSSH's for its keys (``safe_path`` in ``misc.c``), and git's for hooks: every folder from the root on
belongs to this user or to root, and no other user may write to it. Below a folder that all may write to, but where
none may take away what is another's (the sticky ``/tmp``), a folder of one's own is as safe as anywhere.

A group that has this user alone may write too, as in Debian's OpenSSH: where each user has such a group, folders are
made that way.
"""

from __future__ import annotations

import os
import stat
from functools import cache
from pathlib import Path
from typing import Final

#: Windows has no user ids; its folders have access lists, which are not looked at.
USER_ID: Final = os.getuid() if hasattr(os, "getuid") else 0
_IS_POSIX: Final = hasattr(os, "getuid")


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder into which another user may put files, or has.

    Args:
        folder: an absolute path without links (:meth:`pathlib.Path.resolve`): a link that another user may turn
            elsewhere would be looked at here, and followed later.

    Raises:
        PermissionError: it is such a folder, or is below one.
        FileNotFoundError: there is none.
    """
    if not _IS_POSIX:
        return
    for parent in (folder, *folder.parents):
        stat_result = parent.lstat()
        is_shared = stat_result.st_mode & stat.S_IWOTH or (
            stat_result.st_mode & stat.S_IWGRP and not _is_private(stat_result.st_gid)
        )
        if not stat.S_ISDIR(stat_result.st_mode):
            raise PermissionError(f"{parent} is no folder")
        if stat_result.st_uid not in (USER_ID, 0):
            raise PermissionError(f"{parent} belongs to user {stat_result.st_uid}, not to {USER_ID} or root")
        # The folder itself must take files of nobody else; above it, it is enough that none can be put in its place.
        if is_shared and (parent == folder or not stat_result.st_mode & stat.S_ISVTX):
            mode = stat.S_IMODE(stat_result.st_mode)
            raise PermissionError(f"other users may write to {parent} (mode {mode:04o})")


def refuse_unless_private(folder: Path) -> None:
    """Refuse what is no folder of this user's alone, or a link; for a place where everybody may make folders.

    A stricter rule than that of :func:`refuse_foreign`: no group may read there, and folders above are not looked at.

    Args:
        folder: below a folder such as ``/tmp``.

    Raises:
        PermissionError: it is such a one.
        FileNotFoundError: there is none.
    """
    stat_result = folder.lstat()
    is_open = stat_result.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    if _IS_POSIX and (not stat.S_ISDIR(stat_result.st_mode) or stat_result.st_uid != USER_ID or is_open):
        raise PermissionError(f"{folder} is no folder of user {USER_ID} alone")


@cache
def _is_private(group_id: int) -> bool:
    """Whether a group is the one that has this user's name and no other member."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(USER_ID), grp.getgrgid(group_id)
    except KeyError:
        return False
    return group.gr_gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
