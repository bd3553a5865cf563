"""Functions that give tokens to the tests of OAUTHBEARER, found by their names."""

from __future__ import annotations

import time

from tests.real.secure_broker import unsecured_token

#: Part of every token, so that a leak is found.
SUBJECT = "token-of-ann"
calls: list[float] = []


def token() -> str:
    calls.append(time.monotonic())
    return unsecured_token(SUBJECT)


def token_with_end() -> tuple[str, float]:
    calls.append(time.monotonic())
    return unsecured_token(SUBJECT), time.time() + 3600.0


def token_that_nobody_takes() -> str:
    return "no-jwt-token-of-ann"


def failing() -> str:
    raise PermissionError("client secret hunter2 is wrong")
