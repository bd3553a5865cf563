"""OAUTHBEARER's token, of the user's function, an endpoint or a cloud's library, kept for as long as it is good."""

from __future__ import annotations

import importlib
import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from directkafka.errors import OptionError
from directkafka.options.security.oauthbearer import TOKEN_CALLBACK, CloudIdentity, TokenEndpoint, TokenSource
from directkafka.options.spec import Secret

log = logging.getLogger(__name__)

_OPTION = f"kafka.{TOKEN_CALLBACK.name}"
#: A new token is fetched when this share of the time between its fetching and its end is over, as Java does it.
_USED_SHARE = 0.8
#: Where none can be had, the one that is good is used for this share of its time. A broker whose clock is ahead would
#: refuse it at its end, and a refusal is final.
_LAST_SHARE = 0.95
#: So many seconds later the next try is made.
_AGAIN_S = 10.0


@dataclass(frozen=True, slots=True)
class _Token:
    """A token, and when it was asked for and ends, in seconds since 1970."""

    secret: Secret
    asked_at: float
    ends_at: float

    def after(self, share: float) -> float:
        """When this share of its time is over."""
        return self.asked_at + share * (self.ends_at - self.asked_at)


@dataclass(slots=True)
class _Kept:
    """The token of a source, and from when on a new one is asked for; who asks holds the lock."""

    asking: threading.Lock = field(default_factory=threading.Lock)
    token: _Token | None = None
    fetch_again_at: float = 0.0


_lock = threading.Lock()
_kept: dict[TokenSource, _Kept] = {}


class TokenProvider:
    """The source of tokens as kafka-python asks it: at each login, and before each session's end.

    Args:
        source: where the token comes from.
        extensions: names and values that are sent with the token (KIP-342).
    """

    def __init__(self, source: TokenSource, extensions: Iterable[tuple[str, str]] = ()) -> None:
        self._source = source
        self._extensions = dict(extensions)

    def token(self) -> str:
        """The token to log in with now."""
        return bearer_token(self._source)

    def extensions(self) -> dict[str, str]:
        """What is sent with it."""
        return self._extensions


def bearer_token(source: TokenSource, *, clock: Callable[[], float] = time.time) -> str:
    """The token to log in with now.

    Args:
        source: where the token comes from. A function takes no arguments and returns the token, or a pair of it and the
            time it ends in seconds since 1970. A token alone is not kept: it is asked for again for each connection.
            A kept one is used nearly to its end while no new one can be had.
        clock: the time in seconds since 1970.

    Raises:
        OptionError: the function cannot be imported, raises an error, or returns something else or a token that is
            over; the endpoint refuses the client; the cloud's library is not there or has no credentials. The token is
            never in the message. Nor is the text of the function's own error, which may hold secrets, anywhere behind
            it: Spark brings an executor's error to the driver with all that led to it.
        ConnectionError: the endpoint does not answer.
    """
    with _lock:
        kept = _kept.setdefault(source, _Kept())
    with kept.asking:
        if kept.token is None or clock() >= kept.fetch_again_at:
            kept.token = _renewed(kept, source, clock)
        return kept.token.secret.reveal()


def forget_token(source: TokenSource) -> None:
    """A broker has refused the source's token: do not use it again.

    Args:
        source: where the token comes from.
    """
    with _lock:
        _kept.pop(source, None)


def _renewed(kept: _Kept, source: TokenSource, clock: Callable[[], float]) -> _Token:
    """A new token; or the kept one, where it is good for a while and no new one can be had."""
    try:
        token = _fetch(source, clock)
    except (ConnectionError, OptionError) as error:
        # One that a broker has refused meanwhile is kept no more.
        if kept.token is None or _kept.get(source) is not kept:
            raise
        left_s = kept.token.after(_LAST_SHARE) - clock()
        if left_s <= 0:
            raise
        kept.fetch_again_at = clock() + min(_AGAIN_S, left_s)
        log.warning("the token is used for %.0f s at most, for there is no new one: %s", left_s, error)
        return kept.token
    kept.fetch_again_at = token.after(_USED_SHARE)
    return token


def _fetch(source: TokenSource, clock: Callable[[], float]) -> _Token:
    if isinstance(source, str):
        return _asked(source, clock)
    asked_at = clock()
    token, lifetime_s = _of_cloud(source) if isinstance(source, CloudIdentity) else _of_endpoint(source)
    return _Token(token, asked_at, asked_at + lifetime_s)


def _of_cloud(identity: CloudIdentity) -> tuple[Secret, float]:
    # Neither of the two above: every connection imports this module, and few need an HTTP client.
    from directkafka.kafka.network.cloud_tokens import cloud_token

    return cloud_token(identity)


def _of_endpoint(endpoint: TokenEndpoint) -> tuple[Secret, float]:
    from directkafka.kafka.network.token_endpoint import fetch_token

    return fetch_token(endpoint)


def _asked(callback: str, clock: Callable[[], float]) -> _Token:
    function = _load(callback)
    asked_at = clock()
    answer, failure = _told(function)
    if failure:
        raise OptionError(option=_OPTION, reason=f"{callback} raised {failure}")
    match answer:
        case str() if answer:
            return _Token(Secret(answer), asked_at, asked_at)
        case (str(token), int() | float() as ends_at) if token:
            if ends_at <= asked_at:
                reason = f"{callback} returned a token that ended {asked_at - ends_at:.0f} s ago"
                raise OptionError(option=_OPTION, reason=reason)
            return _Token(Secret(token), asked_at, float(ends_at))
    reason = f"{callback} returned {_shape(answer)}; expected the token, or a pair of it and the time it ends (seconds)"
    raise OptionError(option=_OPTION, reason=reason)


def _load(callback: str) -> Callable[[], object]:
    module_name, _, function_name = callback.partition(":")
    module, failure = _told(lambda: importlib.import_module(module_name))
    if failure:
        reason = f"importing {module_name!r} raised {failure}; the module must be on the driver and on every executor"
        raise OptionError(option=_OPTION, reason=reason)
    function = getattr(module, function_name, None)
    if not callable(function):
        raise OptionError(option=_OPTION, reason=f"{module_name} has no function {function_name!r}")
    checked: Callable[[], object] = function
    return checked


def _told(function: Callable[[], object]) -> tuple[object, str]:
    """What a function returns, and by what error it failed, if it did: its type and its place, and no words of it."""
    try:
        return function(), ""
    except Exception as error:  # noqa: BLE001 - the caller raises another one, behind which this is not to be seen
        frame = traceback.extract_tb(error.__traceback__)[-1]
        missing = f" of {error.name!r}" if isinstance(error, ModuleNotFoundError) else ""
        return None, f"{type(error).__name__}{missing} ({frame.filename}, line {frame.lineno})"


def _shape(answer: object) -> str:
    """What an answer is, without what it says."""
    if answer == "":
        return "an empty text"
    if isinstance(answer, tuple):
        return f"a tuple of {', '.join(type(value).__name__ for value in answer) or 'nothing'}"
    return f"a {type(answer).__name__}"
