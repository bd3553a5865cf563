"""A KDC of MIT Kerberos with a realm of its own, in a temporary folder and on a port of loopback."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Self

import pytest

from directkafka.testing.servers.ports import LOOPBACK, ReservedPort
from directkafka.testing.servers.process import ServerProcess, wait_until
from directkafka.testing.servers.watchdog import Watchdog

REALM = "DIRECTKAFKA.TEST"
#: Set by `make test-kerberos`: a machine without Kerberos is a failure then.
REQUIRED = "DIRECTKAFKA_KERBEROS_REQUIRED"

_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_DEBIAN = "on Debian: apt-get install krb5-kdc krb5-admin-server krb5-user libkrb5-dev gcc; then: make test-kerberos"

_READY_TIMEOUT_S = 30.0
_TOOL_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0

#: Where Debian has the programs of a KDC, which is not on everybody's PATH.
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])

# By TCP alone: a port of UDP cannot be reserved. A host's name is the one in its address.
_CLIENT_CONFIG = """
[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    forwardable = false
[realms]
    {realm} = {{
        kdc = {address}
    }}
"""
_KDC_CONFIG = """
[realms]
    {realm} = {{
        database_name = {folder}/principals
        key_stash_file = {folder}/stash
        acl_file = {folder}/no-acl
        kdc_listen = ""
        kdc_tcp_listen = {address}
        max_life = 10h
    }}
[logging]
    kdc = STDERR
"""


def require_kerberos() -> None:
    """Skip, or fail where Kerberos is required, if its programs or the package gssapi are not there."""
    missing = [name for name in _PROGRAMS if which(name, path=_PATH) is None]
    missing += ["the package gssapi"] if find_spec("gssapi") is None else []
    if not missing:
        return
    told = f"no Kerberos: skipped ({', '.join(missing)}; {_DEBIAN})"
    if os.environ.get(REQUIRED):
        pytest.fail(told.replace("skipped", "and it is required"))
    pytest.skip(told)


class Kdc:
    """The KDC; :attr:`environment` is for those who are to use it.

    Args:
        folder: for its database, its log, and keytabs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._resources = ExitStack()
        self._watchdog = Watchdog()
        self._resources.callback(self._watchdog.close)
        port = self._resources.enter_context(ReservedPort())
        self.address, self._port = port.address, port.number
        self._process: ServerProcess | None = None
        self.config = folder / "krb5.conf"
        named = {"realm": REALM, "address": self.address, "folder": folder}
        self.config.write_text(_CLIENT_CONFIG.format(**named))
        (folder / "kdc.conf").write_text(_KDC_CONFIG.format(**named))
        #: What Kerberos's library and tools are told by.
        self.environment = {"KRB5_CONFIG": str(self.config)}
        self._run("kdb5_util", "create", "-s", "-W", "-r", REALM, "-P", "master-password")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._resources.close()

    def start(self) -> None:
        """Start it, again on the same port, and wait until it can be asked."""
        log = self.folder / "kdc.log"
        options = {"env": self._environment(), "cwd": self.folder}
        self._process = ServerProcess(
            [str(which("krb5kdc", path=_PATH)), "-n"], log_file=log, watchdog=self._watchdog, popen_options=options
        )
        wait_until(self._answers, servers=[self._process], timeout_s=_READY_TIMEOUT_S, what="the KDC is not ready")

    def stop(self) -> None:
        """End it, if it runs; database and port stay."""
        if self._process is not None:
            self._process.request_stop()
            self._process.wait_or_kill(_STOP_TIMEOUT_S)
            self._process = None

    def add(self, principal: str, *, lifetime: str = "10 hours") -> None:
        """A new principal with a key that only a keytab has.

        Args:
            principal: its name, without the realm.
            lifetime: the longest time of its tickets.
        """
        self.admin(f'addprinc -randkey -maxlife "{lifetime}" {principal}')

    def keytab(self, principal: str, name: str = "") -> str:
        """The path of a new keytab with new keys of the principal: older ones are of no use any more.

        Args:
            principal: its name, without the realm.
            name: the file's, if not the principal's.
        """
        path = self.folder / f"{name or principal.replace('/', '-')}.keytab"
        self.admin(f"ktadd -k {path} {principal}")
        return str(path)

    def admin(self, query: str) -> None:
        """A command of kadmin's; the KDC need not run."""
        self._run("kadmin.local", "-r", REALM, "-q", query)

    def kinit(self, principal: str, keytab: str, cache: Path, *arguments: str) -> None:
        """Fetch a ticket into a file."""
        self._run("kinit", "-c", str(cache), *arguments, "-k", "-t", keytab, principal)

    def _environment(self) -> dict[str, str]:
        own = {"KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"), "PATH": _PATH}
        return {**os.environ, **self.environment, **own}

    def _run(self, tool: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(which(tool, path=_PATH)), *arguments],
            env=self._environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=_TOOL_TIMEOUT_S,
            check=False,
        )
        # kadmin.local returns 0 whatever happens.
        wrong = [line for line in done.stderr.splitlines() if not line.startswith("No policy specified")]
        assert done.returncode == 0, done.stderr
        assert not wrong, wrong

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((LOOPBACK, self._port)) == 0
