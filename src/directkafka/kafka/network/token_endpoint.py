"""A token from an endpoint of OAuth 2, by the grant ``client_credentials`` (RFC 6749, section 4.4).

As Kafka's ``HttpJwtRetriever`` asks for it: the client's id and secret in the header, scope and grant in the body.
Nothing that the server says is shown but its error code, and no secret is sent where a redirect leads.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import urllib.error
import urllib.request
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay, wait_exponential

from directkafka.errors import OptionError
from directkafka.options.security.oauthbearer import CLIENT_ID, TOKEN_ENDPOINT, TokenEndpoint
from directkafka.options.spec import Secret

_OPTION: Final = f"kafka.{TOKEN_ENDPOINT.name}"

#: How long the endpoint may be silent, and after what time no further try is begun, in seconds. A connection to Kafka
#: waits meanwhile.
_TIMEOUT_S: Final = 5.0
_TRYING_S: Final = 5.0
_TRIES: Final = 3
_ANSWER_BYTES_MAX: Final = 1024 * 1024

#: RFC 6750, section 2.1; and RFC 6749, section 5.2.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_ERROR_CODE: Final = re.compile(r"[a-z_]{1,60}")

#: Of these a later try may end otherwise.
_RETRIABLE: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: urllib would send the header with the secret there."""

    def redirect_request(self, *_: Any) -> None:
        return None


def fetch_token(endpoint: TokenEndpoint) -> tuple[Secret, float]:
    """A token, and for how many seconds from now it is good: 0 where the endpoint does not say.

    Raises:
        OptionError: the endpoint refuses the client, its certificate is not trusted, or its answer has no token.
        ConnectionError: it fails at each of up to three tries.
    """
    tries = Retrying(
        retry=retry_if_exception_type(ConnectionError),
        stop=stop_after_attempt(_TRIES) | stop_after_delay(_TRYING_S),
        wait=wait_exponential(multiplier=0.1),
        reraise=True,
    )
    return _read(tries(_asked, endpoint), endpoint)


def _asked(endpoint: TokenEndpoint) -> bytes:
    request = urllib.request.Request(endpoint.url, data=_body(endpoint), headers=_headers(endpoint), method="POST")
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=_TIMEOUT_S) as answer:
            content: bytes = answer.read(_ANSWER_BYTES_MAX)
    except urllib.error.HTTPError as error:
        with error:
            told = _refusal(error, endpoint)
    except (OSError, HTTPException, UnicodeError) as error:
        told = _silence(getattr(error, "reason", error), endpoint)
    else:
        return content
    # Not behind the new error: Spark brings all that led to an error to the driver, headers included.
    raise told from None


def _silence(reason: object, endpoint: TokenEndpoint) -> Exception:
    if isinstance(reason, ssl.SSLCertVerificationError):
        told = f"{endpoint.shown} has a certificate that this system does not trust ({reason.verify_message})"
        remedy = "add its authority to the system's, or name a file of authorities in the variable SSL_CERT_FILE"
        return OptionError(option=_OPTION, reason=f"{told}; {remedy}")
    return ConnectionError(f"the token endpoint {endpoint.shown} does not answer: {reason}")


def _body(endpoint: TokenEndpoint) -> bytes:
    fields = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
    return urlencode(fields).encode()


def _headers(endpoint: TokenEndpoint) -> dict[str, str]:
    parts = (endpoint.client_id, endpoint.client_secret.reveal())
    login = ":".join(map(quote_plus, parts) if endpoint.is_url_encoded else parts)
    return {
        "Authorization": f"Basic {base64.b64encode(login.encode()).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }


def _refusal(error: urllib.error.HTTPError, endpoint: TokenEndpoint) -> Exception:
    told: Exception
    if error.code in _RETRIABLE or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        told = ConnectionError(f"the token endpoint {endpoint.shown} answers HTTP {error.code}")
        return told
    try:
        code = json.loads(error.read(_ANSWER_BYTES_MAX)).get("error")
    except (ValueError, AttributeError, OSError, HTTPException, RecursionError):
        code = None
    shown = f"{code}, " if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else ""
    reason = f"{endpoint.shown} refuses the client {endpoint.client_id!r} ({shown}HTTP {error.code}); compare "
    return OptionError(option=_OPTION, reason=f"{reason}kafka.{CLIENT_ID.name}, its secret and the scope")


def _read(content: bytes, endpoint: TokenEndpoint) -> tuple[Secret, float]:
    try:
        answer = json.loads(content)
        token, lifetime_s = answer["access_token"], answer.get("expires_in", 0)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        token, lifetime_s = None, 0
    if not (isinstance(token, str) and _TOKEN.fullmatch(token)):
        reason = f"{endpoint.shown} answers without an access_token, in {len(content)} bytes"
        raise OptionError(option=_OPTION, reason=reason)
    try:
        return Secret(token), max(0.0, float(lifetime_s))
    except (TypeError, ValueError, OverflowError):
        return Secret(token), 0.0
