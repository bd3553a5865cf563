"""NOTICE against what is installed: each package that comes along, with the licence that its own metadata says."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
NOTICE = (ROOT / "NOTICE").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("delta", "duckdb", "demo")
ROWS = dict(re.findall(r"^  (\S+) +(\S.*)$", NOTICE, re.MULTILINE))

#: What older metadata says in words, by what NOTICE says in SPDX's.
IN_WORDS = {
    "Apache-2.0": {"Apache-2.0", "Apache Software License"},
    "BSD-2-Clause": {"BSD", "BSD License"},
    "BSD-3-Clause": {"BSD", "BSD License"},
    "CC0-1.0": {"CC0"},
    "GPL-2.0-only WITH Classpath-exception-2.0": {"GNU General Public License v2 (GPLv2)"},
    "ISC": {"ISC License", "ISC License (ISCL)"},
    "MIT": {"MIT", "MIT License"},
    "Apache-2.0 OR BSD-3-Clause": {"Dual License", "BSD License", "Apache Software License"},
}


def brought_by(requirements: list[str]) -> dict[str, metadata.Distribution]:
    """What is installed because of these, and because of what they need."""
    waiting = [(Requirement(requirement), "") for requirement in requirements]
    distributions: dict[tuple[str, ...], metadata.Distribution] = {}
    while waiting:
        wanted, extra = waiting.pop()
        key = (wanted.name.lower().replace("_", "-"), *sorted(wanted.extras))
        if key in distributions or (wanted.marker is not None and not wanted.marker.evaluate({"extra": extra})):
            continue
        try:
            distributions[key] = metadata.distribution(wanted.name)
        except metadata.PackageNotFoundError:
            continue  # an extra that this environment does not have
        needs = distributions[key].requires or []
        waiting += [(Requirement(need), of) for need in needs for of in ("", *wanted.extras)]
    return {name: distribution for (name, *_), distribution in distributions.items()}


INSTALLED = brought_by(
    [
        *PROJECT["dependencies"],
        *(requirement for name in EXTRAS for requirement in PROJECT["optional-dependencies"][name]),
    ]
)


def test_what_comes_along_is_named() -> None:
    assert {"psycopg", "psycopg-binary", "pyspark", "numpy"} <= INSTALLED.keys()
    assert sorted(INSTALLED.keys() - ROWS.keys()) == []


def test_what_is_named_comes_along() -> None:
    """Or is not installed here, or for another reason: what comes depends on Python's version and on theirs."""
    there = {distribution.metadata["Name"].lower().replace("_", "-") for distribution in metadata.distributions()}
    assert sorted((ROWS.keys() & there) - INSTALLED.keys() - {"six", "tzdata"}) == []


@pytest.mark.parametrize("name", sorted(INSTALLED))
def test_a_licence_is_that_of_the_package_s_own_metadata(name: str) -> None:
    own = INSTALLED[name].metadata
    if "License-Expression" in own:
        assert ROWS[name] == own["License-Expression"]
        return
    told = {
        classifier.rpartition("::")[2].strip()
        for classifier in own.get_all("Classifier") or []
        if classifier.startswith("License ::")
    }
    told |= {licence.partition("\n")[0].strip() for licence in own.get_all("License") or []}
    assert told & {ROWS[name], *IN_WORDS.get(ROWS[name], ())}, f"{name} says {told}"


def test_a_licence_that_asks_for_more_than_its_text_is_spoken_of() -> None:
    prose = re.sub(r"^  \S+ +\S.*$", "", NOTICE, flags=re.MULTILINE)
    assert [name for name, licence in ROWS.items() if "GPL" in licence and name not in prose] == []


def test_the_notice_goes_into_the_package() -> None:
    """setuptools takes files of this name with LICENSE, unless it is told which."""
    assert "license-files" not in PROJECT
