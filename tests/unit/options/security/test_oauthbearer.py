"""Where OAUTHBEARER's token comes from, as Kafka's Java clients of several ages and librdkafka write it."""

from __future__ import annotations

import pytest

from directkafka.errors import OptionError
from directkafka.options.client import ClientOptions
from directkafka.options.security.oauthbearer import CloudIdentity, TokenEndpoint
from directkafka.options.spec import Secret

TOKEN = {"bootstrap.servers": "b:9092", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
URL = {"sasl.oauthbearer.token.endpoint.url": "https://tokens.example.org/oauth2/token"}
ID = "sasl.oauthbearer.client.credentials.client.id"
SECRET = "sasl.oauthbearer.client.credentials.client.secret"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
EXPECTED = TokenEndpoint(
    url=URL["sasl.oauthbearer.token.endpoint.url"], client_id="job", client_secret=Secret("hunter2"), scope="read"
)


def parse(params: dict[str, str]) -> ClientOptions:
    return ClientOptions.from_kafka_params({**TOKEN, **params})


def refused(params: dict[str, str]) -> OptionError:
    with pytest.raises(OptionError) as caught:
        parse(params)
    assert "hunter2" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    "params",
    [
        {ID: "job", SECRET: "hunter2", "sasl.oauthbearer.scope": "read"},
        {
            "sasl.oauthbearer.client.id": "job",
            "sasl.oauthbearer.client.secret": "hunter2",
            "sasl.oauthbearer.scope": "read",
        },
        {"sasl.jaas.config": f'{MODULE} required clientId="job" clientSecret="hunter2" scope="read";'},
        {
            "sasl.jaas.config": f'{MODULE} required clientId="x" clientSecret="hunter2" scope="y";',
            ID: "job",
            "sasl.oauthbearer.scope": "read",
        },
    ],
)
def test_an_endpoint_s_client_is_understood_in_each_spelling(params: dict[str, str]) -> None:
    options = parse({**URL, **params})
    assert options.sasl_token_source == EXPECTED
    assert "hunter2" not in repr(options)


def test_extensions_come_from_java_s_way_and_librdkafka_s() -> None:
    jaas = f'{MODULE} required clientId="job" clientSecret="hunter2" extension_logicalCluster="lkc1";'
    both = {"sasl.jaas.config": jaas, "sasl.oauthbearer.extensions": "identityPoolId=pool-1,supportId=x=y"}
    extensions = parse({**URL, **both}).sasl_extensions
    assert extensions == (("logicalCluster", "lkc1"), ("identityPoolId", "pool-1"), ("supportId", "x=y"))
    jaas = f'{MODULE} required extension_logicalCluster="lkc1";'
    callback = {"sasl.jaas.config": jaas, "sasl.oauthbearer.token.callback": "m:f"}
    assert parse(callback).sasl_extensions == (("logicalCluster", "lkc1"),)


@pytest.mark.parametrize("extension", ["auth=Bearer x", "a-b=c", "a", "=b", "a=\u00e9", "a=b\u0001c"])
def test_an_extension_that_no_broker_takes_is_refused(extension: str) -> None:
    error = refused({"sasl.oauthbearer.token.callback": "m:f", "sasl.oauthbearer.extensions": extension})
    assert (error.option, "expected extensions NAME=VALUE" in error.reason) == ("sasl.oauthbearer.extensions", True)


def test_an_extension_s_value_is_not_shown() -> None:
    jaas = f'{MODULE} required clientId="job" clientSecret="x" extension_id_pool="hunter2";'
    error = refused({**URL, "sasl.jaas.config": jaas})
    assert (error.option, "'id_pool'" in error.reason) == ("sasl.jaas.config", True)


@pytest.mark.parametrize(
    ("params", "option", "reason"),
    [
        ({ID: "job"}, SECRET, "is required with sasl.oauthbearer.token.endpoint.url"),
        ({SECRET: "hunter2"}, ID, "is required with sasl.oauthbearer.token.endpoint.url"),
        (
            {"sasl.jaas.config": f'{MODULE} required clientId="job" clientSecret="hunter2" assertion="x";'},
            "sasl.jaas.config",
            "has assertion; known are clientId, clientSecret, scope and extension_NAME",
        ),
        (
            {"sasl.oauthbearer.token.callback": "m:f", ID: "job", SECRET: "hunter2"},
            "sasl.oauthbearer.token.callback",
            "give it or sasl.oauthbearer.token.endpoint.url, not both",
        ),
    ],
)
def test_a_part_that_is_missing_or_too_much_is_told(params: dict[str, str], option: str, reason: str) -> None:
    error = refused({**URL, **params})
    assert error.option == option
    assert reason in error.reason


def test_a_login_without_its_endpoint_is_told() -> None:
    jaas = f'{MODULE} required clientId="job" clientSecret="hunter2";'
    error = refused({"sasl.jaas.config": jaas, "sasl.oauthbearer.token.callback": "m:f"})
    assert error.reason == "has clientId, clientSecret, which need sasl.oauthbearer.token.endpoint.url"


@pytest.mark.parametrize(
    "url",
    [
        "tokens",
        "ftp://tokens/",
        "https://",
        "https://tokens:0/",
        "https://tokens:x/",
        "https://[::1/",
        "https://a b/",
        "https://t\u00f6kens/",
        "file:///token",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    error = refused({"sasl.oauthbearer.token.endpoint.url": url, ID: "job", SECRET: "hunter2"})
    assert (error.option, "expected an address" in error.reason) == ("sasl.oauthbearer.token.endpoint.url", True)


@pytest.mark.parametrize(
    "url", ["https://job:hunter2@tokens/", "https://job:hunter2@host:99999/", "https://a..hunter2/"]
)
def test_an_address_that_is_refused_is_not_shown_since_a_password_may_be_in_it(url: str) -> None:
    error = refused({"sasl.oauthbearer.token.endpoint.url": url, ID: "job", SECRET: "x"})
    assert error.option == "sasl.oauthbearer.token.endpoint.url"
    assert "hunter2" not in str(error)


def test_what_is_asked_in_an_address_is_not_shown() -> None:
    options = parse({"sasl.oauthbearer.token.endpoint.url": "https://tokens/a?key=hunter2", ID: "job", SECRET: "x"})
    assert isinstance(options.sasl_token_source, TokenEndpoint)
    assert options.sasl_token_source.shown == "https://tokens/a"
    assert "hunter2" not in repr(options)


def test_a_secret_that_would_go_out_in_the_clear_is_warned_of_unless_it_stays_on_the_machine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for host, count in (("127.0.0.1:8080", 0), ("tokens.example.org", 1)):
        parse({"sasl.oauthbearer.token.endpoint.url": f"http://{host}/token", ID: "job", SECRET: "hunter2"})
        assert ["is not https" in message for message in caplog.messages] == [True] * count


def test_a_cloud_s_own_library_may_give_the_token() -> None:
    scope = "https://ns.servicebus.windows.net/.default"
    azure = parse({"sasl.oauthbearer.token.provider": "azure", "sasl.oauthbearer.scope": scope})
    assert azure.sasl_token_source == CloudIdentity(provider="azure", scope=scope)
    assert parse({"sasl.oauthbearer.token.provider": "GCP"}).sasl_token_source == CloudIdentity(provider="gcp")
    error = refused({"sasl.oauthbearer.token.provider": "azure"})
    assert (error.option, "is required with" in error.reason) == ("sasl.oauthbearer.scope", True)


def test_what_belongs_to_an_endpoint_that_is_not_given_is_named_as_ignored(caplog: pytest.LogCaptureFixture) -> None:
    parse({"sasl.oauthbearer.token.callback": "m:f", "sasl.oauthbearer.scope": "read", ID: "job"})
    assert caplog.messages == [
        f"ignored: {ID}, sasl.oauthbearer.scope (they belong to sasl.oauthbearer.token.endpoint.url)"
    ]
