"""The alerts and the board that are in deploy/ ask for metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
METRIC = re.compile(r"\b(?:directkafka|kafka)_[a-z_]+\b")


def names_that_there_are() -> set[str]:
    """Of the guide's two tables, which a test compares with what is told."""
    guide = (ROOT / "docs" / "guide" / "operations.md").read_text()
    named = {*re.findall(r"`((?:directkafka|kafka)_[a-z_]+)`", guide), "kafka_consumergroup_group_max_lag_seconds"}
    return named | {f"{name}_{part}" for name in named for part in ("sum", "count", "bucket")}


@pytest.mark.parametrize("file", ["alerts.yml", "alerts_test.yml", "grafana.json"])
def test_only_metrics_that_there_are_are_asked_for(file: str) -> None:
    asked = set(METRIC.findall((DEPLOY / file).read_text()))
    assert len(asked) >= 7
    assert sorted(asked - names_that_there_are()) == []


def test_every_alert_is_explained_in_the_guide() -> None:
    alerts = re.findall(r"- alert: (\w+)", (DEPLOY / "alerts.yml").read_text())
    guide = (ROOT / "docs" / "guide" / "operations.md").read_text()
    assert len(alerts) == 6
    assert [alert for alert in alerts if f"| `{alert}` |" not in guide] == []


def test_panels_of_the_board_do_not_lie_on_each_other_and_fill_its_width() -> None:
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    cells = [
        (x, y)
        for rectangle in (panel["gridPos"] for panel in panels)
        for x in range(rectangle["x"], rectangle["x"] + rectangle["w"])
        for y in range(rectangle["y"], rectangle["y"] + rectangle["h"])
    ]
    assert len(cells) == len(set(cells)) == 24 * (1 + max(y for _, y in cells))
