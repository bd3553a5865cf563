"""A deletion by retention is told before the next one takes what is not read."""

from __future__ import annotations

from tests.unit.planning.snapshots import T0, T1, seen, snapshot

from directkafka.planning.loss import near_losses

BEFORE = snapshot({T0: seen(0, 1000), T1: seen(0, 1000)})


def test_a_deletion_as_large_as_the_last_one_that_would_reach_unread_records_is_told() -> None:
    now = snapshot({T0: seen(400, 1200), T1: seen(400, 1200)})
    warnings = near_losses({T0: 800, T1: 801}, BEFORE, now)
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{T0}: ")
    for number in ("deleted 400 offsets", "starts at 400", "is at 800", "400 waiting", "retention.ms"):
        assert number in warnings[0]


def test_a_log_that_stands_still_warns_nobody() -> None:
    assert near_losses({T0: 0, T1: 0}, BEFORE, BEFORE) == ()


def test_who_has_read_everything_has_nothing_to_lose() -> None:
    assert near_losses({T0: 1000}, BEFORE, snapshot({T0: seen(1000, 1000)})) == ()


def test_what_is_lost_already_is_not_a_warning_any_more() -> None:
    assert near_losses({T0: 300}, BEFORE, snapshot({T0: seen(400, 1000)})) == ()


def test_a_topic_made_again_or_gone_is_not_retention() -> None:
    assert near_losses({T0: 450}, BEFORE, snapshot({T0: seen(400, 1000, topic_id="id-2")})) == ()
    assert near_losses({T0: 450}, BEFORE, snapshot({})) == ()
