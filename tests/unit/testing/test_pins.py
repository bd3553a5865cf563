"""The pinned packages are those that pyproject.toml asks for."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_ROOT = Path(__file__).parents[3]


def _pins(name: str) -> dict[str, str]:
    pins: dict[str, str] = {}
    for line in (_ROOT / "requirements" / name).read_text().splitlines():
        if line.startswith("-r "):
            pins |= _pins(line.removeprefix("-r "))
        elif line and not line.startswith("#"):
            package, version = line.split("==")
            pins[canonicalize_name(package)] = version
    return pins


def _declared() -> list[Requirement]:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    lines = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        lines += extra
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("file", ["dev.txt", "bench.txt"])
def test_every_declared_dependency_is_pinned_to_a_version_it_allows(file: str) -> None:
    pins = _pins(file)
    for requirement in _declared():
        pinned = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pinned), f"{requirement} is pinned to {pinned}"
