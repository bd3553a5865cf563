"""The login of Amazon MSK: the signature beside botocore's own, the region, and what is said without an identity."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore import auth
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from kafka.net.sasl import get_sasl_mechanism, msk

from directkafka.errors import BrokerAccessError
from directkafka.kafka.network.auth_errors import connection_failure
from directkafka.kafka.network.logins import prepare_logins
from directkafka.options.client import ClientOptions

HOST = "b-1.demo.abc123.c2.kafka.eu-west-1.amazonaws.com"
OPTIONS = ClientOptions.from_kafka_params({"bootstrap.servers": f"{HOST}:9098", "security.preset": "aws-msk"})
RECORDED = "da80cb0a458eeada6ef7bdeb1db2831125638fffd9a5575940359f7ef5de225e"
ACCESS, SECRET, SESSION = "AKIDEXAMPLE", "secret-key-of-aws/+=", "session token/+="


class Then(datetime):
    """A moment that stays."""

    @classmethod
    def now(cls, tz: Any = None) -> Then:
        return cls(2026, 1, 2, 3, 4, 5, tzinfo=tz)


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials of this machine."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def first_message(host: str = HOST, profile: str | None = None) -> dict[str, str]:
    prepare_logins()
    config = {"security_protocol": "SASL_SSL", "sasl_plain_username": profile}
    message: dict[str, str] = json.loads(get_sasl_mechanism("AWS_MSK_IAM")(host=host, **config).auth_bytes())
    return message


def refusal(host: str = HOST, profile: str | None = None) -> BrokerAccessError:
    with pytest.raises(Exception) as caught:
        first_message(host, profile)
    told = connection_failure(caught.value, OPTIONS, (f"{host}:9098",), 500)
    assert isinstance(told, BrokerAccessError)
    assert "secret-key" not in str(told)
    return told


@pytest.mark.parametrize("token", [None, SESSION])
def test_the_signature_is_the_one_that_amazon_s_own_library_makes(
    monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    if token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    # Both at one moment, also where a second ends between them.
    monkeypatch.setattr(msk.datetime, "datetime", Then)
    monkeypatch.setattr(auth, "get_current_datetime", Then.now)
    message = first_message()
    theirs = signed_by_botocore(token)
    assert {name: [value] for name, value in message.items() if name.startswith("x-amz")} == theirs
    assert (message["version"], message["host"], message["action"]) == ("2020_10_22", HOST, "kafka-cluster:Connect")


def test_the_signature_is_the_one_that_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By botocore for these credentials and this moment: whatever both libraries become, it is AWS's algorithm."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setattr(msk.datetime, "datetime", Then)
    message = first_message()
    assert message["x-amz-date"] == "20260102T030405Z"
    assert message["x-amz-signature"] == RECORDED


def signed_by_botocore(token: str | None) -> dict[str, list[str]]:
    """The parameters of a URL that botocore signs."""

    class At(SigV4QueryAuth):  # type: ignore[misc]
        # The body of such a request is empty.
        def payload(self, _request: Any) -> str:
            return hashlib.sha256(b"").hexdigest()

    request = AWSRequest("GET", f"https://{HOST}/", params={"Action": "kafka-cluster:Connect"})
    signer = At(Credentials(ACCESS, SECRET, token), "kafka-cluster", "eu-west-1", expires=900)
    signer.add_auth(request)
    query = parse_qs(urlsplit(request.url).query)
    return {name.lower(): values for name, values in query.items() if name.lower().startswith("x-amz")}


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "eu-west-1"),
        ("boot-abc.c2.kafka-serverless.us-east-2.amazonaws.com", "us-east-2"),
        ("b-1.x.c1.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("my-proxy.example.org", "ap-south-1"),
    ],
)
def test_the_region_is_the_broker_s_and_the_environment_s_where_it_names_none(
    monkeypatch: pytest.MonkeyPatch, host: str, region: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    assert re.fullmatch(
        rf"{ACCESS}/\d{{8}}/{region}/kafka-cluster/aws4_request", first_message(host)["x-amz-credential"]
    )


def test_a_profile_s_credentials_are_used(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(f"[prod]\naws_access_key_id = AKIDOFPROD\naws_secret_access_key = {SECRET}\n")
    assert first_message(profile="prod")["x-amz-credential"].startswith("AKIDOFPROD/")
    assert "AWS has no credentials here (ProfileNotFound)" in str(refusal(profile="dev"))


def test_without_credentials_it_is_said_how_to_give_them() -> None:
    told = refusal()
    assert "AWS has no credentials here" in str(told)
    assert "awsProfileName" in told.remedy


def test_without_a_region_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert "localhost names no region, and AWS_REGION is not set" in str(refusal("localhost"))


def test_without_botocore_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    told = refusal()
    assert "AWS_MSK_IAM needs the package botocore" in str(told)
    assert "the extra aws" in told.remedy
