"""A sink's configuration: one class gives its arguments, their checks and their documentation."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from directkafka import DuckDBSink, FilesSink, KafkaSink, ParquetSink, PostgresSink
from directkafka.errors import OptionError
from directkafka.sinks.postgres.config import PostgresConfig


def test_arguments_come_in_the_order_of_the_configuration() -> None:
    sink = PostgresSink("host=db", "flights", "upsert", ["id"], None, ["at"], connections_max=3)
    assert (sink.table, sink.mode, sink.key, sink.order, sink.connections_max) == (
        "flights",
        "upsert",
        ["id"],
        ["at"],
        3,
    )
    assert str(inspect.signature(PostgresSink)) == (
        "(dsn: 'str', table: 'str', mode: \"Literal['append', 'ignore', 'upsert', 'merge', 'replace']\" = 'append', "
        "key: 'Sequence[str] | None' = None, add: 'Sequence[str] | None' = None, order: 'Sequence[str] | None' = None, "
        "*, delete: 'str | None' = None, delete_how: \"Literal['hard', 'soft']\" = 'hard', "
        "delete_time: 'str | None' = None, truncate: 'bool' = False, "
        "inline_bytes_max: 'int' = 67108864, connections_max: 'int' = 8, "
        "schema_policy: \"Literal['fail', 'add-columns']\" = 'fail', staging_schema: 'str | None' = None) -> None"
    )


def test_what_is_given_is_kept_as_it_is(tmp_path: Path) -> None:
    assert DuckDBSink(tmp_path / "air", "flights", "ignore", ("id",)).key == ("id",)


@pytest.mark.parametrize(
    ("arguments", "named", "option", "reason"),
    [
        (("host=db",), {}, "table", "this argument is missing"),
        (("host=db", "t"), {"conections_max": 3}, "conections_max", "did you mean 'connections_max'"),
        (("host=db", "t"), {"x": 3}, "x", "known are dsn, table, mode"),
        (("host=db", "t"), {"connections_max": 0}, "connections_max", "greater than or equal to 1"),
        (("host=db", "t"), {"connections_max": True}, "connections_max", "valid integer"),
        (("host=db", "t"), {"connections_max": "3"}, "connections_max", "valid integer"),
        (("host=db", "t", "apend"), {}, "mode", "'append', 'ignore', 'upsert', 'merge' or 'replace'"),
        (("host=db", "t"), {"key": "id"}, "key", "valid list"),
        (("host=db", "t"), {"key": ["id", 1]}, "key.1", "valid string"),
        (("host=db", "t", "append", None, None, None, 3), {}, "delete", "give it by its name"),
        (("host=db", "t"), {"delete_how": "later"}, "delete_how", "'hard' or 'soft'"),
        ((None, "t"), {}, "dsn", "valid string"),
    ],
)
def test_a_wrong_argument_is_told_by_its_name(arguments: Any, named: Any, option: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason) as caught:
        PostgresSink(*arguments, **named)
    assert (caught.value.option, caught.value.where) == (option, "PostgresSink")


def test_all_wrong_arguments_are_told_at_once_and_no_value_with_them() -> None:
    with pytest.raises(OptionError) as caught:
        PostgresSink("password=hunter2", 5, connections_max=-1, key=[b"hunter2"])  # type: ignore[arg-type, list-item]
    told = str(caught.value)
    assert [name in told for name in ("'table'", "'connections_max'", "'key.0'")] == [True] * 3
    assert "hunter2" not in told
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_a_choice_that_is_none_says_why(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"'append'\. Committed files are never changed.* use a Delta table"):
        FilesSink(tmp_path, "merge")  # type: ignore[arg-type]


def test_a_subclass_with_arguments_of_its_own_keeps_what_it_has_set() -> None:
    class Own(KafkaSink):
        def __init__(self, number: int) -> None:
            self.number = number
            super().__init__({"bootstrap.servers": "one:1"}, f"topic-{number}")

    assert (Own(7).number, Own(7).topic) == (7, "topic-7")


def test_the_docstring_says_what_each_argument_is_for_before_what_is_raised() -> None:
    text = inspect.getdoc(PostgresSink) or ""
    assert 0 < text.index("Args:\n    dsn: libpq") < text.index("connections_max:") < text.index("Raises:")
    assert list(PostgresConfig.__pydantic_fields__)[-1] == "staging_schema"


def test_the_sink_of_files_has_its_former_name_too() -> None:
    assert ParquetSink is FilesSink
