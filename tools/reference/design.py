"""The drawing of the layers in ``docs/DESIGN.md``."""

from __future__ import annotations

import textwrap
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def design(text: str) -> str:
    """The design document with its layers made anew."""
    return _between("layers", text, layers())


def layers() -> str:
    """The import contract of ``pyproject.toml`` as a drawing: a room imports only from those behind it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    lines = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    drawn = " → ".join(line.replace("directkafka.", "").replace(" | ", "\u00a0|\u00a0") for line in lines)
    return "```text\n" + textwrap.fill(drawn, 120).replace("\u00a0", " ") + "\n```"


def _between(name: str, text: str, content: str) -> str:
    head, _, rest = text.partition(f"<!-- {name} -->")
    _, _, tail = rest.partition(f"<!-- /{name} -->")
    return f"{head}<!-- {name} -->\n\n{content}\n\n<!-- /{name} -->{tail}"
