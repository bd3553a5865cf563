"""The command ``dashboard``: a page in the browser about pipelines, wherever they run. It starts no Spark."""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated
from urllib.parse import quote

import typer

from directkafka.cli.app import app
from directkafka.cli.commands import FormatOption, VerboseOption
from directkafka.cli.env_file import EnvFileOption
from directkafka.cli.output import Format, print_record, set_up_logging
from directkafka.errors import OptionError

#: A token of the user's own, for a page that others reach; without it one is made at each start.
TOKEN_VARIABLE = "DIRECTKAFKA_DASHBOARD_TOKEN"
_TOKEN_BYTES = 18
_EVERY_S_MIN = 0.5
_TOKEN_CHARACTERS_MIN = 16
#: How late a signal may be noticed, in seconds.
_LOOK_S = 1.0


@app.command(
    epilog="Examples:\n\n  directkafka dashboard flights.toml\n\n"
    "  directkafka dashboard flights.toml orders.toml --http 127.0.0.1:8081 --every 2s\n\n"
    "  directkafka dashboard flights.toml --allow-changes"
)
def dashboard(  # noqa: PLR0917 - typer gives them by name
    files: Annotated[list[Path], typer.Argument(help="Pipeline files (TOML).", metavar="FILE", show_default=False)],
    http: Annotated[
        str, typer.Option("--http", metavar="HOST:PORT", help="Where to serve it; port 0 takes a free one.")
    ] = "127.0.0.1:8080",
    every: Annotated[str, typer.Option("--every", help="How often ledgers and Kafka are looked at.")] = "5s",
    stalled_after: Annotated[
        str, typer.Option("--stalled-after", help="How long nothing may be committed while records are unread.")
    ] = "10m",
    behind_after: Annotated[
        str, typer.Option("--behind-after", help="How old an unread record may be until its pipeline is behind.")
    ] = "1m",
    allow_changes: Annotated[
        bool,
        typer.Option(
            "--allow-changes", help=f"Let the page pause and reset, with a token (yours is in {TOKEN_VARIABLE})."
        ),
    ] = False,
    env_file: EnvFileOption = None,
    form: FormatOption = Format.TEXT,
    verbose: VerboseOption = False,
) -> None:
    """Show pipelines in a browser, until a signal comes: lag over time, batches, dead letters, effects of a reset."""
    from directkafka.monitoring.http import serve_dashboard
    from directkafka.planning.trigger import parse_duration_ms

    set_up_logging(verbose=verbose)
    every_s = parse_duration_ms(every, option="--every") / 1000
    if every_s < _EVERY_S_MIN:
        raise OptionError(option="--every", reason=f"expected {_EVERY_S_MIN} s or more, found {every}")
    token = _token() if allow_changes else None
    with serve_dashboard(
        files,
        http,
        option="--http",
        every_s=every_s,
        stalled_after_s=parse_duration_ms(stalled_after, option="--stalled-after") / 1000,
        behind_after_s=parse_duration_ms(behind_after, option="--behind-after") / 1000,
        token=token,
    ) as server:
        # Behind a #, where no server and no log sees the token.
        page = f"http://{server.address}/" + (f"#token={quote(token, safe='')}" if token else "")
        print_record({"page": page}, form, text=page)
        _wait_for([signal.SIGTERM, signal.SIGINT])


def _token() -> str:
    given = os.environ.get(TOKEN_VARIABLE)
    if given is not None and (len(given) < _TOKEN_CHARACTERS_MIN or not given.isascii() or not given.isprintable()):
        raise OptionError(option=TOKEN_VARIABLE, reason=f"expected {_TOKEN_CHARACTERS_MIN} or more characters of ASCII")
    return given or secrets.token_urlsafe(_TOKEN_BYTES)


def _wait_for(numbers: Sequence[signal.Signals]) -> None:
    asked = threading.Event()

    def ask_to_end(_number: int, _frame: FrameType | None) -> None:
        asked.set()

    previous = {number: signal.signal(number, ask_to_end) for number in numbers}
    try:
        # Not without an end: a signal that another thread is given is handled when this one runs again.
        while not asked.wait(_LOOK_S):
            pass
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
