"""The command line: a file for each group of commands, and one place that prints."""

from __future__ import annotations

from directkafka.cli.program import main

__all__ = ["main"]
