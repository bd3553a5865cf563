"""SASL settings as Java and librdkafka spell them."""

from __future__ import annotations

import pytest

from directkafka.errors import OptionError
from directkafka.options.client import ClientOptions
from directkafka.options.spec import Secret

PLAIN = {"bootstrap.servers": "b:9092"}
SASL = {**PLAIN, "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
TOKEN = {**PLAIN, "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
CALLBACK = "sasl.oauthbearer.token.callback"


def parse(params: dict[str, str]) -> ClientOptions:
    return ClientOptions.from_kafka_params({**PLAIN, **params})


def refused(params: dict[str, str]) -> OptionError:
    with pytest.raises(OptionError) as caught:
        parse(params)
    return caught.value


@pytest.mark.parametrize(
    ("jaas", "password"),
    [
        (f'{SCRAM} required username="ann" password="pw";', "pw"),
        (f"  {SCRAM}  required\n  username='ann'\n  password='p w;\"x'  ;\n", 'p w;"x'),
        (f'{SCRAM} required username="ann" password="a\\"b\\\\c" ;', 'a"b\\c'),
        (f'kafkashaded.{SCRAM} REQUIRED password=plain username=ann tokenauth="false";', "plain"),
    ],
)
def test_a_jaas_entry_gives_name_and_password(jaas: str, password: str) -> None:
    options = parse({**SASL, "sasl.jaas.config": jaas})
    assert options.sasl_username == "ann"
    assert options.sasl_password == Secret(password)
    assert options.sasl_mechanism == "SCRAM-SHA-512"


@pytest.mark.parametrize(
    ("jaas", "reason"),
    [
        (f'{SCRAM} required username="ann" password="s3cret"', "cannot be parsed"),
        (f'{SCRAM} optional username="ann" password="s3cret";', "cannot be parsed"),
        (f'{SCRAM} required username="ann" password="s3cret;', "cannot be parsed"),
        ('x.PlainLoginModule required username="ann" password="s3cret";', "SCRAM-SHA-512 needs ScramLoginModule"),
        (f'{SCRAM} required username="ann" password="s3cret" tokenauth="true";', "delegation tokens"),
        (f'{SCRAM} required username="s3cret";', "needs a name and a password"),
    ],
)
def test_a_jaas_entry_that_does_not_fit_is_refused_without_showing_it(jaas: str, reason: str) -> None:
    error = refused({**SASL, "sasl.jaas.config": jaas})
    assert reason in error.reason
    assert "s3cret" not in str(error)


def test_librdkafkas_names_for_a_login_are_understood() -> None:
    options = parse(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "plain", "sasl.username": "a", "sasl.password": "b"}
    )
    assert (options.sasl_mechanism, options.sasl_username, options.sasl_password) == ("PLAIN", "a", Secret("b"))


@pytest.mark.parametrize(
    ("mechanism", "reason"),
    [
        ({"sasl.mechanism": "x"}, "X is not supported; use one of {supported}"),
        ({}, "is required with SASL: one of {supported}. Kafka's default, GSSAPI, counts where sasl.kerberos."),
        ({"sasl.jaas.config": f"{SCRAM} required;"}, "is required with SASL: one of {supported}."),
    ],
)
def test_a_mechanism_that_is_not_supported_or_not_given_is_refused_with_those_that_are(
    mechanism: dict[str, str], reason: str
) -> None:
    error = refused({**PLAIN, "security.protocol": "SASL_SSL", **mechanism})
    assert error.option == "sasl.mechanism"
    supported = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM, GSSAPI"
    assert error.reason.startswith(reason.format(supported=supported))


def test_a_function_gives_the_token_and_no_name_or_password_is_needed() -> None:
    jaas = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    for more in ({}, {"sasl.jaas.config": jaas}):
        options = parse({**TOKEN, CALLBACK: "company.kafka_tokens:token", **more})
        assert (options.sasl_mechanism, options.sasl_token_source) == ("OAUTHBEARER", "company.kafka_tokens:token")
        assert (options.sasl_username, options.sasl_password) == (None, None)


@pytest.mark.parametrize("callback", ["token", "module:", ":token", "a b:token", "module:1", "m:f:g", "m.:f", "m:f()"])
def test_what_does_not_name_a_function_is_refused(callback: str) -> None:
    error = refused({**TOKEN, CALLBACK: callback})
    assert (error.option, "expected module:function" in error.reason) == (CALLBACK, True)


def test_tokens_without_a_function_are_refused_with_its_option() -> None:
    error = refused(TOKEN)
    assert error.option == "sasl.mechanism"
    assert CALLBACK in error.reason


def test_a_jaas_entry_of_another_login_is_refused() -> None:
    error = refused({**TOKEN, CALLBACK: "m:f", "sasl.jaas.config": f'{SCRAM} required username="a" password="s3cret";'})
    assert "OAUTHBEARER needs OAuthBearerLoginModule" in error.reason
    assert "s3cret" not in str(error)


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_a_login_that_can_be_listened_to_is_warned_of_once(mechanism: str, caplog: pytest.LogCaptureFixture) -> None:
    login = {"PLAIN": {"sasl.username": "a", "sasl.password": "b"}, "OAUTHBEARER": {CALLBACK: "m:f"}}
    params = {"bootstrap.servers": "b:9092", "sasl.mechanism": mechanism, **login[mechanism]}
    for protocol in ("SASL_SSL", "SASL_PLAINTEXT", "SASL_PLAINTEXT"):
        ClientOptions.from_kafka_params({**params, "security.protocol": protocol})
    assert ["whoever can listen" in message for message in caplog.messages] == [True]


def test_scram_may_be_listened_to(caplog: pytest.LogCaptureFixture) -> None:
    login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "a", "sasl.password": "b"}
    ClientOptions.from_kafka_params({"bootstrap.servers": "b:9092", "security.protocol": "SASL_PLAINTEXT", **login})
    assert not caplog.messages


def test_a_second_way_to_log_in_is_named_as_ignored(caplog: pytest.LogCaptureFixture) -> None:
    jaas = 'PlainLoginModule required username="a" password="b";'
    login = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas, "sasl.username": "c", CALLBACK: "m:f"}
    ClientOptions.from_kafka_params({"bootstrap.servers": "b:9092", "security.protocol": "SASL_SSL", **login})
    assert caplog.messages == [
        "ignored: sasl.oauthbearer.token.callback (PLAIN has no token)",
        "ignored: sasl.username (the login is in sasl.jaas.config)",
    ]


def test_the_identity_of_aws_needs_no_password_and_may_have_a_profile() -> None:
    iam = {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}
    module = "software.amazon.msk.auth.iam.IAMLoginModule"
    assert parse(iam).sasl_aws_profile is None
    assert parse({**iam, "sasl.jaas.config": f"{module} required;"}).sasl_aws_profile is None
    profile = f'{module} required awsProfileName="prod" awsDebugCreds=true;'
    assert parse({**iam, "sasl.jaas.config": profile}).sasl_aws_profile == "prod"


@pytest.mark.parametrize(
    ("params", "option", "reason"),
    [
        ({"security.protocol": "SASL_PLAINTEXT"}, "security.protocol", "AWS_MSK_IAM needs SASL_SSL"),
        (
            {"sasl.jaas.config": 'IAMLoginModule required awsRoleArn="arn:aws:iam::1:role/r" awsStsRegion="x";'},
            "sasl.jaas.config",
            "has awsRoleArn, awsStsRegion; write them into a profile",
        ),
        ({"sasl.jaas.config": "IAMLoginModule"}, "sasl.jaas.config", "expected 'IAMLoginModule required;'"),
    ],
)
def test_an_identity_of_aws_that_cannot_be_used_is_refused(params: dict[str, str], option: str, reason: str) -> None:
    error = refused({"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM", **params})
    assert error.option == option
    assert reason in error.reason
