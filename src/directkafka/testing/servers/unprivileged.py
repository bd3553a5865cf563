"""Running a server as a user without rights, from a process that is root. Linux only.

Postgres refuses to run as root. It runs as ``nobody`` then, without any capability, and under a group of its own: a
number that no other process has. The number is what keeps other processes of that user out. They may not look into the
server's memory, its descriptors or its working folder in ``/proc``, since the kernel asks for the same user *and* the
same group there.

The data lie in a folder that only root may enter (what ``mkdtemp`` makes, a checkout in ``/root``). The server is
started inside it, and knows it as ``/proc/self/cwd``: whoever is in a folder needs no way to it.
"""

from __future__ import annotations

import grp
import os
import pwd
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from directkafka.errors import EnvironmentFaultError

_USER: Final = "nobody"

#: Numbers for groups that distributions give to nothing, and that a container of 65,536 numbers has.
_GROUPS: Final = range(30_000, 60_000)

_RUN_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unprivileged:
    """A user and a group for a server.

    Attributes:
        name: of the user.
        user, group: their numbers.
    """

    name: str
    user: int
    group: int

    @classmethod
    def choose(cls) -> Self:
        """``nobody``, under a group that nobody else has.

        Raises:
            EnvironmentFaultError: there is no such user, or this is no Linux.
        """
        try:
            user = pwd.getpwnam(_USER).pw_uid
        except KeyError:
            user = 0
        if not user or not Path("/proc/self/cwd").exists():
            raise EnvironmentFaultError(
                what="Postgres refuses to run as root, and here it cannot be started as user 'nobody'",
                remedy="Run as an ordinary user.",
            )
        taken = {entry.gr_gid for entry in grp.getgrall()}
        return cls(name=_USER, user=user, group=secrets.choice([group for group in _GROUPS if group not in taken]))

    @property
    def popen_options(self) -> dict[str, Any]:
        """For :class:`subprocess.Popen`."""
        return {"user": self.user, "group": self.group, "extra_groups": []}

    def own(self, folder: Path) -> None:
        """Make a folder and all in it this user's, if it is not; links are not followed."""
        if folder.stat().st_uid == self.user:
            return
        for parent, _, files in os.walk(folder):
            for name in (parent, *(os.path.join(parent, file) for file in files)):
                os.chown(name, self.user, self.group, follow_symlinks=False)

    def let_in(self, folder: Path) -> None:
        """Let this group enter and read a folder."""
        os.chown(folder, -1, self.group)
        folder.chmod(0o750)

    def may_enter(self, folder: str) -> bool:
        """Whether the way to a folder is open to everybody."""
        path = Path(folder).absolute()
        return path.is_dir() and all(parent.stat().st_mode & 0o001 for parent in (path, *path.parents))

    def can_run(self, program: Path) -> bool:
        """Whether this user can run a program where it lies."""
        try:
            done = subprocess.run(
                [program, "--version"],
                cwd="/",
                capture_output=True,
                timeout=_RUN_TIMEOUT_S,
                check=False,
                **self.popen_options,
            )
        except OSError:
            return False
        return done.returncode == 0
