"""Routes of the page: its files, JSON, server-sent events, and changes, which are refused unless they are allowed.

Dead letters and resets show what records and stores have: at an address that others reach, only to who has the token.
A change is a POST of JSON with the token, from a page of this very server. Without the token nobody changes anything.
A page of another site cannot send one, even in the browser of somebody who has the token: it may not set these headers,
and the browser says where it comes from.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from importlib import resources
from typing import Any, Final
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from directkafka.errors import DirectKafkaError, OptionError
from directkafka.monitoring.dashboard.board import Board
from directkafka.monitoring.dashboard.details import BusyError, Details, UnknownPipelineError
from directkafka.plain_text import message

log = logging.getLogger("directkafka.monitoring")

#: The page is checked for news so often, in seconds; and a stream that has none says that it lives.
_EVENTS_EVERY_S: Final = 1.0
_HEARTBEAT_S: Final = 5.0
#: Pages that are open at a time.
_STREAMS_MAX: Final = 50
#: Holds the offsets of ten thousand partitions.
_BODY_BYTES_MAX: Final = 1_000_000
#: Threads that wait for lookups and changes, so that those of other answers never run out.
_WAITING_MAX: Final = 10

_FILES: Final = {
    "": ("index.html", "text/html; charset=utf-8"),
    "dashboard.js": ("dashboard.js", "text/javascript; charset=utf-8"),
    "dashboard.css": ("dashboard.css", "text/css; charset=utf-8"),
    "uPlot.iife.min.js": ("uPlot.iife.min.js", "text/javascript; charset=utf-8"),
    "uPlot.min.css": ("uPlot.min.css", "text/css; charset=utf-8"),
}

#: Nothing comes from elsewhere, nothing runs that is not in these files, and no other page shows this one in a frame.
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}
#: A proxy must pass on what comes, at once.
_STREAM_HEADERS: Final = {**_HEADERS, "x-accel-buffering": "no"}


class DashboardRoutes:
    """What a browser asks for.

    Args:
        board: what is known of the pipelines.
        details: lookups.
        is_loopback: whether only this machine reaches the server.
        token: what a change must bring; None refuses all changes.
    """

    def __init__(self, board: Board, details: Details, *, is_loopback: bool, token: str | None = None) -> None:
        self._board = board
        self._details = details
        self._is_loopback = is_loopback
        self._token = token
        self._stream_count = 0
        self._limiter = CapacityLimiter(_WAITING_MAX)

    def routes(self) -> list[Route]:
        """The page at ``/``, and what it asks for below ``/page/`` and ``/api/``."""
        files = [
            Route(f"/page/{path}" if path else "/", partial(_file, name, content_type))
            for path, (name, content_type) in _FILES.items()
        ]
        return [
            *files,
            Route("/api/pipelines", self._summaries),
            Route("/api/events", self._events),
            Route("/api/pipeline", self._pipeline),
            Route("/api/dead-letters", self._dead_letters),
            Route("/api/reset", self._plan_reset, methods=["GET"]),
            Route("/api/reset", self._reset, methods=["POST"]),
            Route("/api/pause", self._pause, methods=["POST"]),
        ]

    async def _summaries(self, _: Request) -> Response:
        return Response(self._board.summaries(), media_type="application/json", headers=_HEADERS)

    async def _events(self, _: Request) -> Response:
        if self._stream_count >= _STREAMS_MAX:
            return _refused(503, f"{_STREAMS_MAX} pages are open already")
        return StreamingResponse(self._told(), media_type="text/event-stream", headers=_STREAM_HEADERS)

    async def _told(self) -> AsyncIterator[bytes]:
        self._stream_count += 1
        try:
            seen, silent_s = -1, 0.0
            while not self._board.is_closed:
                version = self._board.version
                # Also without news: that there are none for long is one.
                if version != seen or silent_s >= _HEARTBEAT_S:
                    seen, silent_s = version, 0.0
                    yield b"data: " + self._board.summaries() + b"\n\n"
                await asyncio.sleep(_EVENTS_EVERY_S)
                silent_s += _EVENTS_EVERY_S
        finally:
            self._stream_count -= 1

    async def _pipeline(self, request: Request) -> Response:
        pipeline = self._board.pipeline(request.query_params.get("name", ""))
        if pipeline is None:
            return _refused(404, "there is no such pipeline")
        return _json({**pipeline, "allows_changes": self._token is not None})

    async def _dead_letters(self, request: Request) -> Response:
        asked = request.query_params
        return await self._looked_up(
            request, lambda: self._details.dead_letters(asked.get("name", ""), reason=asked.get("reason") or None)
        )

    async def _plan_reset(self, request: Request) -> Response:
        asked = dict(request.query_params)
        return await self._looked_up(request, lambda: self._details.plan_reset(asked.pop("name", ""), asked))

    async def _looked_up(self, request: Request, call: Callable[[], Mapping[str, Any]]) -> Response:
        # A page of another site cannot read the answer, but each lookup counts rows in a database.
        if request.headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}:
            return _refused(403, "lookups are made for this server's own page alone")
        if not self._is_loopback and not self._has_token(request):
            return _refused(
                403,
                "at an address that others reach, dead letters and resets are shown with the token alone: open the "
                "address that directkafka dashboard --allow-changes has printed",
            )
        return await self._in_thread(call)

    async def _in_thread(self, call: Callable[[], Mapping[str, Any]]) -> Response:
        """Call what waits for Kafka and stores; of more calls than threads, the last ones are refused."""
        if self._limiter.available_tokens <= 0:
            return _refused(503, "other lookups take long: try again later")
        return await to_thread.run_sync(_answered, call, limiter=self._limiter)

    async def _reset(self, request: Request) -> Response:
        return await self._changed(request, lambda asked: self._details.reset(asked.pop("name", ""), asked))

    async def _pause(self, request: Request) -> Response:
        def change(asked: dict[str, str]) -> Mapping[str, Any]:
            if asked.get("paused") not in {"true", "false"}:
                raise OptionError(option="paused", reason="expected true or false")
            return self._details.set_paused(asked.get("name", ""), is_paused=asked["paused"] == "true")

        return await self._changed(request, change)

    async def _changed(self, request: Request, change: Callable[[dict[str, str]], Mapping[str, Any]]) -> Response:
        """Make a change, if everything is right with the request; what is not is told and done nowhere."""
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _BODY_BYTES_MAX:
                return _refused(413, "the request is too long")
        try:
            asked = json.loads(body)
        except ValueError:
            asked = None
        if not isinstance(asked, dict) or not all(isinstance(value, str) for value in asked.values()):
            return _refused(400, "expected a JSON object of texts")
        log.warning("the page changes %s: %s", asked.get("name", "")[:200], request.url.path)
        return await self._in_thread(lambda: change(asked))

    def _refusal(self, request: Request) -> Response | None:
        headers = request.headers
        if self._token is None:
            return _refused(403, "this page only shows: start it with --allow-changes to let it change something")
        if _host_of(headers.get("origin", "")) != headers.get("host") or (
            headers.get("sec-fetch-site", "same-origin") != "same-origin"
        ):
            return _refused(403, "changes are taken from this server's own page alone")
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _refused(415, "expected application/json")
        if not self._has_token(request):
            return _refused(401, "the token is wrong: open the address that directkafka dashboard has printed")
        return None

    def _has_token(self, request: Request) -> bool:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


async def _file(name: str, content_type: str, _: Request) -> Response:
    content = resources.files("directkafka.monitoring.dashboard").joinpath("page", name).read_bytes()
    return Response(content, media_type=content_type, headers=_HEADERS)


def _answered(call: Callable[[], Mapping[str, Any]]) -> Response:
    """What a lookup or a change gives, or what was wrong."""
    try:
        return _json(call())
    except OptionError as error:
        return _refused(400, message(str(error)))
    except UnknownPipelineError:
        return _refused(404, "there is no such pipeline, or it is one of whose stores this process knows nothing")
    except BusyError:
        return _refused(503, "other lookups take long: try again later")
    except DirectKafkaError as error:
        return _refused(502, message(f"{type(error).__name__}: {error}"))
    except Exception:
        log.exception("a request of the page failed")
        return _refused(500, "something went wrong; the log says more")


def _json(content: Mapping[str, Any]) -> Response:
    return JSONResponse(content, headers=_HEADERS)


def _refused(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status_code=status, headers=_HEADERS)
