"""Results as text and as JSON."""

from __future__ import annotations

import json
import logging

import pytest

from directkafka.cli.output import Format, print_record, print_records, set_up_logging

RECORDS = [{"sink": "flights", "rows": 336776, "result": "right"}, {"sink": "totals", "rows": 16, "result": "WRONG"}]


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
def test_our_own_log_is_told_more_than_others(verbose: bool, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = logging.getLogger("directkafka"), logging.getLogger("kafka")
    before = (ours.level, theirs.level)
    try:
        set_up_logging(verbose=verbose)
        assert ours.level == level
        assert theirs.level == logging.CRITICAL
    finally:
        ours.setLevel(before[0])
        theirs.setLevel(before[1])
