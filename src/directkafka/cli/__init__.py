"""The command line: a file for what a group of commands is about, one place that prints."""

from __future__ import annotations

from directkafka.cli.program import main

__all__ = ["main"]
