"""What a registry is asked, and what becomes of answers that are none."""

from __future__ import annotations

import gc
import os
import socket
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.registry_server import NOT_FOUND, RegistryServer, running

from directkafka import jvm_files
from directkafka.errors.registry import (
    RegistryAccessError,
    RegistryUnavailableError,
    SchemaNotFoundError,
    SchemaNotRegisteredError,
)
from directkafka.options.registry import Registry
from directkafka.options.security.tls import KeyStore
from directkafka.options.spec import Secret
from directkafka.payloads.registry import client as module
from directkafka.payloads.registry import rest_service
from directkafka.payloads.registry.client import RegistryClient

FLIGHT = {"type": "record", "name": "Flight", "fields": [{"name": "leg", "type": "Leg"}]}
LEG = {"type": "record", "name": "Leg", "fields": [{"name": "at", "type": "Airport"}]}
AIRPORT = {"type": "enum", "name": "Airport", "symbols": ["IAH"]}


@pytest.fixture(autouse=True)
def _no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_service, "_WAIT_S", 0.01)


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with running() as registry_server:
        yield registry_server


def client_of(*urls: str, user: str = "", token: str = "") -> RegistryClient:
    return RegistryClient(
        Registry(
            urls=urls,
            option="value.registry.url",
            user=Secret(user) if user else None,
            token=Secret(token) if token else None,
        )
    )


def test_a_schema_is_asked_for_once(server: RegistryServer) -> None:
    server.add(7, "string")
    client = client_of(server.url)
    assert client.schema(7).texts == client.schema(7).texts == ('"string"',)
    assert client.schema(7).type == "AVRO"
    assert server.asked == ["/schemas/ids/7"]


def test_another_process_of_the_jvm_knows_what_one_has_asked_for_while_the_registry_is_away(
    server: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(jvm_files, "_jvm", os.getpid)
    leg = {"name": "Leg", "subject": "legs", "version": 2}
    server.add(7, FLIGHT, references=[leg])
    server.add_version("legs", "2", 5, LEG)
    server.answers[f"/schemas/guids/{GUID}/ids"] = 200, [{"id": 7, "context": "."}]
    first = client_of(server.url)
    asked = first.schema(7), first.id_of_guid(GUID)
    server.failures = 100
    second = client_of(server.url)
    assert (second.schema(7), second.id_of_guid(GUID)) == asked
    assert second.knows(7)
    assert second.knows(GUID)
    assert not second.knows(8)
    with pytest.raises(RegistryUnavailableError):
        second.schema(8)


def test_what_one_login_was_shown_is_not_shown_to_another_one(
    server: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(jvm_files, "_jvm", os.getpid)
    server.add(7, "string")
    client_of(server.url, user="ann:secret-word").schema(7)
    server.answers["/schemas/ids/7"] = 403, {"error_code": 403, "message": "no"}
    assert client_of(server.url, user="ann:secret-word").schema(7).id == 7
    keys = [KeyStore(type="PEM", setting="ssl.keystore.key", chain="c", key=Secret(key)) for key in ("k-1", "k-2")]
    others = [Registry(urls=(server.url,), option="value.registry.url", key_store=key) for key in keys]
    assert len({module._asked(other) for other in others}) == 2
    by_key = Registry(urls=(server.url,), option="key.registry.url", key_store=replace(keys[0], prefix="key.registry."))
    assert module._asked(by_key) == module._asked(replace(others[0], key_store=keys[0]))
    for other in (client_of(server.url, user="bob:secret-word"), client_of(server.url, token="t-1")):
        with pytest.raises(RegistryAccessError):
            other.schema(7)
    left = b"".join(path.read_bytes() + str(path).encode() for path in tmp_path.rglob("*") if path.is_file())
    assert b"secret-word" not in left


def test_a_version_brings_its_number_and_latest_is_asked_for_each_time(server: RegistryServer) -> None:
    server.add_version("clicks-value", "latest", 7, "string", schemaType="AVRO")
    client = client_of(server.url)
    assert [client.version("clicks-value", "latest").id for _ in range(2)] == [7, 7]
    client.schema(7)
    assert server.asked == ["/subjects/clicks-value/versions/latest"] * 2


def test_a_subject_s_name_may_have_any_character(server: RegistryServer) -> None:
    server.answers["/subjects/a%2Fb%3Fc/versions/3"] = 200, {"id": 1, "schema": '"int"'}
    assert client_of(server.url).version("a/b?c", "3").id == 1


def test_schemas_that_are_referred_to_come_before_those_that_refer_to_them(server: RegistryServer) -> None:
    leg = {"name": "Leg", "subject": "legs", "version": 2}
    airport = {"name": "Airport", "subject": "airports", "version": 1}
    server.add(7, FLIGHT, references=[leg, airport])
    server.add_version("legs", "2", 5, LEG, references=[airport])
    server.add_version("airports", "1", 4, AIRPORT)
    schema = client_of(server.url).schema(7)
    assert schema.names == ("Airport", "Leg", "")
    assert [text[:30] for text in schema.texts] == [
        '{"type": "enum", "name": "Airp',
        '{"type": "record", "name": "Le',
        '{"type": "record", "name": "Fl',
    ]
    assert server.asked == [
        "/schemas/ids/7",
        "/subjects/legs/versions/2?deleted=true",
        "/subjects/airports/versions/1?deleted=true",
    ]


def test_a_version_that_was_deleted_is_had_by_what_refers_to_it(server: RegistryServer) -> None:
    server.add(7, FLIGHT, references=[{"name": "Airport", "subject": "airports", "version": 1}])
    server.add_version("airports", "1", 4, AIRPORT)
    server.deleted.add("/subjects/airports/versions/1")
    assert client_of(server.url).schema(7).names == ("Airport", "")
    with pytest.raises(SchemaNotFoundError):
        client_of(server.url).version("airports", "1")


def test_an_answer_that_is_cut_short_is_asked_for_again(server: RegistryServer) -> None:
    """As of a registry that ends in the middle of it."""
    server.add(7, FLIGHT)
    server.cut_bytes = 20
    assert client_of(server.url).schema(7).id == 7
    assert len(server.asked) == 2


def test_references_in_a_circle_are_told(server: RegistryServer) -> None:
    leg = {"name": "Leg", "subject": "legs", "version": 2}
    server.add(7, FLIGHT, references=[leg])
    server.add_version("legs", "2", 5, LEG, references=[leg])
    with pytest.raises(RegistryAccessError, match="go in a circle"):
        client_of(server.url).schema(7)


def test_a_registry_that_is_away_for_a_moment_is_asked_again(server: RegistryServer) -> None:
    server.add(7, "string")
    server.failures = 2
    assert client_of(server.url).schema(7).id == 7
    assert len(server.asked) == 3


def test_a_registry_that_stays_away_is_told_with_its_addresses(server: RegistryServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gone = f"http://127.0.0.1:{taken.getsockname()[1]}"
    server.failures = 100
    with pytest.raises(RegistryUnavailableError) as caught:
        client_of(gone, server.url).schema(7)
    message = str(caught.value)
    assert f"the schema registry at {gone}, {server.url} does not answer for schema 7" in message
    assert "Connection refused" in message
    assert "HTTP 503" in message
    assert "Check value.registry.url" in message


def test_the_second_address_answers_where_the_first_one_does_not(server: RegistryServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gone = f"http://127.0.0.1:{taken.getsockname()[1]}"
    server.add(7, "string")
    assert client_of(gone, server.url).schema(7).id == 7


def test_a_schema_that_is_not_there_is_told_in_the_registry_s_words(server: RegistryServer) -> None:
    with pytest.raises(SchemaNotFoundError) as caught:
        client_of(server.url).schema(9)
    assert "does not have schema 9: HTTP 404, Schema 9 not found" in str(caught.value)


@pytest.mark.parametrize(
    ("login", "header"),
    [({"user": "ann:a pass:word"}, "Basic YW5uOmEgcGFzczp3b3Jk"), ({"token": "t-1"}, "Bearer t-1"), ({}, None)],
)
def test_a_login_goes_with_each_request(server: RegistryServer, login: dict[str, str], header: str | None) -> None:
    server.add(7, "string")
    client_of(server.url, **login).schema(7)
    assert server.logins == [header]


@pytest.mark.parametrize("status", [401, 403])
def test_a_login_that_is_refused_is_told_without_it(server: RegistryServer, status: int) -> None:
    server.answers["/schemas/ids/7"] = status, {"error_code": status, "message": "User cannot\x1b[2J access"}
    with pytest.raises(RegistryAccessError) as caught:
        client_of(server.url, user="ann:secret-word").schema(7)
    message = str(caught.value)
    assert f"HTTP {status}, User cannot" in message
    assert "Check value.registry.basic.auth.user.info" in message
    assert "secret-word" not in message + repr(caught.value)
    assert "\x1b" not in message


@pytest.mark.parametrize("status", [404, 500])
def test_only_the_registry_itself_says_that_it_has_no_such_schema(server: RegistryServer, status: int) -> None:
    """What a proxy answers, while the registry starts behind it, would set good records apart."""
    server.answers["/schemas/ids/7"] = status, {"message": "default backend"}
    with pytest.raises(RegistryUnavailableError, match=f"does not answer for schema 7: HTTP {status}"):
        client_of(server.url).schema(7)


def test_a_schema_that_is_not_there_is_not_asked_for_again_at_once(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(server.url)
    for _ in range(3):
        with pytest.raises(SchemaNotFoundError):
            client.schema(9)
    assert server.asked == ["/schemas/ids/9"]
    monkeypatch.setattr(module, "_MISSED_S", 0.0)
    server.add(9, "string")
    assert client.schema(9).id == 9


GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
IDS = f"/schemas/guids/{GUID}/ids"


def test_a_guid_is_asked_for_its_number_in_the_default_context_once(server: RegistryServer) -> None:
    server.answers[IDS] = 200, [{"context": ".other", "id": 3}, {"context": ".", "id": 7}]
    client = client_of(server.url)
    assert not client.knows(GUID)
    assert [client.id_of_guid(GUID) for _ in range(2)] == [7, 7]
    assert client.knows(GUID)
    assert server.asked == [IDS]


@pytest.mark.parametrize("path", ["/contexts/.dev", "/contexts/:.dev:", "/contexts/dev", "/registry/contexts/.dev"])
def test_a_guid_s_number_is_of_the_context_that_the_address_names(server: RegistryServer, path: str) -> None:
    """The same number is another schema's in another context."""
    server.answers[f"{path}{IDS}"] = 200, [{"context": ".", "id": 3}, {"context": ".dev", "id": 7}]
    assert client_of(f"{server.url}{path}").id_of_guid(GUID) == 7


@pytest.mark.parametrize(
    ("answer", "error_message"),
    [
        ((200, []), "no context has it"),
        (
            (200, [{"context": ".b\x1b", "id": 4}, {"context": ".a", "id": 3}]),
            "the context . does not have it, but .a, .b",
        ),
        ((404, NOT_FOUND), "HTTP 404, Schema 9 not found"),
        ((404, {"error_code": 404, "message": "HTTP 404 Not Found"}), "HTTP 404, HTTP 404 Not Found"),
    ],
    ids=["nowhere", "in other contexts", "not found", "no such path"],
)
def test_a_guid_that_the_registry_does_not_have_is_told(
    server: RegistryServer, answer: Any, error_message: str
) -> None:
    server.answers[IDS] = answer
    client = client_of(server.url)
    for _ in range(2):
        with pytest.raises(SchemaNotFoundError) as caught:
            client.id_of_guid(GUID)
        assert f"does not have the schema with the GUID {GUID}: {error_message}" in str(caught.value)
        assert "\x1b" not in str(caught.value)
    assert server.asked == [IDS]


@pytest.mark.parametrize("answer", [{}, ["x"], [{"context": "."}], [{"context": ".", "id": "7"}], [{"id": 7}]])
def test_what_is_no_number_of_a_guid_is_told(server: RegistryServer, answer: Any) -> None:
    server.answers[IDS] = 200, answer
    with pytest.raises(RegistryAccessError, match=f"its answer for the schema with the GUID {GUID} "):
        client_of(server.url).id_of_guid(GUID)


def test_what_a_proxy_says_of_a_guid_is_not_believed(server: RegistryServer) -> None:
    server.answers[IDS] = 404, {"message": "default backend"}
    with pytest.raises(
        RegistryUnavailableError, match=f"does not answer for the schema with the GUID {GUID}: HTTP 404"
    ):
        client_of(server.url).id_of_guid(GUID)


def test_a_schema_that_is_not_there_keeps_nothing_of_who_asked(server: RegistryServer) -> None:
    """Where an error is kept, its traceback keeps the batch that was decoded."""

    class Batch:
        pass

    client = client_of(server.url)

    def decode(key: int | UUID) -> weakref.ref[Batch]:
        batch = Batch()
        with suppress(SchemaNotFoundError):
            _ = client.id_of_guid(key) if isinstance(key, UUID) else client.schema(key)
        return weakref.ref(batch)

    for key in (9, 9, GUID, GUID):
        batch_reference = decode(key)
        gc.collect(1)  # Of what is young: all takes a second, in a process with so many tests.
        if batch_reference() is not None:
            gc.collect()
        assert batch_reference() is None


def test_what_is_not_there_is_forgotten_in_time(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(server.url)
    monkeypatch.setattr(module, "_MISSED_S", 0.0)
    for number in range(5):
        with pytest.raises(SchemaNotFoundError):
            client.schema(number)
    assert len(client._missed) == 1


@pytest.mark.parametrize("status", [200, 404, 500])
def test_an_answer_that_does_not_end_is_given_up_and_not_tried_again(
    status: int, server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_service, "_ANSWER_BYTES_MAX", 100_000)
    server.answers["/schemas/ids/7"] = status, b" " * 1_000_000
    error_message = "its answer for schema 7 has more than 100000 bytes" if status == 200 else f"HTTP {status}"
    with pytest.raises(RegistryAccessError if status == 200 else RegistryUnavailableError, match=error_message):
        client_of(server.url).schema(7)
    assert len(server.asked) == (1 if status == 200 else 4)


def test_a_schema_of_a_million_fields_is_told(server: RegistryServer) -> None:
    fields = [{"name": f"field_{number}", "type": "int"} for number in range(1_000_000)]
    server.add(7, {"type": "record", "name": "Wide", "fields": fields})
    with pytest.raises(RegistryAccessError, match=r"16777216 bytes\. Register a smaller schema"):
        client_of(server.url).schema(7)
    assert len(server.asked) == 1


def test_an_answer_that_comes_drop_by_drop_is_given_up(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece comes in time; the whole would take a hundred times as long as a try."""
    monkeypatch.setattr(rest_service, "_TIMEOUT_S", 0.3)
    monkeypatch.setattr(rest_service, "_TRIES", 1)
    server.add(7, "string")
    server.pause_s = 0.05
    server.answers["/schemas/ids/7"] = 200, b" " * 600
    with pytest.raises(RegistryUnavailableError, match="its answer is not whole after"):
        client_of(server.url).schema(7)


def test_a_redirect_is_not_followed(server: RegistryServer) -> None:
    server.answers["/schemas/ids/7"] = 302, {}
    with pytest.raises(RegistryAccessError, match="HTTP 302: it sends elsewhere, where the login must not go"):
        client_of(server.url, user="ann:secret-word").schema(7)
    assert server.asked == ["/schemas/ids/7"]


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"schema": 5}', b"{}", b"[" * 100_000])
def test_what_is_no_registry_is_told(server: RegistryServer, answer: bytes) -> None:
    server.answers["/schemas/ids/7"] = 200, answer
    with pytest.raises(RegistryAccessError, match=r"its answer for schema 7 is none of a schema registry's"):
        client_of(server.url).schema(7)


def test_a_version_without_a_number_is_told(server: RegistryServer) -> None:
    server.answers["/subjects/s/versions/1"] = 200, {"schema": '"int"'}
    with pytest.raises(RegistryAccessError, match="its answer for the subject s has no id"):
        client_of(server.url).version("s", "1")
    server.add(7, "int", references=[{"name": "x"}])
    with pytest.raises(RegistryAccessError, match="its references are none"):
        client_of(server.url).schema(7)


def test_a_schema_s_number_is_looked_up_and_nothing_is_registered(server: RegistryServer) -> None:
    server.answers["POST /subjects/clicks-value"] = 200, {"subject": "clicks-value", "id": 12, "version": 3}
    assert client_of(server.url).id_of("clicks-value", '"string"', "AVRO", registers=False) == 12
    assert server.posted == [("/subjects/clicks-value", {"schema": '"string"'})]


def test_a_schema_is_registered_where_that_is_asked_for(server: RegistryServer) -> None:
    server.answers["POST /subjects/clicks-key/versions"] = 200, {"id": 13}
    server.failures = 1
    assert client_of(server.url, user="ann:secret").id_of("clicks-key", "{}", "JSON", registers=True) == 13
    assert server.posted == [("/subjects/clicks-key/versions", {"schema": "{}", "schemaType": "JSON"})] * 2
    assert server.logins[-1] is not None


def test_a_schema_that_the_subject_does_not_have_is_said(server: RegistryServer) -> None:
    with pytest.raises(
        SchemaNotRegisteredError, match=r"the given schema under the subject clicks-value.*registry\.register"
    ):
        client_of(server.url).id_of("clicks-value", '"string"', "AVRO", registers=False)


def test_a_schema_that_is_not_compatible_is_refused_and_not_tried_again(server: RegistryServer) -> None:
    answer = {"error_code": 409, "message": "Schema being registered is incompatible with an earlier schema"}
    server.answers["POST /subjects/clicks-value/versions"] = 409, answer
    with pytest.raises(RegistryAccessError, match=r"incompatible with an earlier schema.*Make the schema compatible"):
        client_of(server.url).id_of("clicks-value", '"string"', "AVRO", registers=True)
    assert len(server.posted) == 1


@pytest.mark.parametrize("answer", [{}, {"id": "7"}, {"id": True}, []])
def test_an_answer_without_a_number_is_none_of_a_registry_s(server: RegistryServer, answer: object) -> None:
    server.answers["POST /subjects/clicks-value"] = 200, answer
    with pytest.raises(RegistryAccessError, match="its answer for"):
        client_of(server.url).id_of("clicks-value", '"string"', "AVRO", registers=False)
