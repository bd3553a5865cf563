"""A real schema registry for tests: Apicurio's, with Confluent's REST API, as one process, without Docker."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from directkafka.testing.cache import cache_folder
from directkafka.testing.java import java_home
from directkafka.testing.maven_jars import Module, silent, unpacked_server
from directkafka.testing.servers.ports import LOOPBACK, ReservedPort
from directkafka.testing.servers.process import ServerProcess, wait_until
from directkafka.testing.servers.watchdog import Watchdog

#: The server that tests run on.
APICURIO_VERSION: Final = "2.6.13.Final"

_API: Final = "/apis/ccompat/v7"
_READY_TIMEOUT_S: Final = 90.0
_ASKING_TIMEOUT_S: Final = 5.0
_JVM_OPTIONS: Final = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class SchemaRegistry:
    """A schema registry on 127.0.0.1, for everybody on this machine; its schemas are in memory.

    The first use on a machine fetches the server (142 MB). The server ends, and its folder goes, when this process
    ends, however it ends.

    ::

        with SchemaRegistry() as registry:
            run_my_job(registry.url)

    Args:
        progress: is told what is being fetched the first time.
    """

    def __init__(self, *, progress: Callable[[str], None] = silent) -> None:
        self._progress = progress
        self._resources = contextlib.ExitStack()
        self._folder = Path()
        self._port: ReservedPort | None = None
        self._server: ServerProcess | None = None
        self._watchdog: Watchdog | None = None

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._port.address if self._port is not None else 'not started'})"

    @property
    def url(self) -> str:
        """The address of Confluent's REST API, as ``value.registry.url`` takes it."""
        if self._port is None:
            raise RuntimeError("this SchemaRegistry has no address before start()")
        return f"http://{self._port.address}{_API}"

    @property
    def pid(self) -> int:
        """Process id of the server."""
        if self._server is None:
            raise RuntimeError("this SchemaRegistry was not started, or is stopped")
        return self._server.pid

    def start(self) -> Self:
        """Start the server, and return when it answers.

        Raises:
            EnvironmentFaultError: the server cannot be fetched, or does not start; carries the end of its log.
        """
        if self._port is not None:
            raise RuntimeError("this SchemaRegistry is started already")
        try:
            self._watchdog = Watchdog()
            self._resources.callback(self._watchdog.close)
            self._folder = Path(tempfile.mkdtemp(prefix="directkafka-registry-"))
            self._resources.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self._watchdog.remove(self._folder)
            self._port = self._resources.enter_context(ReservedPort())
            self._launch(registry_home(progress=self._progress))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the server and remove its folder; may be called twice."""
        if self._server is not None and self._server.is_running:
            self._server.kill()
        self._server = None
        self._port = None
        self._resources.close()

    def __enter__(self) -> Self:
        return self if self._server is not None else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch(self, home: Path) -> None:
        assert self._port is not None
        command = [
            str(java_home() / "bin" / "java"),
            *_JVM_OPTIONS,
            f"-Djava.io.tmpdir={self._folder}",
            f"-Dquarkus.http.host={LOOPBACK}",
            f"-Dquarkus.http.port={self._port.number}",
            *("-jar", str(home / f"apicurio-registry-app-{APICURIO_VERSION}-runner.jar")),
        ]
        log_file, options = self._folder / "server.log", {"cwd": self._folder}
        self._server = ServerProcess(command, log_file=log_file, watchdog=self._watchdog, popen_options=options)
        what = "the schema registry does not answer"
        wait_until(self._answers, servers=[self._server], timeout_s=_READY_TIMEOUT_S, what=what)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=_ASKING_TIMEOUT_S):
                return True
        except (urllib.error.URLError, OSError):
            return False


def registry_home(*, progress: Callable[[str], None] = silent) -> Path:
    """The folder with the server; fetches it when the cache has none.

    Args:
        progress: is told in a short sentence what is being fetched; not called when all is in the cache.

    Raises:
        EnvironmentFaultError: PySpark or Java is missing, or the server cannot be fetched.
    """
    home = cache_folder() / "apicurio" / f"{APICURIO_VERSION}-server"
    module = Module(
        organisation="io.apicurio",
        name="apicurio-registry-app",
        revision=APICURIO_VERSION,
        transitive=False,
        classifier="all",
        extension="zip",
    )
    what = f"Apicurio Registry {APICURIO_VERSION} (142 MB, once)"
    return unpacked_server(home, module, _unpack, what=what, progress=progress)


def _unpack(file: Path, into: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        archive.extractall(into)
