"""Write the hashes of every file that the package index has for each pinned version into ``requirements/*.txt``.

The pins are changed by hand; then ``make pins`` looks the hashes up (with uv, which asks the index and installs
nothing). All platforms' wheels are among them, for one file serves all. An index or a folder of wheels that this
machine is told to use is not written down.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "requirements"
_COMMAND = (
    *("uv", "pip", "compile", "-", "--no-deps", "--universal", "--python-version", "3.11", "--generate-hashes"),
    *("--no-header", "--no-annotate", "--no-config", "--quiet", "--default-index", "https://pypi.org/simple"),
)


def hashed(text: str) -> str:
    """A requirements file with the hashes of what it pins; comments and what it includes come first, as they were."""
    lines = [line.removesuffix("\\").strip() for line in text.splitlines()]
    head = [line for line in lines if line.startswith(("#", "-r "))]
    pins = [line for line in lines if line and not line.startswith(("#", "-"))]
    completed = subprocess.run(
        [sys.executable, "-m", *_COMMAND], input="\n".join(pins), text=True, capture_output=True, check=False
    )
    if completed.returncode != 0:
        raise SystemExit(completed.stderr)
    return "\n".join([*head, completed.stdout])


def main() -> None:
    """Write all of them anew."""
    for path in sorted(_FOLDER.glob("*.txt")):
        path.write_text(hashed(path.read_text()))
        print(path.relative_to(_FOLDER.parent))


if __name__ == "__main__":
    main()
