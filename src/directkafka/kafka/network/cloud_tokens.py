"""Tokens of OAUTHBEARER from the libraries of clouds: Microsoft's azure-identity, Google's google-auth.

Both find out by themselves who they run as: from the environment, a file, the machine's or the pod's identity.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from datetime import UTC
from typing import Any, Final

from directkafka.errors import OptionError
from directkafka.options.security.oauthbearer import TOKEN_PROVIDER, CloudIdentity
from directkafka.options.spec import Secret

_OPTION: Final = f"kafka.{TOKEN_PROVIDER.name}"
_GCP_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"


def cloud_token(identity: CloudIdentity) -> tuple[Secret, float]:
    """A token, and for how many seconds from now it is good.

    Raises:
        OptionError: the cloud's library is not installed, or finds no credentials. Its own words are not shown.
        ConnectionError: what gives tokens does not answer.
    """
    told: Exception
    try:
        return _TOKENS[identity.provider](identity.scope)
    except ModuleNotFoundError as error:
        reason = f"{identity.provider} needs a library on the driver and on every executor ({error.name} is missing): "
        told = OptionError(option=_OPTION, reason=f"{reason}install directkafka with the extra {identity.provider}")
    except Exception as error:  # noqa: BLE001 - each library has errors of its own, whose words may hold secrets
        words = f"{identity.provider}'s library gives no token ({type(error).__name__})"
        told = (
            ConnectionError(words)
            if _may_pass(error)
            else OptionError(option=_OPTION, reason=f"{words}; is there an identity here?")
        )
    raise told


def _may_pass(error: Exception) -> bool:
    """Whether nobody has answered, or somebody who asks to be asked again: google-auth's way to say it, and azure's."""
    names = {kind.__name__ for kind in type(error).__mro__}
    is_azure_s = bool(names & {"ServiceRequestError", "ServiceResponseError"})
    return is_azure_s or "TransportError" in names or bool(getattr(error, "retryable", False))


def _azure(scope: str) -> tuple[Secret, float]:
    from azure.identity import DefaultAzureCredential

    with DefaultAzureCredential(exclude_interactive_browser_credential=True) as credential:
        access_token = credential.get_token(scope)
    return Secret(access_token.token), access_token.expires_on - time.time()


def _gcp(scope: str) -> tuple[Secret, float]:
    """As Google's brokers take it: the token in the third part of what looks like a JWT.

    Source: ``GcpLoginCallbackHandler.java`` of ``managed-kafka-auth-login-handler``.
    """
    import google.auth
    from google.auth.transport.requests import Request

    credentials: Any
    credentials, _ = google.auth.default(scopes=[scope or _GCP_SCOPE])
    credentials.refresh(Request())
    now = time.time()
    # Of UTC, without saying so.
    expires_at = credentials.expiry.replace(tzinfo=UTC).timestamp()
    subject = getattr(credentials, "service_account_email", "") or "user"
    header = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    claims = {"exp": int(expires_at), "iat": int(now), "iss": "Google", "scope": "kafka", "sub": subject}
    parts = (json.dumps(header), json.dumps(claims), credentials.token)
    return Secret(".".join(_base64(part) for part in parts)), expires_at - now


def _base64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


_TOKENS: Final[dict[str, Callable[[str], tuple[Secret, float]]]] = {"azure": _azure, "gcp": _gcp}
