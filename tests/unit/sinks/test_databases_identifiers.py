"""Names of tables as users write them, and of our own columns."""

from __future__ import annotations

import pytest

from directkafka.sinks.databases import free_name, parse_name


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("flights", ("flights",)),
        ("Public.Flights", ("public", "flights")),
        ('"Public"."Fli.ghts"', ("Public", "Fli.ghts")),
        ('public."say ""hi"""', ("public", 'say "hi"')),
        (" flights ", ("flights",)),
    ],
)
def test_a_name_is_read_as_postgres_reads_it(text: str, parts: tuple[str, ...]) -> None:
    assert parse_name(text) == parts


def test_an_embedded_database_s_name_keeps_its_case() -> None:
    assert parse_name("Flights", parts_max=1, fold=False) == ("Flights",)


@pytest.mark.parametrize("text", ["", ".", "a.", ".b", '""', 'a.""', "a.b.c", '"open', '"a"b'])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a table's name|has an open quote"):
        parse_name(text)


def test_a_column_of_our_own_never_has_a_dataframe_s_name() -> None:
    assert free_name("directkafka_rank", ["id"]) == "directkafka_rank"
    assert free_name("directkafka_rank", ["Directkafka_RANK", "directkafka_rank_"]) == "directkafka_rank__"
