"""Tokens of clouds by their own libraries, each of which asks a server on this machine in the place of the cloud's."""

from __future__ import annotations

import base64
import json
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.real.token_server import served

from directkafka.errors import OptionError
from directkafka.kafka.network.cloud_tokens import cloud_token
from directkafka.options.security.oauthbearer import CloudIdentity

pytestmark = pytest.mark.real

SCOPE = "https://ns.servicebus.windows.net/.default"
AZURE, GCP = CloudIdentity(provider="azure", scope=SCOPE), CloudIdentity(provider="gcp")
ACCOUNT = "job@project.iam.gserviceaccount.com"
LIFETIME_S = 3_000


@pytest.fixture
def asked() -> list[Request]:
    return []


@pytest.fixture
def cloud(asked: list[Request], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """This machine has an identity in both clouds."""

    async def token(request: Request) -> JSONResponse:
        asked.append(request)
        ends_at = int(time.time()) + LIFETIME_S
        answer = {"access_token": "secret-token", "token_type": "Bearer", "expires_in": LIFETIME_S}
        return JSONResponse({**answer, "expires_on": str(ends_at), "resource": "x"})

    with served(Starlette(routes=[Route("/token", token, methods=["GET", "POST"])])) as port:
        address = f"http://127.0.0.1:{port}/token"
        monkeypatch.setenv("IDENTITY_ENDPOINT", address)
        monkeypatch.setenv("IDENTITY_HEADER", "header-of-the-app")
        account = tmp_path / "account.json"
        account.write_text(json.dumps(service_account(address)))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
        yield


def service_account(address: str) -> dict[str, str]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return {
        "type": "service_account",
        "project_id": "project",
        "private_key_id": "1",
        "private_key": key.private_bytes(*form).decode(),
        "client_email": ACCOUNT,
        "token_uri": address,
    }


@pytest.mark.usefixtures("cloud")
def test_azure_gives_a_token_for_the_namespace(asked: list[Request]) -> None:
    token, lifetime_s = cloud_token(AZURE)
    assert token.reveal() == "secret-token"
    assert lifetime_s == pytest.approx(LIFETIME_S, abs=30)
    assert asked[0].query_params["resource"] == "https://ns.servicebus.windows.net"


@pytest.mark.usefixtures("cloud")
def test_google_s_token_is_wrapped_as_its_brokers_take_it() -> None:
    token, lifetime_s = cloud_token(GCP)
    assert lifetime_s == pytest.approx(LIFETIME_S, abs=30)
    header, claims, inner = (base64.urlsafe_b64decode(part + "==").decode() for part in token.reveal().split("."))
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    parsed_claims = json.loads(claims)
    assert (parsed_claims["iss"], parsed_claims["scope"], parsed_claims["sub"]) == ("Google", "kafka", ACCOUNT)
    assert parsed_claims["exp"] - parsed_claims["iat"] == pytest.approx(LIFETIME_S, abs=30)
    assert inner == "secret-token"


@pytest.mark.parametrize(("identity", "package"), [(AZURE, "azure.identity"), (GCP, "google.auth")])
def test_a_library_that_is_missing_is_named_with_the_extra(
    identity: CloudIdentity, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(OptionError) as caught:
        cloud_token(identity)
    assert f"install directkafka with the extra {identity.provider}" in caught.value.reason


@pytest.mark.usefixtures("cloud")
def test_a_cloud_that_does_not_answer_may_answer_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "account.json").write_text(json.dumps(service_account("http://127.0.0.1:9/token")))
    with pytest.raises(ConnectionError, match=r"gcp's library gives no token \(TransportError\)"):
        cloud_token(GCP)


@pytest.mark.usefixtures("cloud")
def test_a_library_s_own_words_are_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "account.json").write_text('{"type": "service_account", "private_key": "hunter2"}')
    with pytest.raises(OptionError) as caught:
        cloud_token(GCP)
    assert "gives no token (" in caught.value.reason
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
