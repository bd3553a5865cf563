"""The client of a schema registry: requests of Confluent's REST API, tried again while the registry is away.

Schemas never change under their ids, so each is asked for once in a process, with what it refers to. That the registry
has no such schema is believed of the registry itself alone, by its own error code, and for some seconds: what a proxy
answers on the way says nothing about schemas. Nothing that the server says is shown but its own error message; no login
is sent where a redirect leads.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache, cached_property
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final, TypeVar
from urllib.parse import quote
from uuid import UUID

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay, wait_exponential

from directkafka.errors.registry import (
    RegistryAccessError,
    RegistryUnavailableError,
    SchemaNotFoundError,
    SchemaNotRegisteredError,
)
from directkafka.kafka.network.tls import make_context
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
_CAUSE_LENGTH_MAX: Final = 300
#: Schemas that one schema may bring with it.
_REFERENCES_MAX: Final = 1000
_CONTENT: Final = "application/vnd.schemaregistry.v1+json"
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
#: References in one another.
_REFERENCES_DEPTH_MAX: Final = 50
_REFUSED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED})
#: A schema that is not compatible with those before it, or is none.
_NOT_TAKEN: Final = frozenset({HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY})
#: The registry's own codes: no such subject, version or schema.
_NOT_FOUND: Final = frozenset({40401, 40402, 40403})
_NUMBER_MAX: Final = (1 << 31) - 1
#: How long it is believed that the registry does not have a schema, in seconds.
_MISSED_S: Final = 5.0
#: Of the contexts of a registry the one whose schemas are asked for by their numbers.
_DEFAULT_CONTEXT: Final = "."

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as a registry has it.

    Attributes:
        id: its number in the registry.
        type: ``AVRO``, ``PROTOBUF`` or ``JSON``.
        texts: the texts of the schemas that it refers to, each behind those that it refers to itself; its own last.
        names: by which each of them is referred to; its own is empty.
    """

    id: int
    type: str
    texts: tuple[str, ...]
    names: tuple[str, ...]


class RegistryClient:
    """Asks one registry, in one process.

    Args:
        registry: where it is, and who asks.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._by_id: dict[int, RegisteredSchema] = {}
        self._ids: dict[UUID, int] = {}
        self._missed: dict[object, tuple[float, SchemaNotFoundError]] = {}

    def schema(self, number: int) -> RegisteredSchema:
        """The schema that records name by a number.

        Raises:
            SchemaNotFoundError: the registry does not have it.
            RegistryUnavailableError: it does not answer.
            RegistryAccessError: it refuses.
        """
        path, wanted = f"/schemas/ids/{number}", f"schema {number}"
        return self._once(self._by_id, number, lambda: self._registered(self._get(path, wanted), number))

    def id_of_guid(self, guid: UUID) -> int:
        """The number of the schema that records name by a GUID, in the registry's default context.

        Raises:
            SchemaNotFoundError: the registry does not have it, or only in other contexts.
            RegistryUnavailableError: it does not answer.
            RegistryAccessError: it refuses.
        """
        return self._once(self._ids, guid, lambda: self._id_of_guid(guid, f"the schema with the GUID {guid}"))

    def _id_of_guid(self, guid: UUID, wanted: str) -> int:
        answer = self._json(f"/schemas/guids/{guid}/ids", wanted, kind=list)
        try:
            numbers = {str(one["context"]): one for one in answer}
        except (TypeError, LookupError):
            raise self._malformed(f"its answer for {wanted} is none of a schema registry's") from None
        if _DEFAULT_CONTEXT in numbers:
            return self._number(numbers[_DEFAULT_CONTEXT], wanted)
        others = ", ".join(sorted(map(one_line, numbers)))[:_CAUSE_LENGTH_MAX]
        cause = f"it is in other contexts than the default one: {others}" if numbers else "no context has it"
        raise SchemaNotFoundError(registry=self._registry.shown, wanted=wanted, cause=cause)

    def _once(self, known: dict[Key, Found], key: Key, ask: Callable[[], Found]) -> Found:
        """What never changes is asked for once; that it is not there is believed for some seconds."""
        if key not in known:
            missed_at, missed = self._missed.get(key, (0.0, None))
            if missed is not None and time.monotonic() - missed_at < _MISSED_S:
                raise missed
            try:
                known[key] = ask()
            except SchemaNotFoundError as error:
                self._missed[key] = time.monotonic(), error
                raise
        return known[key]

    def version(self, subject: str, version: str) -> RegisteredSchema:
        """A version of a subject's schema.

        Args:
            subject: its name.
            version: its number, or ``latest``.

        Raises:
            SchemaNotFoundError: the registry does not have it.
            RegistryUnavailableError: it does not answer.
            RegistryAccessError: it refuses.
        """
        answer = self._version(subject, version)
        number = self._number(answer, f"the subject {subject}")
        found = self._registered(answer, number)
        self._by_id.setdefault(number, found)
        return found

    def id_of(self, subject: str, text: str, type: str, *, registers: bool) -> int:
        """The number under which a subject has a schema.

        Args:
            subject: its name.
            text: the schema.
            type: ``AVRO``, ``JSON`` or ``PROTOBUF``.
            registers: whether it is registered where the subject does not have it.

        Raises:
            SchemaNotRegisteredError: the subject does not have it, and it is not to be registered.
            RegistryUnavailableError: the registry does not answer.
            RegistryAccessError: it refuses, also since the schema is not compatible with those before it.
        """
        path = f"/subjects/{quote(subject, safe='')}"
        # What has no type is Avro's, to old registries as well.
        body = {"schema": text} | ({} if type == "AVRO" else {"schemaType": type})
        wanted = f"the schema for the subject {subject}"
        try:
            answer = self._json(f"{path}/versions" if registers else path, wanted, json.dumps(body).encode())
        except SchemaNotFoundError as error:
            raise SchemaNotRegisteredError(registry=error.registry, subject=subject, cause=error.cause) from None
        return self._number(answer, f"the subject {subject}")

    def _number(self, answer: dict[str, Any], wanted: str) -> int:
        number = answer.get("id")
        if type(number) is not int or not 0 <= number <= _NUMBER_MAX:
            raise self._malformed(f"its answer for {wanted} has no id")
        return number

    def _version(self, subject: str, version: str) -> dict[str, Any]:
        path = f"/subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}"
        return self._get(path, f"version {version} of the subject {subject}")

    def _registered(self, answer: dict[str, Any], number: int) -> RegisteredSchema:
        texts: dict[tuple[str, int], tuple[str, str]] = {}
        self._add_references(answer, texts, ())
        type_ = answer.get("schemaType") or "AVRO"
        return RegisteredSchema(
            number,
            str(type_),
            (*(text for _, text in texts.values()), _text(answer)),
            (*(name for name, _ in texts.values()), ""),
        )

    def _add_references(
        self, answer: dict[str, Any], texts: dict[tuple[str, int], tuple[str, str]], around: tuple[tuple[str, int], ...]
    ) -> None:
        """The schemas that a schema refers to, those first that they refer to themselves."""
        for name, subject, version in self._references(answer):
            key = subject, version
            if key in texts:
                continue
            if key in around or len(around) == _REFERENCES_DEPTH_MAX or len(texts) == _REFERENCES_MAX:
                raise self._malformed(
                    f"the references of its schemas go in a circle, or are more than {_REFERENCES_MAX}"
                )
            referred = self._version(key[0], str(key[1]))
            self._add_references(referred, texts, (*around, key))
            texts[key] = name, _text(referred)

    def _references(self, answer: dict[str, Any]) -> list[tuple[str, str, int]]:
        try:
            listed = answer.get("references") or []
            return [
                (str(reference["name"]), str(reference["subject"]), int(reference["version"])) for reference in listed
            ]
        except (ValueError, TypeError, LookupError):
            raise self._malformed("its references are none of a schema registry's") from None

    def _get(self, path: str, wanted: str) -> dict[str, Any]:
        """A document that has a schema."""
        answer: dict[str, Any] = self._json(path, wanted)
        try:
            _text(answer)
        except (TypeError, LookupError):
            raise self._malformed(f"its answer for {wanted} is none of a schema registry's") from None
        return answer

    def _json(self, path: str, wanted: str, body: bytes | None = None, *, kind: type = dict) -> Any:
        """A document, or a list; with a body, the answer to that."""
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
            answer = json.loads(content)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, kind):
            raise self._malformed(f"its answer for {wanted} is none of a schema registry's")
        return answer

    def _asked(self, path: str, wanted: str, body: bytes | None) -> bytes:
        """The answer of the first address that gives one.

        Raises:
            ConnectionError: none does.
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
                told = self._refusal(error, wanted, is_given=body is not None)
        except (OSError, HTTPException, UnicodeError) as error:
            told = self._silence(getattr(error, "reason", error))
        else:
            return content
        # Not behind the new error: Spark brings all that led to an error to the driver, headers included.
        raise told from None

    @cached_property
    def _opener(self) -> urllib.request.OpenerDirector:
        context = make_context(
            self._registry.trust_store, self._registry.key_store, check_hostname=self._registry.check_hostname
        )
        return urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=context))

    def _headers(self) -> dict[str, str]:
        registry, headers = self._registry, {"Accept": _ACCEPT}
        if registry.user is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(registry.user.reveal().encode()).decode()}"
        if registry.token is not None:
            headers["Authorization"] = f"Bearer {registry.token.reveal()}"
        return headers

    def _silence(self, reason: object) -> Exception:
        if isinstance(reason, ssl.SSLCertVerificationError):
            cause = f"its certificate is not trusted ({reason.verify_message})"
            option = self._registry.option.removesuffix("url") + "ssl.ca.location"
            remedy = f"Name its authority in {option}"
            return RegistryAccessError(registry=self._registry.shown, cause=cause, remedy=remedy)
        return ConnectionError(str(reason))

    def _refusal(self, error: urllib.error.HTTPError, wanted: str, *, is_given: bool) -> Exception:
        code, said = _own_words(error)
        cause = f"HTTP {error.code}{said}"
        if error.code in _REFUSED:
            option = self._registry.option.removesuffix("url") + BASIC.name
            remedy = f"Check {option}, or the token, and what it may read"
            return RegistryAccessError(registry=self._registry.shown, cause=cause, remedy=remedy)
        if code in _NOT_FOUND:
            return SchemaNotFoundError(registry=self._registry.shown, wanted=wanted, cause=cause)
        if is_given and error.code in _NOT_TAKEN:
            remedy = "Make the schema compatible with those that the subject has, or change what the subject asks for"
            return RegistryAccessError(registry=self._registry.shown, cause=cause, remedy=remedy)
        if error.code < HTTPStatus.BAD_REQUEST:
            return self._malformed(f"{cause}: it sends elsewhere, where the login must not go")
        # Also what a proxy says while the registry starts behind it.
        return ConnectionError(cause)

    def _malformed(self, cause: str) -> RegistryAccessError:
        remedy = f"Check that {self._registry.option} is the address of a registry's REST API"
        return RegistryAccessError(registry=self._registry.shown, cause=cause, remedy=remedy)


@cache
def client_of(registry: Registry) -> RegistryClient:
    """The client of this process for a registry, with all that it knows already.

    Args:
        registry: where it is, and who asks.
    """
    return RegistryClient(registry)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: urllib would send the header with the login there."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _read(answer: Any) -> bytes:
    """An answer's content, however slowly it comes, within the time of a try.

    Raises:
        ConnectionError: it is too long, or takes too long.
    """
    deadline, pieces, size = time.monotonic() + _TIMEOUT_S, [], 0
    while piece := answer.read1(_PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > _ANSWER_BYTES_MAX or time.monotonic() > deadline:
            raise ConnectionError(f"its answer is not whole after {size} bytes and {_TIMEOUT_S:g} s")
    return b"".join(pieces)


def _own_words(error: urllib.error.HTTPError) -> tuple[object, str]:
    """The registry's own code, and what it says, where that is its own JSON."""
    try:
        found = json.loads(_read(error))
        code, said = found["error_code"], found["message"]
    except (ValueError, TypeError, LookupError, OSError, HTTPException, RecursionError):
        return None, ""
    return code, f", {one_line(said)[:_CAUSE_LENGTH_MAX]}" if isinstance(said, str) else ""


def _text(answer: dict[str, Any]) -> str:
    found = answer["schema"]
    if not isinstance(found, str):
        raise TypeError("no text")
    return found
