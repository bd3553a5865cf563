"""The pinned packages are those that pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_ROOT = Path(__file__).parents[3]


def _pins(name: str) -> dict[str, str]:
    pins: dict[str, str] = {}
    for line in _lines(name):
        if line.startswith("-r "):
            pins |= _pins(line.removeprefix("-r "))
        else:
            package, version = line.split()[0].split("==")
            pins[canonicalize_name(package)] = version
    return pins


def _lines(name: str) -> list[str]:
    """A requirements file without comments, each pin with its hashes on one line."""
    text = (_ROOT / "requirements" / name).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


#: Extras that are compiled where they are installed, and so have a file of their own.
_COMPILED = ("kerberos",)


def _declared(*, compiled: bool = False) -> list[Requirement]:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    lines = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for name, extra in project["project"]["optional-dependencies"].items():
        # That of all the others names this package, and no other one.
        if name != "all" and (name not in _COMPILED or compiled):
            lines += extra
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("files", [["dev.txt"], ["bench.txt"], ["dev.txt", "kerberos.txt"]], ids="-".join)
def test_every_declared_dependency_is_pinned_to_a_version_it_allows(files: list[str]) -> None:
    pins = {package: version for file in files for package, version in _pins(file).items()}
    for requirement in _declared(compiled=len(files) > 1):
        pinned = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pinned), f"{requirement} is pinned to {pinned}"


@pytest.mark.parametrize("file", sorted(path.name for path in (_ROOT / "requirements").glob("*.txt")))
def test_every_pin_has_the_hashes_of_its_files_and_no_index_of_one_machine_is_named(file: str) -> None:
    for line in _lines(file):
        pin, *hashes = line.split()
        if pin != "-r":
            assert re.fullmatch(r"[\w.-]+==[\w.]+", pin), line
            assert hashes, f"make pins was not run after {pin}"
            assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", hash_option) for hash_option in hashes), line


def test_every_installation_of_pins_asks_for_hashes() -> None:
    lines = (_ROOT / "Makefile").read_text().replace("\\\n", "").splitlines()
    installs = [line for line in lines if "pip install" in line and " -r " in line]
    assert len(installs) == 3
    assert all("--require-hashes" in line for line in installs)


@pytest.mark.parametrize("name", ["backports.zstd", "deflate", "google-crc32c", "lz4"])
def test_a_library_whose_c_functions_are_called_by_address_has_an_upper_bound(name: str) -> None:
    """:mod:`directkafka.kafka.kernels.c_functions` knows what they take, and nobody checks it at run time."""
    (requirement,) = [
        dependency for dependency in _declared() if canonicalize_name(dependency.name) == canonicalize_name(name)
    ]
    assert {"<", "<="} & {specifier.operator for specifier in requirement.specifier}, requirement
