"""A server of OAuth 2 (oauthlib's) that gives signed tokens to one client, and shows the key that proves them."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import rsa
from oauthlib.oauth2 import BackendApplicationServer, RequestValidator
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.waiting import until

CLIENT_ID, CLIENT_SECRET = "pipeline-client", "secret-of:the client%1"
AUDIENCE, SCOPE, SUBJECT = "kafka-brokers", "kafka.read", "ann"
LIFETIME_S = 600
_KEY_ID = "key-of-the-test"


class _OneClient(RequestValidator):  # type: ignore[misc]
    """Knows one client, which logs in by the header, and one scope."""

    def authenticate_client(self, request: Any, *_: Any, **__: Any) -> bool:
        scheme, login = request.headers.get("Authorization", " ").split(" ", 1)
        client_id, secret = base64.b64decode(login).decode().split(":", 1)
        request.client = SimpleNamespace(client_id=client_id)
        return (scheme, client_id, secret) == ("Basic", CLIENT_ID, CLIENT_SECRET)

    def validate_grant_type(self, _id: str, grant_type: str, *_: Any, **__: Any) -> bool:
        return grant_type == "client_credentials"

    def get_default_scopes(self, *_: Any, **__: Any) -> list[str]:
        return [SCOPE]

    def validate_scopes(self, _id: str, scopes: list[str], *_: Any, **__: Any) -> bool:
        return scopes == [SCOPE]

    def save_bearer_token(self, *_: Any, **__: Any) -> None:
        pass


@dataclass(slots=True, kw_only=True)
class TokenServer:
    """The server, and what it has been asked.

    Attributes:
        url: of the token endpoint.
        keys_url: of the public key (JWKS).
        audience: for whom the next tokens are.
        given: the tokens, in order.
        answers: sent in the place of what is asked for, one after the other: status and body.
    """

    url: str = ""
    keys_url: str = ""
    audience: str = AUDIENCE
    given: list[str] = field(default_factory=list)
    answers: list[tuple[int, bytes]] = field(default_factory=list)


@contextmanager
def token_server() -> Iterator[TokenServer]:
    """A server on loopback, for the block."""
    told = TokenServer()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def token(_request: Any) -> str:
        now = int(time.time())
        claims = {"sub": SUBJECT, "aud": told.audience, "iss": "the-test", "iat": now - 10, "exp": now + LIFETIME_S}
        told.given.append(jwt.encode({**claims, "scope": SCOPE}, key, algorithm="RS256", headers={"kid": _KEY_ID}))
        return told.given[-1]

    # oauthlib wants https; this is loopback.
    server = BackendApplicationServer(_OneClient(), token_generator=token, token_expires_in=LIFETIME_S)

    async def endpoint(request: Request) -> Response:
        if told.answers:
            status, answer = told.answers.pop(0)
            return Response(answer, status, headers={"Location": told.keys_url})
        body = (await request.body()).decode()
        secure = str(request.url).replace("http:", "https:")
        headers, content, status = server.create_token_response(
            secure, http_method=request.method, body=body, headers=dict(request.headers.items()) | _titled(request)
        )
        return Response(content, status, headers=headers)

    async def keys(_: Request) -> Response:
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
        return JSONResponse({"keys": [{**public, "kid": _KEY_ID, "use": "sig", "alg": "RS256"}]})

    routes = [Route("/token", endpoint, methods=["GET", "POST"]), Route("/keys", keys)]
    with served(Starlette(routes=routes)) as port:
        told.url, told.keys_url = f"http://127.0.0.1:{port}/token", f"http://127.0.0.1:{port}/keys"
        yield told


def _titled(request: Request) -> dict[str, str]:
    """Names of headers as oauthlib looks them up."""
    return {name.title(): value for name, value in request.headers.items()}


@contextmanager
def served(application: Starlette) -> Iterator[int]:
    """The port of an application that is served on loopback, for the block."""
    server = uvicorn.Server(uvicorn.Config(application, host="127.0.0.1", port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until(lambda: server.started, "the token server does not start")
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
