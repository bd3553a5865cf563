"""Warnings that a program is told once, however many of its calls they are true of.

Spark makes a data source anew for each plan, in a process of its own, which cannot know what an earlier one has said:
so the program's processes tell each other (:mod:`directkafka.jvm_files`).
"""

from __future__ import annotations

import logging
import threading

from directkafka import jvm_files

_told: set[str] = set()
_lock = threading.Lock()


def warn_once(logger: logging.Logger, message: str, *arguments: object) -> None:
    """Log a warning, unless this program has been told the same line before."""
    line = f"{logger.name}: {message % arguments}"
    with _lock:
        is_new = line not in _told
        _told.add(line)
    if is_new and jvm_files.claim(line):
        logger.warning(message, *arguments)
