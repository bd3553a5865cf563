"""The examples of the pages about security and logins of clouds are options that are understood."""

from __future__ import annotations

import re
from pathlib import Path

import javaproperties
import pytest

from directkafka.options.client import ClientOptions

GUIDE = Path(__file__).parents[4] / "docs" / "guide"
PAGE = GUIDE / "security.md"
EXAMPLES = re.findall(r"```properties\n(.*?)```", PAGE.read_text(), re.DOTALL)
OF_CLOUDS = {
    page: re.findall(r"```properties\n(.*?)```", (GUIDE / f"{page}.md").read_text(), re.DOTALL)
    for page in ("aws-msk", "azure-event-hubs", "google-cloud")
}


def settings(example: str) -> dict[str, str]:
    return dict(javaproperties.loads(example))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.splitlines()[0])
def test_an_example_is_understood(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    given = {name.removeprefix("kafka."): value for name, value in settings(example).items()}
    options = ClientOptions.from_kafka_params({"bootstrap.servers": "b:9092", **given})
    chosen = (options.ssl_trust_store, options.ssl_key_store, options.sasl_password, options.sasl_token_source)
    assert (
        any(setting is not None for setting in (*chosen, options.sasl_kerberos))
        or options.sasl_mechanism == "AWS_MSK_IAM"
    )


@pytest.mark.parametrize(
    ("page", "number"), [(page, n) for page, examples in OF_CLOUDS.items() for n in range(len(examples))]
)
def test_an_example_of_a_cloud_s_page_is_the_same_login_as_its_first_or_another_one_that_is_whole(
    page: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    def parsed(example: str) -> ClientOptions:
        given = {name.removeprefix("kafka."): value for name, value in settings(example).items()}
        return ClientOptions.from_kafka_params(given)

    first, options = parsed(OF_CLOUDS[page][0]), parsed(OF_CLOUDS[page][number])
    assert options.security_protocol == first.security_protocol == "SASL_SSL"
    assert options.sasl_mechanism == first.sasl_mechanism or options.sasl_password is not None
    assert not caplog.messages


def test_the_page_has_an_example_of_each_way() -> None:
    text = PAGE.read_text()
    assert len(EXAMPLES) == 17
    named = {name for example in EXAMPLES for name in settings(example)}
    assert {f"kafka.{name}" for name in ("ssl.truststore.certificates", "ssl.keystore.key", "sasl.username")} <= named
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"):
        assert mechanism in text
