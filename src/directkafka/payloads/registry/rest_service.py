"""Requests of a schema registry's REST API, Confluent's, tried again while the registry is away.

That the registry has no such schema is believed of the registry itself alone, by its own error code: what a proxy
answers on the way says nothing about schemas. Of what the server says, only its own error message is shown. No login is
sent to where a redirect leads.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from functools import cached_property, partial
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay, wait_exponential

from directkafka.errors.registry import RegistryAccessError, RegistryUnavailableError, SchemaNotFoundError
from directkafka.kafka.network.tls import make_context
from directkafka.kafka.network.tls_errors import RemedyWords, tls_refusal
from directkafka.options.registry import BASIC, Registry
from directkafka.plain_text import one_line

#: How long one address may be silent, and after what time no further try is begun, in seconds.
_TIMEOUT_S: Final = 5.0
_TRYING_S: Final = 15.0
_TRIES: Final = 4
#: Before the second try; before each further one it is twice as long.
_WAIT_S: Final = 0.2
_ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
_PIECE_BYTES: Final = 64 * 1024
#: How many characters are shown of what a server says.
SERVER_TEXT_LENGTH_MAX: Final = 300
_CONTENT: Final = "application/vnd.schemaregistry.v1+json"
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_REFUSED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED})
#: A schema that is not compatible with those before it, or is none.
_NOT_TAKEN: Final = frozenset({HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY})
#: The registry's own codes: no such subject, version or schema.
_NOT_FOUND: Final = frozenset({40401, 40402, 40403})
_SERVER: Final = RemedyWords(
    without_tls="Begin its address with http://, or use that of its TLS listener",
    certificate="the registry",
    trusted="those that the registry trusts",
    handshake="the registry's protocols and ciphers",
)
_BY_GUID: Final = "/schemas/guids/"
#: A registry that knows no GUIDs has none of them. It says so by its own code as well.
_NOT_FOUND_BY_GUID: Final = _NOT_FOUND | {404}


class RestService:
    """Asks one registry.

    Args:
        registry: where it is, and who asks.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def document(self, path: str, wanted: str, body: bytes | None = None) -> dict[str, Any]:
        """The registry's answer.

        Args:
            path: of the request.
            wanted: what is asked for, as errors say it.
            body: of a POST request; else it is a GET.

        Raises:
            SchemaNotFoundError: the registry does not have it.
            RegistryUnavailableError: it does not answer.
            RegistryAccessError: it refuses, or its answer is no document.
        """
        answer = self._answer(path, wanted, body)
        if not isinstance(answer, dict):
            raise self.no_registry(wanted)
        return answer

    def documents(self, path: str, wanted: str) -> list[Any]:
        """The registry's answer where that is a list; for all else see :meth:`document`."""
        answer = self._answer(path, wanted, None)
        if not isinstance(answer, list):
            raise self.no_registry(wanted)
        return answer

    def no_registry(self, wanted: str) -> RegistryAccessError:
        """The error for an answer that no registry gives."""
        return self.malformed(f"its answer for {wanted} is none of a schema registry's")

    def malformed(self, cause: str) -> RegistryAccessError:
        """The error for what a registry does not say."""
        remedy = f"Check that {self._registry.option} is the address of a registry's REST API"
        return RegistryAccessError(registry=self._registry.shown, cause=cause, remedy=remedy)

    def _answer(self, path: str, wanted: str, body: bytes | None) -> object:
        """What the registry says; None if that is no JSON."""
        tries = Retrying(
            retry=retry_if_exception_type(ConnectionError),
            stop=stop_after_attempt(_TRIES) | stop_after_delay(_TRYING_S),
            wait=wait_exponential(multiplier=_WAIT_S),
            reraise=True,
        )
        try:
            content: bytes = tries(self._asked, path, wanted, body)
        except ConnectionError as error:
            raise RegistryUnavailableError(
                registry=self._registry.shown, wanted=wanted, cause=str(error), option=self._registry.option
            ) from None
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            return None

    def _asked(self, path: str, wanted: str, body: bytes | None) -> bytes:
        """The answer of the first address that gives one.

        Raises:
            ConnectionError: none does.
            SchemaNotFoundError: it does not have what is asked for.
            RegistryAccessError: it refuses, or its answer is too large.
        """
        silent = []
        for url in self._registry.urls:
            try:
                return self._asked_at(url, path, wanted, body)
            except ConnectionError as error:
                silent.append(str(error))
        raise ConnectionError("; ".join(silent))

    def _asked_at(self, url: str, path: str, wanted: str, body: bytes | None) -> bytes:
        told: Exception
        headers = self._headers() | ({} if body is None else {"Content-Type": _CONTENT})
        request = urllib.request.Request(url + path, data=body, headers=headers)
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                content = _read(answer)
        except urllib.error.HTTPError as error:
            with error:
                told = self._refusal(error, wanted, is_given=body is not None, is_by_guid=path.startswith(_BY_GUID))
        except _TooLargeError:
            told = self._too_large(wanted)
        except (OSError, HTTPException, UnicodeError) as error:
            told = self._connection_error(error.reason if isinstance(error, urllib.error.URLError) else error)
        else:
            return content
        # Not behind the new error: Spark brings all that led to an error to the driver, headers included.
        raise told from None

    @cached_property
    def _opener(self) -> urllib.request.OpenerDirector:
        context = make_context(
            self._registry.trust_store, self._registry.key_store, check_hostname=self._registry.check_hostname
        )
        return urllib.request.build_opener(_NoRedirects, _HTTPSHandler(context))

    def _headers(self) -> dict[str, str]:
        registry, headers = self._registry, {"Accept": _ACCEPT}
        if registry.user is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(registry.user.reveal().encode()).decode()}"
        if registry.token is not None:
            headers["Authorization"] = f"Bearer {registry.token.reveal()}"
        return headers

    def _too_large(self, wanted: str) -> RegistryAccessError:
        cause = f"its answer for {wanted} has more than {_ANSWER_BYTES_MAX} bytes"
        remedy = "Register a smaller schema; if only that of the columns is so large, give it yourself"
        return RegistryAccessError(registry=self._registry.shown, cause=cause, remedy=remedy)

    def _connection_error(self, reason: object) -> Exception:
        registry, refusal = self._registry, None
        if isinstance(reason, ssl.SSLError):
            prefix = registry.option.removesuffix("url")
            refusal = tls_refusal(reason, registry.trust_store, registry.key_store, server=_SERVER, prefix=prefix)
        if refusal is None:
            return ConnectionError(str(reason))
        return RegistryAccessError(registry=registry.shown, cause=refusal[0], remedy=refusal[1])

    def _refusal(self, error: urllib.error.HTTPError, wanted: str, *, is_given: bool, is_by_guid: bool) -> Exception:
        code, message = _own_words(error)
        cause = f"HTTP {error.code}{message}"
        if error.code in _REFUSED:
            option = self._registry.option.removesuffix("url") + BASIC.name
            remedy = f"Check {option}, or the token, and what it may read"
            return RegistryAccessError(registry=self._registry.shown, cause=cause, remedy=remedy)
        if code in (_NOT_FOUND_BY_GUID if is_by_guid else _NOT_FOUND):
            return SchemaNotFoundError(registry=self._registry.shown, wanted=wanted, cause=cause)
        if is_given and error.code in _NOT_TAKEN:
            remedy = "Make the schema compatible with those that the subject has, or change what the subject asks for"
            return RegistryAccessError(registry=self._registry.shown, cause=cause, remedy=remedy)
        if error.code < HTTPStatus.BAD_REQUEST:
            return self.malformed(f"{cause}: it sends elsewhere, where the login must not go")
        # Also what a proxy says while the registry starts behind it.
        return ConnectionError(cause)


class _TooLargeError(Exception):
    """An answer has more than ``_ANSWER_BYTES_MAX``."""


class _HTTPSConnection(HTTPSConnection):
    """A connection that says why a server has closed it before the request was sent.

    With TLS 1.3 the client's handshake ends before the server has looked at the client's certificate (RFC 8446, section
    4.4.2.4). A server that refuses it sends an alert that says why, and closes. If the client then cannot send its
    request, it reads the alert here.
    """

    def send(self, data: Any) -> None:
        try:
            super().send(data)
        except (ssl.SSLEOFError, ConnectionError):
            if isinstance(self.sock, ssl.SSLSocket):
                self.sock.recv(1)
            raise


class _HTTPSHandler(urllib.request.HTTPSHandler):
    """Opens each connection as an ``_HTTPSConnection``."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()
        self._tls_context = context

    def https_open(self, request: urllib.request.Request) -> HTTPResponse:
        response: HTTPResponse = self.do_open(partial(_HTTPSConnection, context=self._tls_context), request)
        return response


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: urllib would send the header with the login there."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _read(answer: Any) -> bytes:
    """An answer's content, however slowly it comes, within the time of a try.

    Raises:
        ConnectionError: it takes too long.
        _TooLargeError: it is too large, and would be at the next try.
    """
    deadline, pieces, size = time.monotonic() + _TIMEOUT_S, [], 0
    while piece := answer.read1(_PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > _ANSWER_BYTES_MAX:
            raise _TooLargeError
        if time.monotonic() > deadline:
            raise ConnectionError(f"its answer is not whole after {size} bytes and {_TIMEOUT_S:g} s")
    # ``read1`` tells of no end that came too early: of the length that was told, this is left.
    if missing := getattr(answer, "length", None):
        raise ConnectionError(f"its answer ended after {size} bytes, {missing} too early")
    return b"".join(pieces)


def _own_words(error: urllib.error.HTTPError) -> tuple[object, str]:
    """The registry's own code, and what it says, where that is its own JSON."""
    try:
        answer = json.loads(_read(error))
        code, message = answer["error_code"], answer["message"]
    except (ValueError, TypeError, LookupError, OSError, HTTPException, RecursionError, _TooLargeError):
        return None, ""
    return code, f", {one_line(message)[:SERVER_TEXT_LENGTH_MAX]}" if isinstance(message, str) else ""
