"""The function that gives a token: how often it is asked, and what is said when it gives none."""

from __future__ import annotations

import re
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pytest
from kafka.errors import SaslAuthenticationFailedError

from directkafka.errors import OptionError
from directkafka.kafka.network import oauth
from directkafka.kafka.network.auth_errors import connection_failure
from directkafka.kafka.network.oauth import bearer_token
from directkafka.options.client import ClientOptions

OPTION = "kafka.sasl.oauthbearer.token.callback"
Give = Callable[[object], str]


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Give:
    """``give(answer)`` makes a function that returns or raises the answer, or calls it; returns the function's name."""
    monkeypatch.setattr(oauth, "_kept", {})
    module = ModuleType("a_module_of_tokens")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def make(answer: object) -> str:
        def function() -> object:
            if isinstance(answer, Exception):
                raise answer
            return answer() if callable(answer) else answer

        module.token = function  # type: ignore[attr-defined]
        return f"{module.__name__}:token"

    return make


def refused(callback: str, now: float = 0.0) -> OptionError:
    with pytest.raises(OptionError) as caught:
        bearer_token(callback, clock=lambda: now)
    assert caught.value.option == OPTION
    return caught.value


def test_a_token_without_an_end_is_asked_for_each_time(give: Give) -> None:
    answers = iter(["one", "two"])
    callback = give(lambda: next(answers))
    assert [bearer_token(callback) for _ in range(2)] == ["one", "two"]


def test_a_token_with_an_end_is_used_until_shortly_before(give: Give) -> None:
    answers = iter([("one", 1100), ("two", 1300.0)])
    callback = give(lambda: next(answers))
    times = [1000.0, 1079.0, 1081.0]
    assert [bearer_token(callback, clock=lambda now=now: now) for now in times] == ["one", "one", "two"]


def test_a_token_that_is_over_is_refused(give: Give) -> None:
    error = refused(give(("secret-token", 900)), now=1000.0)
    assert "ended 100 s ago" in error.reason
    assert "secret-token" not in str(error)


@pytest.mark.parametrize(
    ("answer", "shape"),
    [
        (None, "a NoneType"),
        ("", "an empty text"),
        (b"secret-token", "a bytes"),
        (("secret-token",), "a tuple of str"),
        (("secret-token", "soon"), "a tuple of str, str"),
        (("", 2000.0), "a tuple of str, float"),
        ((), "a tuple of nothing"),
    ],
)
def test_what_is_no_token_is_refused_by_what_it_is(give: Give, answer: object, shape: str) -> None:
    error = refused(give(answer))
    assert f"returned {shape};" in error.reason
    assert "secret" not in str(error)


def test_a_function_that_fails_is_told_by_its_error_s_name_and_place(give: Give) -> None:
    error = refused(give(ValueError("secret-token")))
    assert re.search(r"raised ValueError \(.*test_oauth.py, line \d+\)", error.reason)


def test_what_an_executor_tells_spark_has_no_word_of_the_function_s_error(give: Give) -> None:
    """Spark brings the traceback to the driver's log, with all errors that led to this one."""
    error = refused(give(ValueError("secret-token")))
    assert "secret-token" not in "".join(traceback.format_exception(error))
    assert (error.__cause__, error.__context__) == (None, None)


def test_a_token_that_was_refused_is_not_used_again(give: Give) -> None:
    answers = iter([("one", 2e9), ("two", 2e9)])
    callback = give(lambda: next(answers))
    options = ClientOptions(bootstrap_servers=("b:9092",), sasl_mechanism="OAUTHBEARER", sasl_token_source=callback)
    assert [bearer_token(callback) for _ in range(2)] == ["one", "one"]
    connection_failure(SaslAuthenticationFailedError("no"), options, ("b:9092",), 500)
    assert bearer_token(callback) == "two"


@pytest.mark.parametrize(
    ("callback", "reason"),
    [
        ("no_such_module_of_ours:token", "must be on the driver and on every executor"),
        ("json:no_such_function", "json has no function 'no_such_function'"),
        ("json:__name__", "json has no function"),
    ],
)
def test_a_function_that_is_not_there_is_told(callback: str, reason: str) -> None:
    assert reason in refused(callback).reason


def test_a_token_is_kept_masked(give: Give) -> None:
    bearer_token(give(("secret-token", 2e9)))
    assert "secret-token" not in repr(oauth._kept)


def test_a_token_is_used_to_its_end_while_no_new_one_can_be_had(give: Give) -> None:
    answers: list[object] = [("one", 1100.0), ConnectionError("away"), ("two", 1300.0)]

    def answer() -> object:
        following = answers.pop(0)
        if isinstance(following, Exception):
            raise following
        return following

    callback = give(answer)
    times = [1000.0, 1081.0, 1090.0, 1092.0]
    assert [bearer_token(callback, clock=lambda now=now: now) for now in times] == ["one", "one", "one", "two"]
    assert answers == []


def test_a_token_that_is_over_is_not_used_though_no_new_one_can_be_had(give: Give) -> None:
    answers = iter([("one", 1100.0)])
    callback = give(lambda: next(answers))
    assert bearer_token(callback, clock=lambda: 1000.0) == "one"
    # A broker's clock may be ahead, and what it refuses is final.
    assert "raised StopIteration" in refused(callback, now=1096.0).reason


def test_a_token_that_was_refused_while_a_new_one_was_asked_for_is_not_used_again(give: Give) -> None:
    answers = iter([("one", 1100.0)])

    def answer() -> object:
        for following in answers:
            return following
        oauth.forget_token(callback)
        raise ConnectionError("away")

    callback = give(answer)

    assert bearer_token(callback, clock=lambda: 1000.0) == "one"
    assert "raised ConnectionError" in refused(callback, now=1081.0).reason


def test_a_function_that_hangs_holds_up_no_other_source(give: Give) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hang() -> str:
        begun.set()
        assert go_on.wait(60)
        return "late"

    hanging = give(hang)
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(bearer_token, hanging)
        assert begun.wait(60)
        sys.modules["a_module_of_tokens"].other = lambda: "other"  # type: ignore[attr-defined]
        assert bearer_token("a_module_of_tokens:other") == "other"
        go_on.set()
        assert late.result(60) == "late"
