"""The command line: commands by what they are about, one place that prints."""

from __future__ import annotations

from directkafka.cli.program import main

__all__ = ["main"]
