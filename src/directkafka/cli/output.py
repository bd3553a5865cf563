"""The output of commands: data to stdout as text or JSON, messages to stderr."""

from __future__ import annotations

import csv
import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from directkafka.plain_text import PlainFormatter, message, one_line

if TYPE_CHECKING:
    from directkafka.pipeline.status import PipelineStatus


class Format(StrEnum):
    """What stdout carries."""

    TEXT = "text"
    JSON = "json"


class LogFormat(StrEnum):
    """What the lines on stderr are."""

    TEXT = "text"
    JSON = "json"


class _Messages(Console):
    """A console that nobody has to read: rich's own ends the program when its pipe is closed, a signal handler too."""

    def on_broken_pipe(self) -> None:
        """Say nothing more."""
        self.quiet = True
        # What could not be written is written again at Python's exit, which would then end with 120. This is the way
        # out that Python's documentation gives (module signal, "Note on SIGPIPE").
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)


#: Where messages, progress and errors go; :func:`say` for what may hold words of others.
messages = _Messages(stderr=True, highlight=False, markup=False, emoji=False)


_PIPE_COLUMNS = 250

#: Where data goes once :func:`claim_stdout` was called.
_claimed: TextIO | None = None

#: How lines are made where they are JSON; messages are log lines then.
_json_lines: JsonFormatter | None = None


def claim_stdout() -> None:
    """Keep stdout for data: whatever else this process and its JVM print there goes to stderr from now on.

    A transform that prints, or a Spark that logs to its console, must not stand between two lines of JSON.
    """
    global _claimed  # noqa: PLW0603 - there is one stdout in a process
    if _claimed is None:
        sys.stdout.flush()
        _claimed = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
        os.dup2(2, 1)


def is_drawn_on() -> bool:
    """Whether stdout and stderr are a terminal, so that something may be drawn there and be seen by somebody."""
    return _data().isatty() and messages.is_terminal and _json_lines is None


@contextmanager
def warnings_alone() -> Iterator[None]:
    """Log nothing below WARNING in the block, and the rest above what is drawn."""
    handler = _MessageHandler(level=logging.WARNING)
    handler.setFormatter(PlainFormatter())
    handler.addFilter(lambda record: not _is_of_py4j(record))
    root = logging.getLogger()
    before = root.handlers[:]
    root.handlers[:] = [handler]
    try:
        yield
    finally:
        root.handlers[:] = before


class _MessageHandler(logging.Handler):
    """Prints by the console of messages, which knows where something is drawn."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line."""
        messages.print(Text(self.format(record)), soft_wrap=True)


def say(text: str, *, label: str = "", style: str = "") -> None:
    """A message to stderr, for people.

    Args:
        text: may hold what a record, a broker or a database says: it is shown, and does nothing.
        label: a word before it, in ``style``.
        style: of the label; of the text when there is no label.
    """
    if _json_lines is not None:
        level = logging.ERROR if "red" in style else logging.WARNING if style else logging.INFO
        logging.getLogger("directkafka.cli").log(level, "%s", f"{label} {text}" if label else text)
        return
    shown = Text.assemble((label, style), " ", message(text)) if label else Text(message(text), style)
    messages.print(shown, soft_wrap=True)


def print_record(record: Mapping[str, Any], form: Format, *, text: str) -> None:
    """One result: a JSON object on a line, or the text."""
    print(_json(record) if form is Format.JSON else message(text), file=_data(), flush=True)


def print_records(
    records: Sequence[Mapping[str, Any]], form: Format, *, title: str, has_capitals: bool = False
) -> None:
    """Several results of one shape: JSON lines, or a table.

    Args:
        records: the results; their names are the table's heads.
        form: what stdout carries.
        title: of the table.
        has_capitals: whether the heads are written as Kafka's own tools write theirs (``LAG_SECONDS``).
    """
    if form is Format.JSON:
        for record in records:
            print(_json(record), file=_data(), flush=True)
        return
    # As text: a title may hold a path or a pipeline's name, in which brackets are no markup.
    table = Table(title=Text(one_line(title), style="table.title"), title_justify="left")
    for column in records[0] if records else ():
        is_number = any(isinstance(record[column], int | float) for record in records)
        head = column.upper() if has_capitals else column.replace("_", " ")
        table.add_column(head, justify="right" if is_number else "left")
    for record in records:
        table.add_row(*(_shown(value) for value in record.values()))
    # A pipe has no width: a table there is as wide as it needs, and not cut to a terminal's 80 columns.
    Console(file=_data(), width=None if _data().isatty() else _PIPE_COLUMNS).print(table)


def print_csv(rows: Iterable[Sequence[object]]) -> None:
    """Lines of comma-separated values, without heads."""
    csv.writer(_data(), lineterminator="\n").writerows(rows)
    _data().flush()


def _json(record: Mapping[str, Any]) -> str:
    # The encoder escapes what is not ASCII, and all controls of ASCII. (Nothing is cut: it is data.)
    return json.dumps(record)


def _data() -> TextIO:
    return _claimed or sys.stdout


def set_up_logging(*, verbose: bool, log_format: LogFormat = LogFormat.TEXT) -> None:
    """Log lines to stderr: ours at INFO, everybody else's at WARNING; with ``verbose``, ours at DEBUG.

    Args:
        verbose: whether more is logged.
        log_format: with JSON, each message of :func:`say` is a log line, too.
    """
    global _json_lines  # noqa: PLW0603 - there is one stderr in a process
    _json_lines = JsonFormatter() if log_format is LogFormat.JSON else None
    logging.basicConfig(level=logging.WARNING, handlers=[_log_handler(_json_lines or PlainFormatter())])
    logging.getLogger("directkafka").setLevel(logging.DEBUG if verbose else logging.INFO)
    # kafka-python's and Py4J's loggers repeat as errors what reaches the user as one of ours, with the remedy.
    for name in ("kafka", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def log_lines_are_of(status: PipelineStatus) -> None:
    """From here on, name a pipeline, its generation and its batch in lines of JSON.

    Args:
        status: of the pipeline that this process is for.
    """
    if _json_lines is not None:
        _json_lines.status = status


class JsonFormatter(logging.Formatter):
    """Log lines as objects of JSON, one a line; words of others are shown as :func:`message` shows them."""

    def __init__(self) -> None:
        super().__init__()
        #: Of the pipeline that lines are of, once it is known.
        self.status: PipelineStatus | None = None

    def format(self, record: logging.LogRecord) -> str:
        """The line: ``time`` (UTC), ``level``, ``logger``, ``message``; and what is known of the pipeline."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": message(record.getMessage()),
        }
        if self.status is not None:
            view = self.status.view
            fields |= {"pipeline": view.pipeline, "generation": view.generation, "batch": view.batch_id}
        if record.name.startswith("directkafka."):  # others may have fields of these names
            fields |= {name: getattr(record, name) for name in ("generation", "batch") if hasattr(record, name)}
            if hasattr(record, "ranges"):
                fields["ranges"] = [asdict(read) for read in record.ranges]
        if record.exc_info:
            fields["traceback"] = message(self.formatException(record.exc_info))
        return json.dumps(fields, default=str)


def _log_handler(formatter: logging.Formatter) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(lambda record: not _is_of_py4j(record))
    return handler


def _is_of_py4j(record: logging.LogRecord) -> bool:
    """Whether Py4J speaks by the root logger, as it does with a traceback when the JVM is gone."""
    return record.name == "root" and Path(record.pathname).parent.name == "py4j"


def _shown(value: Any) -> Text:
    if value is None:
        return Text("-")
    if isinstance(value, bool):
        return Text("yes" if value else "NO")
    if isinstance(value, float):
        return Text(f"{value:,.1f}")
    return Text(f"{value:,}" if isinstance(value, int) else one_line(str(value)))
