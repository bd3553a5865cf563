"""Rows as SQL."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from directkafka.errors import RowRejectedError
from directkafka.sinks.deletes import Deletes
from directkafka.sinks.mysql import values_encoder
from directkafka.sinks.mysql.values_encoder import ValuesEncoder


def encoder(packet_bytes_max: int = 1 << 24, attempt: str = "") -> ValuesEncoder:
    return ValuesEncoder(store="db", sink="t", packet_bytes_max=packet_bytes_max, attempt=attempt)


def test_values_are_literals_and_nulls_are_null() -> None:
    at = datetime(2013, 1, 1, 5, 0, 0, 123456, UTC)
    batch = pa.record_batch(
        {
            "text": pa.array(["it's \\ \n\0 é", None]),
            "bytes": pa.array([b"\x00'\\\xff", None]),
            "int": pa.array([-7, None], pa.int64()),
            "real": pa.array([0.1, None], pa.float32()),
            "price": pa.array([Decimal("1.50"), None]),
            "flag": pa.array([True, None]),
            "day": pa.array([date(2013, 1, 1), None]),
            "at": pa.array([at, None], pa.timestamp("us", "UTC")),
            "word": pa.array(["a", None]).dictionary_encode(),
        }
    )
    (statement,) = encoder().statements("INSERT INTO t VALUES", batch)
    assert statement == (
        "INSERT INTO t VALUES ('it\\'s \\\\ \n\0 é',_binary'\0\\'\\\\".encode()
        + b"\xff',-7,0.10000000149011612,'1.50',1,'2013-01-01','2013-01-01 05:00:00.123456','a'),"
        + b"(NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL)"
    )


def test_a_text_that_an_enum_does_not_have_is_refused_though_it_is_the_number_of_a_member() -> None:
    encoded = replace(encoder(), members={"kind": ("a", "b", "10")})
    (statement,) = encoded.statements("INSERT", pa.record_batch({"kind": ["b", None, "10"], "more": ["2", "2", "2"]}))
    assert statement == b"INSERT ('b','2'),(NULL,'2'),('10','2')"
    for text in ("2", "0", "A", ""):
        batch = pa.record_batch({"kind": pa.array(["a", text]).dictionary_encode()})
        with pytest.raises(RowRejectedError, match=f"column 'kind': '{text}' is none of the texts that its ENUM has"):
            list(encoded.statements("INSERT", batch))


def test_a_question_mark_in_an_enum_stands_for_any_character() -> None:
    encoded = replace(encoder(), members={"kind": ("a", "?", "b?.")})
    assert list(encoded.statements("INSERT", pa.record_batch({"kind": ["a", "é", "🚀", "b🚀.", "b?.", None]})))
    for text in ("22", " 1", "+2", "a ", "b?x", "", "éé"):
        with pytest.raises(RowRejectedError, match="none of the texts"):
            list(encoded.statements("INSERT", pa.record_batch({"kind": ["a", text]})))


def test_a_null_that_would_be_the_time_of_now_is_refused_unless_its_row_deletes_another() -> None:
    encoded = replace(encoder(), never_null=("at",))
    at = pa.array([datetime(2013, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC"))
    assert list(
        encoded.statements("INSERT", pa.record_batch({"at": at.slice(0, 1), "gone": pa.array([None], pa.bool_())}))
    )
    with pytest.raises(RowRejectedError, match="column 'at': a null, and its TIMESTAMP is NOT NULL"):
        list(encoded.statements("INSERT", pa.record_batch({"at": at})))
    deleting = replace(encoded, deletes=Deletes(column="gone"))
    assert list(deleting.statements("INSERT", pa.record_batch({"at": at, "gone": [False, True]})))
    with pytest.raises(RowRejectedError, match="NOT NULL"):
        list(deleting.statements("INSERT", pa.record_batch({"at": at, "gone": pa.array([True, None])})))
    truncating = replace(encoded, deletes=Deletes(column="gone", truncates=True))
    assert list(truncating.statements("INSERT", pa.record_batch({"at": at, "gone": [False, False], "op": ["c", "t"]})))
    with pytest.raises(RowRejectedError, match="NOT NULL"):
        list(truncating.statements("INSERT", pa.record_batch({"at": at, "gone": [False, False], "op": ["t", None]})))


def test_a_small_decimal_is_no_double() -> None:
    batch = pa.record_batch({"n": pa.array([Decimal("0.000000123456789012345678901234")], pa.decimal128(38, 30))})
    (statement,) = encoder().statements("INSERT", batch)
    (text,) = re.findall(rb"'([^']*)'", statement)
    assert Decimal(text.decode()) == Decimal("0.000000123456789012345678901234")


@pytest.mark.parametrize(
    "column",
    [
        # Arrow would write the year 2030.
        pa.array([2_070_000_000_000_000_000], pa.timestamp("us", "UTC")),
        pa.array([-62_135_596_800_001], pa.timestamp("ms")),
        pa.array([253_402_300_800], pa.timestamp("s")),
        pa.array([None, 2_932_897], pa.int32()).cast(pa.date32()),
    ],
    ids=str,
)
def test_a_year_that_no_text_has_is_refused(column: pa.Array) -> None:
    with pytest.raises(RowRejectedError, match=f"outside the years 1 to 9999 .row {len(column) - 1} "):
        list(encoder().statements("INSERT", pa.record_batch({"at": column})))


def test_the_first_and_the_last_year_are_taken() -> None:
    at = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)]
    batch = pa.record_batch({"at": pa.array(at, pa.timestamp("us")), "day": pa.array([date.min, date.max])})
    (statement,) = encoder().statements("INSERT", batch)
    assert b"'9999-12-31 23:59:59.999999','9999-12-31'" in statement
    assert list(
        encoder().statements(
            "INSERT", pa.record_batch({"ns": pa.array([2**63 // 1000 * 1000 - 1000], pa.timestamp("ns"))})
        )
    )


def test_an_attempt_is_added_to_each_row() -> None:
    (statement,) = encoder(attempt="ab" * 16).statements("INSERT", pa.record_batch({"n": [1, 2]}))
    assert statement == f"INSERT (1,x'{'ab' * 16}'),(2,x'{'ab' * 16}')".encode()


def test_many_rows_become_several_statements_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values_encoder, "_STATEMENT_BYTES", 100)
    monkeypatch.setattr(values_encoder, "_ROWS_MAX", 300)
    batch = pa.record_batch({"n": list(range(1000))}).slice(7)
    statements = list(encoder().statements("INSERT", batch))
    assert max(map(len, statements)) <= 107
    assert [int(number) for text in statements for number in re.findall(rb"\d+", text)] == list(range(7, 1000))


def test_a_row_that_no_statement_can_hold_is_refused_with_the_numbers() -> None:
    batch = pa.record_batch({"n": ["x" * 2000]})
    with pytest.raises(RowRejectedError, match="2011 bytes, and the server takes 1024 at most"):
        list(encoder(packet_bytes_max=1024).statements("INSERT", batch))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_mysql_does_not_have_are_refused(value: float) -> None:
    with pytest.raises(RowRejectedError, match="column 'x': NaN or an infinity"):
        list(encoder().statements("INSERT", pa.record_batch({"x": [1.0, value]})))
