"""A real schema registry for tests: Apicurio's, with Confluent's REST API, as one process, without Docker."""

from __future__ import annotations

import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from directkafka.testing.cache import cache_folder
from directkafka.testing.java import java_home
from directkafka.testing.maven_jars import Module, silent, unpacked_server
from directkafka.testing.servers.embedded_server import EmbeddedServer
from directkafka.testing.servers.ports import LOOPBACK
from directkafka.testing.servers.process import ServerProcess

#: The server that tests run on.
APICURIO_VERSION: Final = "2.6.13.Final"

_API: Final = "/apis/ccompat/v7"
_ASKING_TIMEOUT_S: Final = 5.0
_JVM_OPTIONS: Final = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class SchemaRegistry(EmbeddedServer):
    """A schema registry on 127.0.0.1, for everybody on this machine; its schemas are in memory.

    The first use on a machine fetches the server (142 MB). The server ends, and its folder goes, when this process
    ends, however it ends.

    ::

        with SchemaRegistry() as registry:
            run_my_job(registry.url)

    Args:
        progress: is told what is being fetched the first time.
    """

    _prefix = "directkafka-registry-"
    _ready_timeout_s = 90.0
    _not_ready = "the schema registry does not answer"

    def __init__(self, *, progress: Callable[[str], None] = silent) -> None:
        super().__init__()
        self._progress = progress
        self._home = Path()

    @property
    def url(self) -> str:
        """The address of Confluent's REST API, as ``value.registry.url`` takes it."""
        return f"http://{self._address}{_API}"

    def _prepare(self) -> None:
        self._home = registry_home(progress=self._progress)

    def _begin(self, port: int) -> ServerProcess:
        command = [
            str(java_home() / "bin" / "java"),
            *_JVM_OPTIONS,
            f"-Djava.io.tmpdir={self._folder}",
            f"-Dquarkus.http.host={LOOPBACK}",
            f"-Dquarkus.http.port={port}",
            *("-jar", str(self._home / f"apicurio-registry-app-{APICURIO_VERSION}-runner.jar")),
        ]
        log_file, options = self._folder / "server.log", {"cwd": self._folder}
        return ServerProcess(command, log_file=log_file, watchdog=self._watchdog, popen_options=options)

    def _is_ready(self) -> bool:
        try:
            # Not by a proxy, which the environment may name.
            direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with direct.open(f"{self.url}/subjects", timeout=_ASKING_TIMEOUT_S):
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
