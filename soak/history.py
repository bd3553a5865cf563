"""What happened, as it happened: one JSON object a line, and the kills counted by kind."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

__all__ = ["History"]


class History:
    """The record of one soak.

    Args:
        path: the file; it is begun anew.
        header: what the soak was started with.
    """

    def __init__(self, path: Path, **header: Any) -> None:
        self.path = path
        self.kills: Counter[str] = Counter()
        self._started = time.monotonic()
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w")
        self.note("start", **header)

    def note(self, event: str, **detail: Any) -> None:
        """Write down an event; seconds since the start come first."""
        line = {"at_s": round(time.monotonic() - self._started, 2), "event": event, **detail}
        with self._lock:
            self._file.write(json.dumps(line, default=str) + "\n")
            self._file.flush()

    def killed(self, kind: str, **detail: Any) -> None:
        """Write down a kill, and count it."""
        with self._lock:
            self.kills[kind] += 1
        self.note("kill", kind=kind, **detail)

    def close(self) -> None:
        """No more events."""
        self._file.close()
