"""``directkafka demo``: the main promise, shown on this machine in about a minute."""

from __future__ import annotations

from directkafka.cli.demo.show import run_demo

__all__ = ["run_demo"]
