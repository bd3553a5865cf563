"""The examples of the page about security are options that are understood."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from directkafka.options.client import ClientOptions

PAGE = Path(__file__).parents[4] / "docs" / "guide" / "security.md"
EXAMPLES = re.findall(r"```properties\n(.*?)```", PAGE.read_text(), re.DOTALL)


def settings(example: str) -> dict[str, str]:
    lines = [line for line in example.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.splitlines()[0])
def test_an_example_is_understood(example: str) -> None:
    given = {name.removeprefix("kafka."): value for name, value in settings(example).items()}
    options = ClientOptions.from_kafka_params({"bootstrap.servers": "b:9092", **given})
    chosen = (options.ssl_trust_store, options.ssl_key_store, options.sasl_password, options.sasl_token_callback)
    assert any(one is not None for one in chosen)


def test_the_page_has_an_example_of_each_way() -> None:
    text = PAGE.read_text()
    assert len(EXAMPLES) == 11
    named = {name for example in EXAMPLES for name in settings(example)}
    assert {f"kafka.{name}" for name in ("ssl.truststore.certificates", "ssl.keystore.key", "sasl.username")} <= named
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"):
        assert mechanism in text
