"""The client of a schema registry: what it has, asked for once.

Schemas never change under their ids, so each is asked for once, with what it refers to: by one of the processes that
Spark's JVM has on a machine, from which the others have it. New ones come all the time, and while the registry is away
they go on with what is known. That the registry does not have a schema is believed for some seconds.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote
from uuid import UUID

from directkafka.errors.registry import SchemaNotFoundError, SchemaNotRegisteredError
from directkafka.options.registry import Registry
from directkafka.options.spec import Secret
from directkafka.payloads.registry.known_answers import KnownAnswers
from directkafka.payloads.registry.rest_service import SERVER_TEXT_LENGTH_MAX, RestService
from directkafka.plain_text import one_line

#: Schemas that one schema may bring with it, and how deep they may refer to one another.
_REFERENCES_MAX: Final = 1000
_REFERENCES_DEPTH_MAX: Final = 50
_NUMBER_MAX: Final = (1 << 31) - 1
#: How long it is believed that the registry does not have a schema, in seconds.
_MISSED_S: Final = 5.0
_DEFAULT_CONTEXT: Final = "."
#: Ten milliseconds, once for each process and registry.
_DIGEST_ROUNDS: Final = 20_000
#: As the path of an address names another one.
_CONTEXT: Final = re.compile(r"/contexts/:?\.?([^/:]+):?(?:/|$)")

Key = TypeVar("Key", int, UUID)
Answer = TypeVar("Answer")


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

    @classmethod
    def load(cls, document: Mapping[str, Any]) -> Self:
        """The schema again that ``asdict`` has made a document of."""
        return cls(document["id"], document["type"], tuple(document["texts"]), tuple(document["names"]))


class RegistryClient:
    """Asks one registry, in one process.

    Args:
        registry: where it is, and who asks.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._service = RestService(registry)
        asked = _asked(registry)
        self._schemas = KnownAnswers[int, RegisteredSchema](f"schema {asked}", dump=asdict, load=RegisteredSchema.load)
        self._ids = KnownAnswers[UUID, int](f"GUID {asked}", dump=int, load=int)
        #: When, what was wanted, and why it is not there. No error: its traceback would keep a batch's memory.
        self._missed: dict[int | UUID, tuple[float, str, str]] = {}

    def schema(self, number: int) -> RegisteredSchema:
        """The schema that records name by a number.

        Raises:
            SchemaNotFoundError: the registry does not have it.
            RegistryUnavailableError: it does not answer.
            RegistryAccessError: it refuses.
        """
        path, wanted = f"/schemas/ids/{number}", f"schema {number}"
        return self._asked_once(self._schemas, number, lambda: self._registered(self._get(path, wanted), number))

    def id_of_guid(self, guid: UUID) -> int:
        """The number of the schema that records name by a GUID, in the context that the registry's address names.

        A schema has the same GUID in all contexts, and in each of them a number of its own, by which this client asks.

        Raises:
            SchemaNotFoundError: the registry does not have it, or only in other contexts, or knows no GUIDs.
            RegistryUnavailableError: it does not answer.
            RegistryAccessError: it refuses.
        """
        return self._asked_once(self._ids, guid, lambda: self._id_of_guid(guid, f"the schema with the GUID {guid}"))

    def knows(self, key: int | UUID) -> bool:
        """Whether this process knows what belongs to a number or a GUID. No file is opened: there may be many keys."""
        return key in self._schemas or key in self._ids

    def _id_of_guid(self, guid: UUID, wanted: str) -> int:
        answer = self._service.documents(f"/schemas/guids/{guid}/ids", wanted)
        try:
            numbers = {str(number["context"]): number for number in answer}
        except (TypeError, LookupError):
            raise self._service.no_registry(wanted) from None
        if self._context in numbers:
            return self._number(numbers[self._context], wanted)
        others = ", ".join(sorted(map(one_line, numbers)))[:SERVER_TEXT_LENGTH_MAX]
        cause = f"the context {self._context} does not have it, but {others}" if numbers else "no context has it"
        raise SchemaNotFoundError(registry=self._registry.shown, wanted=wanted, cause=cause)

    @cached_property
    def _context(self) -> str:
        match = _CONTEXT.search(self._registry.urls[0])
        return f".{match[1]}" if match else _DEFAULT_CONTEXT

    def _asked_once(self, known: KnownAnswers[Key, Answer], key: Key, ask: Callable[[], Answer]) -> Answer:
        """What never changes is asked for once; that it is not there is believed for some seconds."""
        now = time.monotonic()
        missed_at, wanted, cause = self._missed.get(key, (-_MISSED_S, "", ""))
        if now - missed_at < _MISSED_S and key not in known:
            raise SchemaNotFoundError(registry=self._registry.shown, wanted=wanted, cause=cause)
        if (answer := known.get(key)) is not None:
            return answer
        try:
            answer = ask()
        except SchemaNotFoundError as error:
            self._missed = {old: miss for old, miss in self._missed.items() if now - miss[0] < _MISSED_S}
            self._missed[key] = time.monotonic(), error.wanted, error.cause
            raise
        known.put(key, answer)
        return answer

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
        registered = self._registered(answer, number)
        self._schemas.put(number, registered)
        return registered

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
            answer = self._service.document(
                f"{path}/versions" if registers else path, wanted, json.dumps(body).encode()
            )
        except SchemaNotFoundError as error:
            raise SchemaNotRegisteredError(registry=error.registry, subject=subject, cause=error.cause) from None
        return self._number(answer, f"the subject {subject}")

    def _number(self, answer: dict[str, Any], wanted: str) -> int:
        number = answer.get("id")
        if type(number) is not int or not 0 <= number <= _NUMBER_MAX:
            raise self._service.malformed(f"its answer for {wanted} has no id")
        return number

    def _version(self, subject: str, version: str, *, with_deleted: bool = False) -> dict[str, Any]:
        path = f"/subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}"
        return self._get(path + "?deleted=true" * with_deleted, f"version {version} of the subject {subject}")

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
                raise self._service.malformed(
                    f"the references of its schemas go in a circle, or are more than {_REFERENCES_MAX}, or go deeper "
                    f"than {_REFERENCES_DEPTH_MAX}"
                )
            # Deleted ones too, as Confluent's clients do: what refers to them may be deleted as well, and in records.
            referred = self._version(key[0], str(key[1]), with_deleted=True)
            self._add_references(referred, texts, (*around, key))
            texts[key] = name, _text(referred)

    def _references(self, answer: dict[str, Any]) -> list[tuple[str, str, int]]:
        try:
            listed = answer.get("references") or []
            return [
                (str(reference["name"]), str(reference["subject"]), int(reference["version"])) for reference in listed
            ]
        except (ValueError, TypeError, LookupError):
            raise self._service.malformed("its references are none of a schema registry's") from None

    def _get(self, path: str, wanted: str) -> dict[str, Any]:
        """A document that has a schema."""
        answer = self._service.document(path, wanted)
        try:
            _text(answer)
        except (TypeError, LookupError):
            raise self._service.no_registry(wanted) from None
        return answer


@cache
def client_of(registry: Registry) -> RegistryClient:
    """The client of this process for a registry, with all that it knows already.

    Args:
        registry: where it is, and who asks.
    """
    return RegistryClient(registry)


def _asked(registry: Registry) -> str:
    """A digest of who is asked and by whom: who may see a schema is the registry's to say, to each login.

    It is slow to make, so that nobody who sees a file's name finds a password by trying many.
    """
    # What their options are called makes no other store.
    stores = [
        store and asdict(replace(store, setting="", prefix="")) for store in (registry.trust_store, registry.key_store)
    ]
    asked = [registry.urls, registry.user, registry.token, stores, registry.check_hostname]
    text = json.dumps(asked, default=Secret.reveal)
    return hashlib.pbkdf2_hmac("sha256", text.encode(), b"directkafka", _DIGEST_ROUNDS).hex()


def _text(answer: dict[str, Any]) -> str:
    schema = answer["schema"]
    if not isinstance(schema, str):
        raise TypeError("no text")
    return schema
