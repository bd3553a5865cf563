"""Modes and their columns: what makes sense together, and what is said where it does not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from directkafka.errors import OptionError
from directkafka.sinks.write_modes import WriteMode


def parse(mode: str, **columns: Any) -> WriteMode:
    return WriteMode.parse(mode, **({"key": None, "add": None, "order": None} | columns), where="a sink")


@pytest.mark.parametrize(
    ("mode", "columns"),
    [
        ("append", {}),
        ("ignore", {}),
        ("ignore", {"key": ["id"]}),
        ("upsert", {"key": ["id"]}),
        ("upsert", {"key": ["id"], "order": ["at", "offset"]}),
        ("merge", {"key": ["id"], "add": ["n"]}),
        ("replace", {}),
    ],
)
def test_what_makes_sense_is_kept_as_tuples(mode: str, columns: dict[str, list[str]]) -> None:
    write_mode = parse(mode, **columns)
    assert write_mode.name == mode
    for name in ("key", "add", "order"):
        assert getattr(write_mode, name) == tuple(columns.get(name, ()))


@pytest.mark.parametrize(
    ("mode", "columns", "option", "reason"),
    [
        ("insert", {}, "mode", "'insert' is none of append, ignore, upsert, merge, replace"),
        ("merge", {"key": ["id"]}, "mode", "merge needs key"),
        ("merge", {"add": ["n"]}, "mode", "merge needs key"),
        ("upsert", {}, "mode", r"upsert needs key = \[\.\.\.\]"),
        ("append", {"key": ["id"]}, "key", "append has no use for a key"),
        ("replace", {"key": ["id"]}, "key", "replace has no use for a key"),
        ("upsert", {"key": ["id"], "add": ["n"]}, "add", "only mode = 'merge' adds"),
        ("merge", {"key": ["id"], "add": ["n"], "order": ["at"]}, "order", "only mode = 'upsert'"),
        ("merge", {"key": ["id"], "add": ["id"]}, "add", "either key or add"),
        ("upsert", {"key": ["id"], "order": ["id"]}, "order", "equal in a column of the key"),
        ("upsert", {"key": "id"}, "key", r"found the text 'id': write \['id'\]"),
        ("upsert", {"key": ["id"], "order": "at"}, "order", "found the text 'at'"),
        ("append", {"delete": "deleted"}, "delete", "only mode = 'upsert' has a key"),
        ("upsert", {"key": ["id"], "delete": "id"}, "delete", "it is no key, no order"),
        ("upsert", {"key": ["id"], "delete_how": "soft"}, "delete_how", "delete = 'column'"),
        ("upsert", {"key": ["id"], "delete_time": "at"}, "delete_time", "delete = 'column'"),
        ("upsert", {"key": ["id"], "truncate": True}, "truncate", "delete = 'column'"),
        ("upsert", {"key": ["id"], "delete": "deleted", "truncate": True}, "truncate", "needs order"),
        (
            "upsert",
            {"key": ["id"], "delete": "deleted", "delete_time": "at"},
            "delete_time",
            "only delete_how = 'soft'",
        ),
        (
            "upsert",
            {"key": ["id"], "delete": "deleted", "delete_how": "soft", "delete_time": "id"},
            "delete_time",
            "neither the key of a row nor its mark is a time",
        ),
        ("upsert", {"key": ["id"], "order": ["at"], "delete": "op", "truncate": True}, "truncate", "the column op"),
    ],
)
def test_what_makes_no_sense_is_refused_by_option(mode: str, columns: dict[str, Any], option: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason) as caught:
        parse(mode, **columns)
    assert (caught.value.option, caught.value.where) == (option, "a sink")


def test_only_append_keeps_as_many_rows_as_came() -> None:
    folded = {mode: WriteMode(name=mode).is_folded for mode in ("append", "ignore", "upsert", "merge", "replace")}
    assert folded == {"append": False, "ignore": True, "upsert": True, "merge": True, "replace": True}


def test_columns_that_the_dataframe_lacks_are_named_once() -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.int64())])
    mode = parse("upsert", key=["id", "day"], order=["at", "offset"])
    assert mode.column_problems(schema) == [
        "the DataFrame has no column 'day' (key, add, order)",
        "the DataFrame has no column 'offset' (key, add, order)",
    ]


def test_merge_has_no_place_for_other_columns() -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("name", pa.string())])
    (problem,) = parse("merge", key=["id"], add=["n"]).column_problems(schema)
    assert "'name' is neither key nor add" in problem
    assert parse("upsert", key=["id"]).column_problems(schema) == []


SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.int64()), ("deleted", pa.bool_()), ("op", pa.string())])


@pytest.mark.parametrize(
    ("options", "stored", "taken"),
    [
        ({}, ["id", "at", "op"], ("at", "deleted")),
        ({"truncate": True}, ["id", "at"], ("at", "deleted")),
        ({"delete_how": "soft"}, ["id", "at", "deleted", "op"], ("at", "deleted")),
        ({"delete_how": "soft", "delete_time": "op"}, ["id", "at", "deleted", "op"], ("at", "deleted", "op")),
        ({"delete_how": "soft", "truncate": True}, ["id", "at", "deleted"], ("at", "deleted")),
    ],
)
def test_columns_that_say_what_is_done_with_a_row_are_not_stored(
    options: dict[str, Any], stored: list[str], taken: tuple[str, ...]
) -> None:
    mode = parse("upsert", key=["id"], order=["at"], delete="deleted", **options)
    assert mode.stored(SCHEMA).names == stored
    assert mode.deletes is not None
    assert mode.deletes.taken(mode.order) == taken
    assert mode.removes_rows is ("delete_how" not in options)
    assert mode.column_problems(SCHEMA) == []


def test_columns_of_deletes_are_checked() -> None:
    mode = parse("upsert", key=["id"], delete="at")
    assert parse("upsert", key=["id"]).stored(SCHEMA) == SCHEMA
    assert mode.column_problems(SCHEMA) == ["column 'at' of type int64 is not boolean (delete)"]
