"""The command line: one file per command, one place that prints."""

from __future__ import annotations

from directkafka.cli.app import main

__all__ = ["main"]
