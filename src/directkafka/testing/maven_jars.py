"""Jars from Maven Central, fetched once into the cache by the Ivy that PySpark's wheel contains.

Ivy compares them with sums from the same server. So this package has SHA-256 sums of its own (``testing/jars``), with
which they are compared after they were fetched, and once in each process that uses them.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from directkafka.errors import EnvironmentFaultError
from directkafka.testing.cache import cache_folder
from directkafka.testing.java import java_home, network_options

_ERROR_LINES = 15
#: How long Ivy may take. It has no limit of its own, and whoever waits for the jars waits for it.
_IVY_S = 900.0

#: Folders whose jars this process has compared with their sums.
_compared: set[Path] = set()

_IVY_FILE = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="directkafka" module="fetched"/>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One published artifact; with ``transitive``, also what it depends on.

    Attributes:
        classifier, extension: of its file, where that is not the artifact's jar.
    """

    organisation: str
    name: str
    revision: str
    transitive: bool = True
    classifier: str = ""
    extension: str = "jar"

    @property
    def file(self) -> str:
        """The name of its file in the folder that it is fetched into."""
        return f"{self.name}-{self.revision}.{self.extension}"

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.revision}"


def silent(message: str) -> None:
    """Where nobody listens to the progress."""


def fetch_jars(
    subfolder: str, modules: Sequence[Module], *, what: str, progress: Callable[[str], None] = silent
) -> Path:
    """The folder with the modules' jars; fetches them when the cache has none.

    Several processes may call this at once: one fetches, the others wait for it.

    Args:
        subfolder: where in the cache, for example ``kafka/4.3.0``; must be another one when the modules change.
        modules: what to fetch.
        what: the same in words, for messages.
        progress: is told in a short sentence what is being fetched; not called when all is in the cache.

    Raises:
        EnvironmentFaultError: PySpark or Java is missing, or Ivy failed, which carries Ivy's last lines; or a jar is
            not the one whose sum this package has.
    """
    jars = cache_folder() / subfolder
    sums = pinned_sums(subfolder)
    if not jars.is_dir():
        jars.parent.mkdir(parents=True, exist_ok=True)
        with _locked(jars.with_name(f"{jars.name}.lock"), lambda: progress(f"another process is fetching {what}")):
            if not jars.is_dir():
                progress(f"fetching {what}")
                _fetch(jars, modules, what, progress, sums)
    if jars not in _compared:
        _compare(jars, sums, f"Remove the folder {jars}; it is fetched anew.")
        _compared.add(jars)
    return jars


def unpacked_server(
    home: Path, module: Module, unpack: Callable[[Path, Path], None], *, what: str, progress: Callable[[str], None]
) -> Path:
    """The folder with a server that one file has; fetches and unpacks it when there is none.

    Args:
        home: the folder, below the cache's.
        module: has the file.
        unpack: takes the server out of the file, into a folder.
        what: as for :func:`fetch_jars`.
        progress: as for :func:`fetch_jars`.

    Raises:
        EnvironmentFaultError: as for :func:`fetch_jars`.
    """
    if home.exists():
        return home
    subfolder = f"{home.parent.name}/{module.revision}"
    file = fetch_jars(subfolder, [module], what=what, progress=progress) / module.file
    draft = Path(tempfile.mkdtemp(prefix=home.name, dir=home.parent))
    try:
        unpack(file, draft)
        # Another process may have been faster; only a complete folder ever has the final name.
        with suppress(OSError):
            draft.rename(home)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return home


def pinned_sums(subfolder: str) -> dict[str, str]:
    """SHA-256 sums by file name; empty for what this package has none of, such as another version of Kafka."""
    known = files("directkafka.testing").joinpath("jars", f"{subfolder.replace('/', '-')}.sha256")
    if not known.is_file():
        return {}
    return {name: digest for digest, name in map(str.split, known.read_text().splitlines())}


def _compare(folder: Path, sums: Mapping[str, str], remedy: str) -> None:
    if not sums:
        return
    actual_sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    wrong = sorted(name for name in {*actual_sums, *sums} if actual_sums.get(name) != sums.get(name))
    if wrong:
        raise EnvironmentFaultError(
            what=f"{', '.join(wrong)} in {folder} {'is' if len(wrong) == 1 else 'are'} not what was published: by "
            "SHA-256 another file, one too many, or missing",
            remedy=remedy,
        )


@contextmanager
def _locked(path: Path, when_waiting: Callable[[], None]) -> Iterator[None]:
    # The kernel gives the lock back when its holder dies, so a killed download blocks nobody.
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            when_waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(
    jars: Path, modules: Sequence[Module], what: str, progress: Callable[[str], None], sums: Mapping[str, str]
) -> None:
    draft = jars.with_name(f"{jars.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)  # what a killed download left
    draft.mkdir()
    try:
        ivy_file = draft / "ivy.xml"
        ivy_file.write_text(_IVY_FILE.format(dependencies="\n".join(map(_dependency, modules))))
        code, lines = _run_ivy(ivy_file, draft / "jars", progress)
        if code != 0 or not all((draft / "jars" / module.file).exists() for module in modules):
            raise _failure(code, lines, jars, what)
        _compare(draft / "jars", sums, "Look at where it came from: a proxy or a mirror, or a broken download.")
        # Only a complete folder ever has the final name.
        (draft / "jars").rename(jars)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _dependency(module: Module) -> str:
    transitive = str(module.transitive).lower()
    head = (
        f'    <dependency org="{module.organisation}" name="{module.name}" rev="{module.revision}" '
        f'conf="default" transitive="{transitive}"'
    )
    if not module.classifier:
        return f"{head}/>"
    kind = f'type="{module.extension}" ext="{module.extension}" m:classifier="{module.classifier}" conf="default"'
    return f'{head}>\n      <artifact name="{module.name}" {kind}/>\n    </dependency>'


def _run_ivy(ivy_file: Path, into: Path, progress: Callable[[str], None]) -> tuple[int, list[str]]:
    """Ivy's exit code and what it said."""
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
        limit = threading.Timer(_IVY_S, ivy.kill)
        limit.start()
        try:
            for line in map(str.strip, ivy.stdout or ()):
                lines.append(line)
                if line.startswith("downloading "):
                    progress(line.split()[1].rsplit("/", 1)[-1])
        finally:
            is_over = not limit.is_alive()
            limit.cancel()
    if is_over:
        lines.append(f"It was ended, because it took longer than {_IVY_S:.0f} s.")
    return ivy.returncode, lines


def _failure(code: int, lines: Sequence[str], jars: Path, what: str) -> EnvironmentFaultError:
    return EnvironmentFaultError(
        what=f"Ivy could not fetch {what} (exit code {code}). Its last lines:\n"
        + "\n".join(lines[-_ERROR_LINES:])
        + "\n",
        remedy="It reads Maven Central: check the network or the JVM's proxy settings (JAVA_TOOL_OPTIONS="
        f"-Dhttps.proxyHost=... -Dhttps.proxyPort=...), or put the jars into {jars} by hand.",
    )


def _ivy_jar() -> Path:
    """The Ivy in PySpark's wheel, found without importing PySpark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EnvironmentFaultError(
            what="PySpark is not installed; jars are fetched by the Ivy in its wheel",
            remedy="Install it: pip install '.[demo]' in a checkout of directkafka.",
        )
    jars = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar"))
    if not jars:
        raise EnvironmentFaultError(
            what=f"PySpark at {Path(spec.origin).parent} has no jars/ivy-*.jar",
            remedy="Install PySpark from its published wheel or source archive: pip install 'pyspark>=4.2,<4.4'.",
        )
    return jars[-1]
