"""What deploy/ holds for Prometheus and Grafana, by Prometheus' own tool."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.real, pytest.mark.slow]

DEPLOY = Path(__file__).parents[3] / "deploy"


def test_the_rules_are_rules_and_each_fires_and_keeps_silent_as_it_should(promtool: Callable[..., Any]) -> None:
    for arguments in (
        ("check", "rules", str(DEPLOY / "alerts.yml")),
        ("test", "rules", str(DEPLOY / "alerts_test.yml")),
    ):
        completed = promtool(*arguments)
        assert (completed.returncode, "SUCCESS" in completed.stdout) == (0, True), completed.stdout + completed.stderr


def test_a_rule_that_is_made_blind_fails_its_test(promtool: Callable[..., Any], tmp_path: Path) -> None:
    rules = (DEPLOY / "alerts.yml").read_text()
    alerts = re.findall(r"- alert: (\w+)", rules)
    (tmp_path / "alerts_test.yml").write_text((DEPLOY / "alerts_test.yml").read_text())
    for alert in alerts:
        blind = re.sub(
            rf"(- alert: {alert}\n\s+expr:).*?(?=\n\s+(?:for|labels):)", r"\1 vector(0) > 1", rules, flags=re.DOTALL
        )
        assert blind != rules
        (tmp_path / "alerts.yml").write_text(blind)
        completed = promtool("test", "rules", str(tmp_path / "alerts_test.yml"))
        assert (completed.returncode, f"alertname: {alert}" in completed.stdout + completed.stderr) == (1, True)


def test_every_query_of_the_board_is_one(promtool: Callable[..., Any], tmp_path: Path) -> None:
    queries = [
        target["expr"].replace("$__rate_interval", "5m").replace("$pipeline", ".*")
        for panel in json.loads((DEPLOY / "grafana.json").read_text())["panels"]
        for target in panel["targets"]
    ]
    assert len(queries) >= 15
    # JSON is YAML.
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "board.yml").write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))
    completed = promtool("check", "rules", str(tmp_path / "board.yml"))
    assert (completed.returncode, f"SUCCESS: {len(queries)} rules found" in completed.stdout) == (0, True), (
        completed.stderr
    )
