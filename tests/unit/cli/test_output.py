"""Results as text and as JSON."""

from __future__ import annotations

import inspect
import json
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import py4j.java_gateway
import pytest
from tests.hostile import HOSTILE, assert_harmless
from tests.processes import run_without_reader_of_stderr

from directkafka.cli import output
from directkafka.cli.output import (
    Format,
    LogFormat,
    log_lines_are_of,
    print_record,
    print_records,
    say,
    set_up_logging,
)
from directkafka.offsets import OffsetRange
from directkafka.pipeline.status import PipelineStatus

each_hostile_value = pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)

RECORDS = [{"sink": "flights", "rows": 336776, "result": "right"}, {"sink": "totals", "rows": 16, "result": "WRONG"}]


def test_a_title_is_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_records(RECORDS, Format.TEXT, title="In /[old]/x[/y].db :boom:")
    assert "In /[old]/x[/y].db :boom:" in capsys.readouterr().out


def test_records_are_a_line_of_json_each(capsys: pytest.CaptureFixture[str]) -> None:
    print_records(RECORDS, Format.JSON, title="ignored")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == RECORDS


def test_records_are_a_table_with_grouped_digits(capsys: pytest.CaptureFixture[str]) -> None:
    print_records(RECORDS, Format.TEXT, title="Rows against offsets")
    shown = capsys.readouterr().out
    assert "Rows against offsets" in shown
    assert "336,776" in shown


def test_a_table_says_in_words_what_json_says_in_values(capsys: pytest.CaptureFixture[str]) -> None:
    print_records(
        [{"is_right": True, "expected_rows": None}, {"is_right": False, "expected_rows": 5}], Format.TEXT, title=""
    )
    shown = capsys.readouterr().out
    assert [word in shown for word in ("is right", "expected rows", "yes", "NO", "-", "5")] == [True] * 6
    assert "None" not in shown


def test_no_records_are_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_records([], Format.TEXT, title="Nothing")
    print_records([], Format.JSON, title="Nothing")
    assert "{" not in capsys.readouterr().out


def test_one_record_is_its_text_or_its_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_record({"notes": []}, Format.TEXT, text="ready to run")
    print_record({"notes": []}, Format.JSON, text="ready to run")
    assert capsys.readouterr().out.splitlines() == ["ready to run", '{"notes": []}']


@pytest.mark.parametrize(("verbose", "level"), [(False, logging.INFO), (True, logging.DEBUG)])
def test_our_own_log_is_told_more_than_others(verbose: bool, level: int) -> None:
    set_up_logging(verbose=verbose)
    assert logging.getLogger("directkafka").level == level
    assert logging.getLogger("kafka").level == logging.CRITICAL


def test_what_py4j_says_of_a_jvm_that_is_gone_is_not_shown() -> None:
    """It says it with the root logger, which has no level of its own to be set."""

    def is_shown(module: ModuleType) -> bool:
        record = {"name": "root", "pathname": module.__file__, "msg": "Exception while sending command."}
        return bool(output._log_handler(logging.Formatter()).filter(logging.makeLogRecord(record)))

    assert "logging.exception(" in inspect.getsource(py4j.java_gateway), "by now it has a logger for that"
    assert not is_shown(py4j.java_gateway)
    assert is_shown(output)


@each_hostile_value
def test_a_hostile_message_is_text(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(value)
    say(value, label="error", style="bold red")
    assert_harmless(capsys.readouterr().err)


@each_hostile_value
def test_a_hostile_value_in_a_table_is_text_and_in_json_is_itself(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"reason": value, "letters": 1}
    print_records([record], Format.TEXT, title="Dead letters")
    print_record(record, Format.TEXT, text=value)
    assert_harmless(capsys.readouterr().out)
    print_records([record], Format.JSON, title="Dead letters")
    print_record(record, Format.JSON, text="")
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [record, record]
    assert all(line.isascii() and line.isprintable() for line in lines)


@pytest.fixture
def new_log(monkeypatch: pytest.MonkeyPatch) -> Callable[[LogFormat], logging.Logger]:
    """A root logger as a new process has it: pytest's own handlers aside, one that writes to what is captured."""
    monkeypatch.setattr(output, "_json_lines", None)
    ours, theirs, root = (logging.getLogger(name) for name in ("directkafka", "kafka", None))
    for logger in (ours, theirs, root):
        monkeypatch.setattr(logger, "level", logger.level)

    def set_up(log_format: LogFormat) -> logging.Logger:
        monkeypatch.setattr(root, "handlers", [])
        set_up_logging(verbose=False, log_format=log_format)
        return logging.getLogger("directkafka.pipeline")

    return set_up


def log_words(log: logging.Logger, value: str) -> None:
    """A line with somebody else's words in it, and one whose trace has them."""
    log.warning("a row is refused: %s", value)
    try:
        raise ValueError(value)
    except ValueError:
        log.exception("its trace")


@each_hostile_value
def test_a_hostile_log_line_stays_one_entry_of_the_log(
    value: str, new_log: Callable[[LogFormat], logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    log = new_log(LogFormat.TEXT)
    log_words(log, value)
    shown = capsys.readouterr().err
    assert_harmless(shown)
    entries = [line for line in shown.splitlines() if not line.startswith("    ")]
    assert len(entries) == 2
    assert all(re.match(r"\d{4}-\d\d-\d\d .* (WARNING|ERROR) directkafka.pipeline: ", line) for line in entries)


@each_hostile_value
def test_a_hostile_log_line_is_one_object_of_json_that_does_nothing(
    value: str, new_log: Callable[[LogFormat], logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    log = new_log(LogFormat.JSON)
    log_words(log, value)
    say(value, label="error", style="bold red")
    shown = capsys.readouterr().err.splitlines()
    assert all(line.isascii() for line in shown)
    lines = [json.loads(line) for line in shown]
    assert [(line["level"], line["logger"]) for line in lines] == [
        ("WARNING", "directkafka.pipeline"),
        ("ERROR", "directkafka.pipeline"),
        ("ERROR", "directkafka.cli"),
    ]
    for line, fields in zip(shown, lines, strict=True):
        assert_harmless(line)
        assert_harmless("".join(map(str, fields.values())))


def test_a_line_of_json_has_its_moment_and_the_pipeline_it_is_of(
    new_log: Callable[[LogFormat], logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    log = new_log(LogFormat.JSON)
    status = PipelineStatus("flights")
    log.info("before")
    log_lines_are_of(status)
    status.fenced(3)
    log.info("a batch", extra={"batch": 8, "ranges": (OffsetRange("air", 0, 5, 9),)})
    first, second = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert set(first) == {"time", "level", "logger", "message"}
    assert abs(datetime.now(UTC) - datetime.fromisoformat(second.pop("time"))) < timedelta(minutes=1)
    assert second == {
        "level": "INFO",
        "logger": "directkafka.pipeline",
        "message": "a batch",
        "pipeline": "flights",
        "generation": 3,
        "batch": 8,
        "ranges": [{"topic": "air", "partition": 0, "from_offset": 5, "until_offset": 9}],
    }


def test_markup_in_a_reason_does_not_end_a_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    print_records([{"reason": "12 [/min]", "letters": 1}], Format.TEXT, title="Dead letters")
    assert "12 [/min]" in capsys.readouterr().out


def test_commands_print_through_one_place() -> None:
    """``messages`` is for progress bars; what is said goes through ``say``, which shows words of others as text."""
    folder = Path(output.__file__).parent
    files = [path for path in folder.rglob("*.py") if path != Path(output.__file__)]
    prints = {path.name: re.findall(r"\bmessages\.print\b|\bsys\.std(?:out|err)\b", path.read_text()) for path in files}
    assert {name: matches for name, matches in prints.items() if matches} == {}


def test_a_message_that_nobody_reads_ends_nothing() -> None:
    program = "from directkafka.cli.output import say; say('one'); say('two'); print('went on')"
    assert run_without_reader_of_stderr(program) == (0, "went on\n")
