"""What Spark said of real failures, one vector for each: ``tests/vectors/spark-failures.json``, by version and name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

_FILE: Final = Path(__file__).parent.parent.parent / "vectors" / "spark-failures.json"

#: Chains of Java exceptions, from the outside in: class and message.
FAILURES: Final[dict[str, dict[str, list[tuple[str, str]]]]] = json.loads(_FILE.read_text())


class SparkError(Exception):
    """As PySpark raises it: its text, and the Java exceptions behind it."""

    def __init__(self, chain: Sequence[Sequence[str]]) -> None:
        super().__init__("\n".join(f"{name}: {message}" for name, message in chain))
        self.java_exception = _java(chain)


@dataclass(frozen=True, slots=True)
class _Java:
    name: str
    message: str
    cause: Any

    def getClass(self) -> Any:  # noqa: N802 - Java's name
        return SimpleNamespace(getName=lambda: self.name)

    def getMessage(self) -> str:  # noqa: N802
        return self.message

    def getCause(self) -> Any:  # noqa: N802
        return self.cause


def _java(chain: Sequence[Sequence[str]]) -> _Java | None:
    return _Java(chain[0][0], chain[0][1], _java(chain[1:])) if chain else None


def named(name: str) -> list[Any]:
    """One failure in all versions that have it, for ``parametrize``."""
    return [chains[name] for chains in FAILURES.values() if name in chains]
