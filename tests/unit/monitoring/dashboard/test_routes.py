"""What the page's server answers, and which changes it refuses."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.waiting import WAIT_S, until

from directkafka.errors import EnvironmentFaultError, OptionError
from directkafka.monitoring import http_server
from directkafka.monitoring.address import Address
from directkafka.monitoring.dashboard import routes
from directkafka.monitoring.dashboard.details import BusyError, Details, UnknownPipelineError, reset_request
from directkafka.monitoring.http_server import HttpServer
from directkafka.offsets import TopicPartition
from directkafka.planning.reset_target import Listed, RowsPolicy, TopicChoice

TOKEN = "a-token-of-the-test"

Answer = tuple[int, dict[str, str], str]


class Served:
    """A server, and what was changed by it."""

    def __init__(self, *, token: str | None) -> None:
        self.server = HttpServer(Address(host="127.0.0.1", port=0), stalled_after_s=600, token=token)
        self.changed: list[tuple[str, Mapping[str, str] | bool]] = []

    def ask(self, path: str, *, body: bytes | None = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = Request(f"http://{self.server.address}{path}", data=body, headers=named)
        try:
            with urlopen(request, timeout=30) as answer:
                return answer.status, dict(answer.headers), answer.read().decode()
        except HTTPError as error:
            return error.code, dict(error.headers), error.read().decode()

    def post(self, path: str, content: object = None, **changes: str | None) -> tuple[int, dict[str, Any]]:
        """A change as the page sends it; a header that is None is left out."""
        headers: dict[str, str | None] = {
            "content_type": "application/json", "authorization": f"Bearer {TOKEN}",
            "origin": f"http://{self.server.address}", "sec_fetch_site": "same-origin",
        }  # fmt: skip
        given = {name: value for name, value in {**headers, **changes}.items() if value is not None}
        asked = {"name": "numbers", "paused": "true", "to": "earliest"} if content is None else content
        body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
        status, _, text = self.ask(path, body=body, **given)
        return status, json.loads(text)


def served(monkeypatch: pytest.MonkeyPatch, *, token: str | None) -> Iterator[Served]:
    made = Served(token=token)

    def set_paused(_: Details, name: str, *, is_paused: bool) -> dict[str, Any]:
        made.changed.append((name, is_paused))
        return {"changed": True}

    def reset(_: Details, name: str, asked: Mapping[str, str]) -> dict[str, Any]:
        made.changed.append((name, asked))
        return {"changes_something": True}

    monkeypatch.setattr(Details, "set_paused", set_paused)
    monkeypatch.setattr(Details, "reset", reset)
    with made.server:
        yield made


@pytest.fixture
def with_token(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    yield from served(monkeypatch, token=TOKEN)


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    yield from served(monkeypatch, token=None)


def test_the_page_weighs_less_than_200_kb_and_loads_nothing_from_elsewhere(read_only: Served) -> None:
    status, headers, page = read_only.ask("/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    paths = re.findall(r'(?:src|href)="(/[^"]*)"', page)
    assert len(paths) == 4
    answers = [read_only.ask(path) for path in paths]
    assert [status for status, _, _ in answers] == [200] * 4
    assert sum(len(text.encode()) for _, _, text in answers) + len(page.encode()) < 200_000
    texts = [page, *(text for path, (_, _, text) in zip(paths, answers, strict=True) if "uPlot" not in path)]
    assert not [text for text in texts if re.search(r"https?://|//[a-z]+\.", text)]


def test_no_script_of_the_page_makes_markup_of_a_text() -> None:
    script = resources.files("directkafka.monitoring.dashboard").joinpath("page", "dashboard.js").read_text()
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script) == []


def test_every_answer_says_that_nothing_else_may_run_in_it(read_only: Served) -> None:
    for path in ("/", "/page/dashboard.js", "/api/pipelines", "/api/pipeline?name=x", "/api/reset?name=x"):
        _, headers, _ = read_only.ask(path)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_a_name_that_leads_here_from_another_site_is_refused(read_only: Served) -> None:
    assert read_only.ask("/api/pipelines", host="evil.example")[0] == 400


@pytest.mark.parametrize(
    ("failure", "status", "text"),
    [
        (UnknownPipelineError("numbers"), 404, "no such pipeline"),
        (BusyError(), 503, "other lookups take long"),
        (KeyError("a value of a record"), 500, "the log says more"),
        (OptionError(option="datetime", reason="expected a time"), 400, "expected a time"),
        (EnvironmentFaultError(what="gone", remedy="wait"), 502, "EnvironmentFaultError: gone"),
        (ZeroDivisionError("a value of a record"), 500, "the log says more"),
    ],
)
def test_a_lookup_that_fails_says_what_is_wrong_and_shows_no_trace(
    failure: Exception, status: int, text: str, read_only: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> dict[str, Any]:
        raise failure

    monkeypatch.setattr(Details, "dead_letters", fail)
    monkeypatch.setattr(Details, "plan_reset", fail)
    for path in ("/api/dead-letters?name=numbers", "/api/reset?name=numbers&to=earliest"):
        answered_status, _, answer = read_only.ask(path)
        assert answered_status == status
        assert text in json.loads(answer)["error"]
        assert "Traceback" not in answer
        assert "a value of a record" not in answer


def test_news_come_as_server_sent_events(read_only: Served) -> None:
    with urlopen(f"http://{read_only.server.address}/api/events", timeout=30) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        line = stream.readline().decode()
    assert "pipelines" in json.loads(line.removeprefix("data: "))


def test_a_server_with_open_pages_ends_all_the_same(read_only: Served) -> None:
    with urlopen(f"http://{read_only.server.address}/api/events", timeout=30) as stream:
        stream.readline()
        read_only.server.close()
        assert not [thread for thread in _threads() if thread == "directkafka http"]


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("path", ["/api/pause", "/api/reset"])
def test_without_a_token_nothing_can_be_changed(path: str, read_only: Served) -> None:
    status, answer = read_only.post(path)
    assert (status, read_only.changed) == (403, [])
    assert "--allow-changes" in answer["error"]


@pytest.mark.parametrize("path", ["/api/pause", "/api/reset"])
@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"authorization": None}, 401),
        ({"authorization": "Bearer another"}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"origin": None}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"origin": "http://[::1"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_a_change_that_does_not_come_from_the_page_with_the_token_is_refused(
    path: str, changes: dict[str, str | None], status: int, with_token: Served
) -> None:
    answered_status, _ = with_token.post(path, **changes)
    assert (answered_status, with_token.changed) == (status, [])


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"name": 1}', b'"x"', b"\xff"])
def test_a_change_that_is_no_object_of_texts_is_refused(content: bytes, with_token: Served) -> None:
    assert with_token.post("/api/pause", content)[0] == 400
    assert with_token.changed == []


def test_a_long_change_is_not_read(with_token: Served) -> None:
    assert with_token.post("/api/pause", {"name": "x" * 2_000_000})[0] == 413


def test_no_change_is_made_by_a_get(with_token: Served) -> None:
    assert with_token.ask("/api/pause?name=numbers&paused=true")[0] == 405
    assert with_token.changed == []


def test_a_change_of_the_page_with_the_token_is_made_and_logged(
    with_token: Served, caplog: pytest.LogCaptureFixture
) -> None:
    assert with_token.post("/api/pause") == (200, {"changed": True})
    assert with_token.post("/api/pause", {"name": "numbers", "paused": "no"})[0] == 400
    assert with_token.post("/api/reset", {"name": "numbers", "to": "latest"})[0] == 200
    assert with_token.changed == [("numbers", True), ("numbers", {"to": "latest"})]
    assert "the page changes numbers: /api/pause" in caplog.text
    assert TOKEN not in caplog.text


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({}, "expected one of earliest, latest"),
        ({"to": "offset", "value": "x"}, "expected a whole number"),
        ({"to": "offset", "value": "-1"}, "expected a whole number"),
        ({"to": "shift", "value": "9" * 30}, "expected a whole number"),
        ({"to": "datetime", "value": "<b>"}, "expected a time in ISO 8601"),
        ({"to": "duration", "value": ""}, "expected a duration"),
        ({"to": "latest", "rows": "drop"}, "expected keep or delete"),
        ({"to": "latest", "topic": "a:b"}, "expected topic or topic:0,1"),
    ],
)
def test_a_form_that_is_wrong_is_refused(asked: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=re.escape(text)):
        reset_request(asked)


@pytest.mark.parametrize(
    ("to", "value"),
    [("earliest", ""), ("latest", ""), ("offset", "5"), ("datetime", "2026-11-25T08:00"), ("duration", "10m"),
     ("shift", "-100")],
)  # fmt: skip
def test_a_form_asks_for_what_the_command_asks_for(to: str, value: str) -> None:
    request = reset_request({"to": to, "value": value, "topic": "air:0,1", "rows": "delete"})
    assert (request.topics, request.rows) == ((TopicChoice("air", (0, 1)),), RowsPolicy.DELETE)


def test_who_does_not_say_what_becomes_of_rows_leaves_it_to_a_reset_that_is_half_done() -> None:
    assert reset_request({"to": "latest"}).rows is None
    assert reset_request({"to": "latest", "rows": ""}).rows is None
    assert reset_request({"to": "latest", "rows": "keep"}).rows is RowsPolicy.KEEP


def test_the_offsets_that_were_shown_can_be_asked_for() -> None:
    request = reset_request({"to": "offsets", "value": '"air",0,5\n"air",1,7'})
    assert request.to == Listed({TopicPartition("air", 0): 5, TopicPartition("air", 1): 7})
    with pytest.raises(OptionError, match="line 1 of the request: expected topic,partition,offset"):
        reset_request({"to": "offsets", "value": "x"})


@pytest.fixture
def reached_by_others(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(HttpServer, "_is_loopback", lambda _: False)
    monkeypatch.setattr(Details, "dead_letters", lambda *_, **__: {"count": 0})
    monkeypatch.setattr(Details, "plan_reset", lambda *_, **__: {"totals": []})
    yield from served(monkeypatch, token=TOKEN)


@pytest.mark.parametrize("path", ["/api/dead-letters?name=numbers", "/api/reset?name=numbers&to=earliest"])
def test_where_others_reach_the_address_values_are_shown_with_the_token_alone(
    path: str, reached_by_others: Served
) -> None:
    assert reached_by_others.ask(path)[0] == 403
    assert reached_by_others.ask(path, authorization="Bearer another")[0] == 403
    assert reached_by_others.ask(path, authorization=f"Bearer {TOKEN}")[0] == 200
    assert reached_by_others.ask("/api/pipelines")[0] == 200


def test_lookups_that_take_long_hold_up_neither_health_nor_changes(
    with_token: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, begun = threading.Event(), list[None]()

    def hang(*_: object, **__: object) -> dict[str, Any]:
        begun.append(None)
        released.wait(60)
        return {}

    monkeypatch.setattr(Details, "dead_letters", hang)
    asking = [
        threading.Thread(target=with_token.ask, args=("/api/dead-letters?name=numbers",), daemon=True)
        for _ in range(60)
    ]
    for thread in asking:
        thread.start()
    try:
        until(lambda: len(begun) == routes._WAITING_MAX, "not all of them wait")
        assert with_token.ask("/api/dead-letters?name=numbers")[0] == 503
        # Pipelines of other tests may have failed: what counts is that there is an answer.
        assert "pipelines" in json.loads(with_token.ask("/healthz")[2])
        assert with_token.ask("/api/pipelines")[0] == 200
    finally:
        released.set()
    for thread in asking:
        thread.join(60)


def test_pages_beyond_a_number_are_refused(read_only: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("directkafka.monitoring.dashboard.routes._STREAMS_MAX", 1)
    with urlopen(f"http://{read_only.server.address}/api/events", timeout=30) as stream:
        stream.readline()
        assert read_only.ask("/api/events")[0] == 503


def test_the_chart_library_is_the_one_that_is_named(read_only: Served) -> None:
    folder = Path(str(resources.files("directkafka.monitoring.dashboard").joinpath("page")))
    assert "uPlot (v1.6.32)" in (folder / "uPlot.iife.min.js").read_text()[:200]
    assert "MIT License" in (folder / "uPlot.LICENSE").read_text()


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_starts_no_lookup(with_token: Served, site: str) -> None:
    for path in ("/api/reset?name=x&to=earliest", "/api/dead-letters?name=x"):
        status, _, text = with_token.ask(path, sec_fetch_site=site)
        assert (status, "own page alone" in text) == (403, True)
        assert with_token.ask(path, sec_fetch_site="same-origin")[0] == with_token.ask(path)[0] == 404


def test_connections_are_bounded_and_those_that_say_nothing_end(
    read_only: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes a descriptor of the driver's process."""
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 3)
    address = read_only.server.address.host, read_only.server.address.port
    with ExitStack() as ending:
        silent = [ending.enter_context(socket.create_connection(address)) for _ in range(8)]
        # Those beyond the bound end at once, the others after a while, whatever they have begun to say.
        with suppress(OSError):
            silent[0].sendall(b"G")
        for connection in silent:
            connection.settimeout(WAIT_S)
            with suppress(ConnectionError):
                assert connection.recv(1) == b""
    assert read_only.ask("/healthz")[0] == 200
