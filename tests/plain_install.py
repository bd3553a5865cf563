"""Environments as a user has them: this package's wheel, and what its metadata asks for, and nothing else.

The packages are those of this environment, each file a hard link: a second instead of a minute, with the same files as
``pip install`` would put there. What must be there is read from the wheels' metadata, so a package that is needed and
not asked for is missing, as it would be at a user's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
NAME = "directkafka"
PATIENCE_S = 600
_KEPT_OF_JAVA = ("-Djava.io.tmpdir=", "-XX:-UsePerfData")


@dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def command(self) -> Path:
        return self.folder / "bin" / NAME

    def run(self, *command: str | Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run something there, in a folder, without what this program's own environment says of Python and Spark."""
        foreign = ("PYTHON", "PYSPARK", "SPARK_HOME", "SPARK_CONF", "VIRTUAL_ENV", "COVERAGE", "PYTEST")
        # As after ``. venv/bin/activate``.
        path = os.pathsep.join([str(self.folder / "bin"), os.environ.get("PATH", os.defpath)])
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        # Of the tests' own Java, where temporary files go; not what tests/quick_start.py sets.
        options = [
            option for option in inherited.pop("SPARK_SUBMIT_OPTS", "").split() if option.startswith(_KEPT_OF_JAVA)
        ]
        inherited["SPARK_SUBMIT_OPTS"] = " ".join(options)
        return subprocess.run(
            command,
            cwd=folder,
            env={**inherited, "PATH": path, **environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


def build(folder: Path) -> Path:
    """The wheel, made from the source distribution, as ``python -m build`` makes it."""
    source = folder / "source"
    source.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    _call(sys.executable, "-c", f"import setuptools.build_meta as b; b.build_sdist({str(folder)!r})", folder=source)
    (packed,) = folder.glob("*.tar.gz")
    _call(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-cache-dir"),
        *("--wheel-dir", folder, packed),
        folder=folder,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def linked_environment(folder: Path, wheel: Path, *, extras: Collection[str] = ()) -> Environment:
    """What ``pip install WHEEL[EXTRAS]`` makes, with the versions that are installed here."""
    made = Environment(folder)
    _call(sys.executable, "-m", "venv", "--without-pip", folder, folder=ROOT)
    (packages,) = folder.glob("lib/python*/site-packages")
    for package in needed(extras).values():
        if canonicalize_name(package.name) != NAME:
            _link(package, packages)
    pip = (sys.executable, "-m", "pip", "--python", made.python)
    _call(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, folder=ROOT)
    _call(*pip, "check", folder=ROOT)
    _link_kernels(packages / NAME)
    return made


def installed_environment(folder: Path, wheel: Path, *, pyspark: str) -> Environment:
    """What ``pip install WHEEL pyspark==VERSION`` makes, other packages in the versions that are installed here."""
    made = Environment(folder)
    _call(sys.executable, "-m", "venv", folder, folder=ROOT)
    pins = folder / "pins.txt"
    others = (package for name, package in needed(()).items() if name not in {NAME, "pyspark"})
    pins.write_text("".join(f"{package.name}=={package.version}\n" for package in others))
    _call(made.python, "-m", "pip", "install", "--quiet", "-c", pins, wheel, f"pyspark=={pyspark}", folder=ROOT)
    return made


def needed(extras: Collection[str]) -> dict[str, Distribution]:
    """The package and all that it needs, by name."""
    packages: dict[str, Distribution] = {}
    asked: set[tuple[str, str]] = set()
    waiting = [(NAME, extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in asked:
            continue
        asked.add((name, extra))
        package = packages.setdefault(name, distribution(name))
        waiting += _required(package, extra)
    return packages


def _required(package: Distribution, extra: str) -> Iterator[tuple[str, str]]:
    for text in package.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            for wanted in ("", *requirement.extras):
                yield canonicalize_name(requirement.name), wanted


def _link(package: Distribution, packages: Path) -> None:
    for file in package.files or ():
        if ".." in file.parts:  # Scripts, which nothing here calls.
            continue
        source, target = Path(str(package.locate_file(file))), packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except FileNotFoundError:  # Bytecode that is not there (yet).
            continue
        except OSError:  # Another file system.
            shutil.copy2(source, target)


def _link_kernels(package: Path) -> None:
    """As an installation has them that has run once; their names are digests of the code that they come from."""
    for entry in (ROOT / "src" / NAME).rglob("__pycache__/*.nb?"):
        target = package / entry.relative_to(ROOT / "src" / NAME)
        target.parent.mkdir(exist_ok=True)
        shutil.copy(entry, target)


def _call(*command: str | Path, folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
