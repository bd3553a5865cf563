"""What is told of statements in the way."""

from __future__ import annotations

import pytest

from directkafka.sinks.session_watch import statement_kind


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("LOCK TABLE flights", "LOCK TABLE"),
        ("vacuum (full, analyze) flights", "VACUUM FULL"),
        ("VACUUM FULL flights", "VACUUM FULL"),
        ("alter table flights add x text default 'secret'", "ALTER TABLE"),
        ("SELECT 'secret'", "SELECT"),
        ("ALTER ROLE app PASSWORD 'secret'", "ALTER ROLE"),
        ("-- secret\n /* secret */ UPDATE flights SET a = 'secret'", "UPDATE"),
        ("/* secret that never ends", ""),
        ("<insufficient privilege>", ""),
        ("", ""),
    ],
)
def test_a_statement_is_told_by_its_kind(query: str, kind: str) -> None:
    assert statement_kind(query) == kind
