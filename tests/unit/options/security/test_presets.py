"""Logins of clouds in a word, and what each stands for."""

from __future__ import annotations

import pytest

from directkafka.errors import OptionError
from directkafka.options.client import ClientOptions
from directkafka.options.security.oauthbearer import CloudIdentity
from directkafka.options.spec import Secret

AZURE = {"bootstrap.servers": "ns.servicebus.windows.net:9093", "security.preset": "azure"}
CONNECTION = "Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=hunter2"


def parse(params: dict[str, str]) -> ClientOptions:
    return ClientOptions.from_kafka_params({"bootstrap.servers": "b:9092", **params})


def test_amazon_s_is_iam_over_tls() -> None:
    options = parse({"security.preset": "aws-msk"})
    assert (options.security_protocol, options.sasl_mechanism) == ("SASL_SSL", "AWS_MSK_IAM")


def test_azure_s_is_a_token_for_the_namespace_or_the_connection_string() -> None:
    by_token = parse(AZURE)
    scope = "https://ns.servicebus.windows.net/.default"
    assert (by_token.security_protocol, by_token.sasl_mechanism) == ("SASL_SSL", "OAUTHBEARER")
    assert by_token.sasl_token_source == CloudIdentity(provider="azure", scope=scope)
    by_string = parse({**AZURE, "sasl.password": CONNECTION})
    assert (by_string.security_protocol, by_string.sasl_mechanism) == ("SASL_SSL", "PLAIN")
    assert (by_string.sasl_username, by_string.sasl_password) == ("$ConnectionString", Secret(CONNECTION))
    jaas = f'PlainLoginModule required username="$ConnectionString" password="{CONNECTION}";'
    assert parse({**AZURE, "sasl.jaas.config": jaas}) == by_string


def test_google_s_is_a_token_of_its_own() -> None:
    options = parse({"security.preset": "gcp"})
    assert (options.security_protocol, options.sasl_mechanism) == ("SASL_SSL", "OAUTHBEARER")
    assert options.sasl_token_source == CloudIdentity(provider="gcp")


def test_what_is_given_itself_comes_before_a_preset() -> None:
    options = parse({"security.preset": "gcp", "sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b"})
    assert (options.security_protocol, options.sasl_mechanism) == ("SASL_SSL", "PLAIN")


@pytest.mark.parametrize(
    ("given", "mechanism"),
    [
        ({"security.preset": "aws-msk", "sasl.mechanisms": "SCRAM-SHA-512"}, "SCRAM-SHA-512"),
        ({"security.preset": "gcp", "sasl.mechanism": "plain"}, "PLAIN"),
    ],
)
def test_another_spelling_of_what_is_given_comes_before_a_preset_too(
    given: dict[str, str], mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = parse({**given, "sasl.username": "a", "sasl.password": "b"})
    assert (options.sasl_mechanism, options.sasl_username) == (mechanism, "a")
    assert not caplog.messages


def test_a_token_of_one_s_own_comes_before_the_cloud_s() -> None:
    for preset in ("azure", "gcp"):
        assert parse({"security.preset": preset, "sasl.oauthbearer.token.callback": "m:f"}).sasl_token_source == "m:f"


def test_the_scope_of_azure_is_the_host_however_the_address_is_written() -> None:
    for address in ("SASL_SSL://ns.servicebus.windows.net:9093", "ns.servicebus.windows.net:9093,other:9093"):
        options = parse({**AZURE, "bootstrap.servers": address})
        assert options.sasl_token_source == CloudIdentity(
            provider="azure", scope="https://ns.servicebus.windows.net/.default"
        )


def test_an_empty_login_of_java_s_oauthbearer_is_azure_s_too() -> None:
    jaas = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    assert parse({**AZURE, "sasl.jaas.config": jaas}).sasl_mechanism == "OAUTHBEARER"


def test_a_preset_beside_a_protocol_without_logins_is_refused() -> None:
    with pytest.raises(OptionError, match=r"SSL has no login, and security\.preset is one"):
        parse({"security.preset": "gcp", "security.protocol": "SSL"})


def test_the_profile_of_java_s_login_counts_and_its_role_is_refused() -> None:
    handler = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
    login = {"security.protocol": "SASL_SSL", "sasl.login.callback.handler.class": handler}
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    options = parse({**login, "sasl.jaas.config": f'{module} required awsProfileName="prod";'})
    assert (options.sasl_mechanism, options.sasl_aws_profile) == ("AWS_MSK_IAM", "prod")
    with pytest.raises(OptionError, match="has awsRoleArn; write them into a profile"):
        parse({**login, "sasl.jaas.config": f'{module} required awsRoleArn="arn:x";'})
    with pytest.raises(OptionError, match="takes a role"):
        parse({**login, "sasl.login.callback.handler.class": "a.b.STSAssumeRoleIAMClientCallbackHandler"})


def test_a_preset_that_is_not_known_is_refused() -> None:
    with pytest.raises(OptionError, match="expected one of aws-msk, azure, gcp, found 'aws'"):
        parse({"security.preset": "aws"})


@pytest.mark.parametrize(
    ("handler", "mechanism", "source"),
    [
        ("software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler", "AWS_MSK_IAM", None),
        ("com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler", "OAUTHBEARER", CloudIdentity(provider="gcp")),
    ],
)
def test_java_s_classes_of_clouds_are_understood(
    handler: str, mechanism: str, source: object, caplog: pytest.LogCaptureFixture
) -> None:
    jaas = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas}
    options = parse({**login, "sasl.login.callback.handler.class": handler})
    assert (options.sasl_mechanism, options.sasl_token_source) == (mechanism, source)
    assert not caplog.messages


def test_amazon_s_class_beside_its_own_mechanism_means_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    login = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    }
    assert parse(login).sasl_mechanism == "AWS_MSK_IAM"
    assert not caplog.messages


def test_a_class_that_is_not_known_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    parse({"sasl.login.callback.handler.class": "com.example.Handler"})
    assert ["sasl.login.callback.handler.class (it names Java code)" in message for message in caplog.messages] == [
        True
    ]
