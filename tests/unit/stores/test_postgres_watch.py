"""What is said of sessions that are in the way."""

from __future__ import annotations

import pytest

from directkafka.stores.postgres_watch import Blocker, Wait, statement_kind


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


def test_a_blocker_is_told_as_far_as_it_may_be_seen() -> None:
    seen = Blocker(pid=7, user="app", application="psql", state="active", state_s=12, statement="VACUUM FULL")
    assert str(seen) == "process 7 (user 'app', application 'psql', active for 12 s, last statement VACUUM FULL)"
    assert str(Blocker(pid=7, user="app")) == "process 7 (user 'app')"
    assert str(Blocker(pid=7)) == "process 7 (gone now)"
    assert str(Blocker(pid=0)) == "a prepared transaction (see pg_prepared_xacts)"


def test_a_wait_for_a_standby_is_no_lock() -> None:
    assert not Wait(event="SyncRep").is_lock
    assert "standby" in str(Wait(event="SyncRep"))
    assert str(Wait(event="relation", lock="ShareLock on t", blockers=(Blocker(pid=7),))).startswith("ShareLock on t ")
