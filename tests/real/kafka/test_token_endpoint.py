"""Tokens from a real server of OAuth 2: fetched, refused, tried again; and taken by a broker that checks signatures."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jwt
import pytest
from tests.real.kafka.logs import produce, read, task_for
from tests.real.secure_broker import add_topic, broker_count
from tests.real.token_server import (
    AUDIENCE,
    CLIENT_ID,
    CLIENT_SECRET,
    LIFETIME_S,
    SCOPE,
    SUBJECT,
    TokenServer,
    token_server,
)

from directkafka.errors import BrokerAccessError, BrokerUnreachableError, OptionError
from directkafka.kafka.network import oauth
from directkafka.kafka.network.oauth import bearer_token
from directkafka.kafka.network.token_endpoint import fetch_token
from directkafka.options.client import ClientOptions
from directkafka.options.security.oauthbearer import TokenEndpoint
from directkafka.options.spec import Secret
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

ENDPOINT_OPTION = "kafka.sasl.oauthbearer.token.endpoint.url"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenServer]:
    monkeypatch.setattr(oauth, "_kept", {})
    with token_server() as running:
        yield running


def endpoint(server: TokenServer, **chosen: object) -> TokenEndpoint:
    usual = {"url": server.url, "client_id": CLIENT_ID, "client_secret": Secret(CLIENT_SECRET), "scope": SCOPE}
    return TokenEndpoint(**{**usual, **chosen})


def refused(server: TokenServer, **chosen: object) -> str:
    with pytest.raises(OptionError) as caught:
        fetch_token(endpoint(server, **chosen))
    assert caught.value.option == ENDPOINT_OPTION
    whole = "".join(traceback.format_exception(caught.value))
    assert "secret-of" not in whole
    return str(caught.value)


def test_a_token_is_fetched_and_kept_for_as_long_as_it_is_good(server: TokenServer) -> None:
    source = endpoint(server)
    ages_s = iter([0.0, 0.7 * LIFETIME_S, 0.9 * LIFETIME_S, 0.9 * LIFETIME_S])
    tokens = [bearer_token(source, clock=lambda: next(ages_s)) for _ in range(3)]
    assert tokens == [server.given[0], server.given[0], server.given[1]]
    claims = jwt.decode(tokens[0], options={"verify_signature": False})
    assert (claims["sub"], claims["aud"]) == (SUBJECT, AUDIENCE)


def test_a_scope_need_not_be_named(server: TokenServer) -> None:
    assert fetch_token(endpoint(server, scope=""))[1] == LIFETIME_S


def test_a_client_that_is_refused_is_told_without_its_secret(server: TokenServer) -> None:
    told = refused(server, client_secret=Secret("secret-of-nobody"))
    assert f"refuses the client {CLIENT_ID!r} (invalid_client, HTTP 401)" in told
    assert "(invalid_scope, HTTP 400)" in refused(server, scope="kafka.write")


def test_a_server_that_is_busy_is_asked_again(server: TokenServer) -> None:
    server.answers += [(503, b"later"), (429, b"slowly")]
    assert fetch_token(endpoint(server))[0] == Secret(server.given[0])


def test_a_server_that_stays_busy_or_is_not_there_may_answer_later(server: TokenServer) -> None:
    server.answers += [(503, b"later")] * 3
    with pytest.raises(ConnectionError, match="answers HTTP 503"):
        fetch_token(endpoint(server))
    with pytest.raises(ConnectionError, match=r"does not answer: .*refused"):
        fetch_token(endpoint(server, url="http://127.0.0.1:9/token"))


def test_a_redirect_is_not_followed(server: TokenServer) -> None:
    server.answers += [(302, b"")]
    assert "HTTP 302" in refused(server)
    assert server.given == []


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"token",
        b"[]",
        b'{"access_token": 7}',
        b'{"access_token": ""}',
        b'{"access_token": "a\\u0001auth=Bearer b"}',
        b"[" * 100_000,
        b'{"token": "hunter2"}',
    ],
)
def test_an_answer_without_a_token_is_told_and_not_shown(server: TokenServer, answer: bytes) -> None:
    server.answers += [(200, answer)]
    told = refused(server)
    assert f"answers without an access_token, in {len(answer)} bytes" in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    ("lifetime", "lifetime_s"), [("null", 0.0), ('"60"', 60.0), ("-5", 0.0), ('"soon"', 0.0), ("NaN", 0)]
)
def test_a_token_without_a_usable_end_is_not_kept(server: TokenServer, lifetime: str, lifetime_s: float) -> None:
    server.answers += [(200, b'{"access_token": "abc", "expires_in": %s}' % lifetime.encode())]
    assert fetch_token(endpoint(server)) == (Secret("abc"), lifetime_s)


# Against a broker that checks the signature with the server's key.


@pytest.fixture(scope="module")
def of_broker() -> Iterator[TokenServer]:
    with token_server() as running:
        yield running


@pytest.fixture(scope="module")
def broker(of_broker: TokenServer) -> Iterator[KafkaBroker]:
    of_listener = "listener.name.signed"
    config = {
        f"{of_listener}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{of_listener}.oauthbearer.sasl.jaas.config": f"{MODULE} required;",
        f"{of_listener}.oauthbearer.sasl.server.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        f"{of_listener}.sasl.oauthbearer.jwks.endpoint.url": of_broker.keys_url,
        f"{of_listener}.sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={of_broker.keys_url}"
    listeners = {"PLAINTEXT": "PLAINTEXT", "SIGNED": "SASL_PLAINTEXT"}
    with KafkaBroker(listeners=listeners, config=config, jvm_options=(allowed,)) as started:
        yield started


@pytest.fixture
def options(
    broker: KafkaBroker, of_broker: TokenServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> ClientOptions:
    """As they stand in a job of Java's: the login in JAAS, the secret in a file."""
    monkeypatch.setattr(oauth, "_kept", {})
    monkeypatch.setattr(of_broker, "audience", AUDIENCE)
    (tmp_path / "login.properties").write_text(f"secret={CLIENT_SECRET}\n")
    secret = f"${{file:{tmp_path}/login.properties:secret}}"
    login = f'clientId="{CLIENT_ID}" clientSecret="{secret}" scope="{SCOPE}" extension_logicalCluster="lkc1"'
    return ClientOptions.from_kafka_params(
        {
            "bootstrap.servers": broker.addresses("SIGNED"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{MODULE} required {login};",
            "sasl.oauthbearer.token.endpoint.url": of_broker.url,
            "sasl.login.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
            "config.providers": "file",
        }
    )


@pytest.mark.slow
def test_a_broker_takes_the_token_of_both_kinds_of_connections(
    broker: KafkaBroker, of_broker: TokenServer, options: ClientOptions
) -> None:
    topic = add_topic(broker, "signed")
    produce(broker.bootstrap_servers, topic, [b"value"] * 10)
    of_broker.given.clear()
    assert broker_count(options) == 1
    assert len(read(task_for(options, topic, 0, 10))) == 10
    assert len(of_broker.given) == 1


@pytest.mark.slow
def test_a_token_for_somebody_else_is_refused_and_not_used_again(
    of_broker: TokenServer, options: ClientOptions
) -> None:
    of_broker.audience = "another-service"
    with pytest.raises(BrokerAccessError) as caught:
        broker_count(options)
    told = str(caught.value)
    assert "sasl.oauthbearer.expected.audience" in told
    assert not any(token in told for token in of_broker.given)
    of_broker.audience = AUDIENCE
    assert broker_count(options) == 1


@pytest.mark.slow
def test_an_endpoint_that_is_away_leaves_the_broker_unreachable_for_now(
    of_broker: TokenServer, options: ClientOptions
) -> None:
    of_broker.answers += [(503, json.dumps({"error": "busy"}).encode())] * 1_000
    with pytest.raises(BrokerUnreachableError, match=r"token endpoint .* answers HTTP 503"):
        broker_count(replace(options, connect_timeout_ms=1_000))
    of_broker.answers.clear()
    assert broker_count(options) == 1
