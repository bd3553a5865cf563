"""Apache Kafka's own jars, fetched once into the cache by the Ivy that PySpark's wheel contains.

What is fetched are the published artifacts ``org.apache.kafka:kafka_2.13`` and what it depends on, plus
``slf4j-simple`` as the logger: Kafka's artifact names none, and without one a broker that fails to start says
nothing.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from directkafka.errors import EnvironmentFaultError
from directkafka.testing.cache import cache_folder
from directkafka.testing.java import java_home, network_options

__all__ = ["KAFKA_VERSION", "broker_jars"]

#: The broker that tests and the demo run on.
KAFKA_VERSION = "4.3.0"

_SCALA_VERSION = "2.13"
_LOGGER_VERSION = "1.7.36"  # of slf4j, the one that Kafka's artifact asks for
_ERROR_LINES = 15

_IVY_FILE = f"""\
<ivy-module version="2.0">
  <info organisation="directkafka" module="broker"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_{_SCALA_VERSION}" rev="{{version}}" conf="default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="{_LOGGER_VERSION}" conf="default"/>
  </dependencies>
</ivy-module>
"""


def _silent(message: str) -> None:
    """Where nobody listens to the progress."""


def broker_jars(version: str = KAFKA_VERSION, *, progress: Callable[[str], None] = _silent) -> Path:
    """The folder with the broker's jars; fetches them when the cache has none (about 40 s and 44 MB).

    Several processes may call this at once: one fetches, the others wait for it.

    Args:
        version: Kafka's version.
        progress: is told in a short sentence what is being fetched; not called when all is in the cache.

    Raises:
        EnvironmentFaultError: PySpark or Java is missing, or Ivy failed; carries Ivy's last lines.
    """
    jars = cache_folder() / "kafka" / version
    if jars.is_dir():
        return jars
    jars.parent.mkdir(parents=True, exist_ok=True)
    with _locked(jars.with_name(f"{version}.lock")):
        if not jars.is_dir():
            _fetch(version, jars, progress)
    return jars


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # The kernel gives the lock back when its holder dies, so a killed download blocks nobody.
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(version: str, jars: Path, progress: Callable[[str], None]) -> None:
    progress(f"fetching Apache Kafka {version} (46 jars, 44 MB, once)")
    draft = jars.with_name(f"{version}.draft")
    shutil.rmtree(draft, ignore_errors=True)  # what a killed download left
    draft.mkdir()
    try:
        ivy_file = draft / "ivy.xml"
        ivy_file.write_text(_IVY_FILE.format(version=version))
        _run_ivy(ivy_file, draft / "jars", version, progress)
        # Only a complete folder ever has the final name.
        (draft / "jars").rename(jars)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _run_ivy(ivy_file: Path, into: Path, version: str, progress: Callable[[str], None]) -> None:
    ivy_home = cache_folder() / "ivy"
    java = java_home()
    command = [
        str(java / "bin" / "java"),
        "-XX:-UsePerfData",
        *network_options(java),
        f"-Divy.default.ivy.user.dir={ivy_home}",
        f"-Djava.io.tmpdir={ivy_file.parent}",
        *("-cp", str(_ivy_jar()), "org.apache.ivy.Main"),
        *("-ivy", str(ivy_file)),
        *("-cache", str(ivy_home / "cache")),
        *("-retrieve", f"{into}/[artifact]-[revision].[ext]"),
        *("-confs", "default"),
    ]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        assert ivy.stdout is not None
        for line in map(str.strip, ivy.stdout):
            lines.append(line)
            if line.startswith("downloading "):
                progress(line.split()[1].rsplit("/", 1)[-1])
    if ivy.returncode != 0 or not any(into.glob(f"kafka_{_SCALA_VERSION}-{version}.jar")):
        raise EnvironmentFaultError(
            what=f"Ivy could not fetch Apache Kafka {version} (exit code {ivy.returncode}). Its last lines:\n"
            + "\n".join(lines[-_ERROR_LINES:])
            + "\n",
            remedy="It reads Maven Central: check the network or the JVM's proxy settings (JAVA_TOOL_OPTIONS="
            f"-Dhttps.proxyHost=... -Dhttps.proxyPort=...), or put the jars into {cache_folder()}/kafka/{version} "
            "by hand.",
        )


def _ivy_jar() -> Path:
    """The Ivy in PySpark's wheel, found without importing PySpark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EnvironmentFaultError(
            what="PySpark is not installed; the broker's jars are fetched by the Ivy in its wheel",
            remedy="Install it: pip install 'directkafka[demo]'.",
        )
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar"))
    if not found:
        raise EnvironmentFaultError(
            what=f"PySpark at {Path(spec.origin).parent} has no jars/ivy-*.jar",
            remedy="Install PySpark from its published wheel or source archive: pip install 'pyspark>=4.2,<4.4'.",
        )
    return found[-1]


if __name__ == "__main__":
    try:
        broker_jars(progress=lambda message: print(message, flush=True))
    except EnvironmentFaultError as error:
        raise SystemExit(str(error)) from None
