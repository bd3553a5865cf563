"""A loss is believed when a second look shows it too.

A new leader's high watermark lags for a moment, and any broker may answer with old metadata (KAFKA-7703): what seems to
be gone may be there half a second later.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from directkafka.errors import DataLossError
from directkafka.planning.loss import Condition, Loss
from directkafka.planning.plan import BatchPlan
from directkafka.view import ClusterView

__all__ = ["SECOND_LOOK_S", "believed"]

log = logging.getLogger("directkafka.source")

T = TypeVar("T")

#: How long a loss has to stand until it is believed, in seconds.
SECOND_LOOK_S: Final = 0.5


def believed(
    decide: Callable[[ClusterView], T],
    view: ClusterView,
    *,
    look_again: Callable[[], ClusterView],
    wait: Callable[[float], object] = time.sleep,
    harmless: Collection[Condition] = (),
) -> tuple[ClusterView, T]:
    """Decide from a view, and once more from a fresh one where it shows a loss.

    That losses are accepted (``failOnDataLoss=false``) makes no difference: what a batch goes without because of one
    stale answer would be lost, or come twice.

    Args:
        decide: the decision: raises because of a loss, or returns a plan that goes without what is lost.
        view: what the first look showed.
        look_again: takes a view that no cache has any part in.
        wait: waits so many seconds.
        harmless: losses that are accepted at once: they may stand for days, and nothing is passed over for them.

    Returns:
        The view that counts, and what was decided from it.

    Raises:
        DataLossError: both looks show a loss, and losses are not accepted.
    """
    try:
        decided = decide(view)
        losses = [loss for loss in _losses(decided) if loss.condition not in harmless]
        if not losses:
            return view, decided
        log.warning("looking again, since it may pass: %s", "; ".join(map(str, losses)))
    except DataLossError as loss:
        log.warning("looking again, since it may pass: %s", loss)
    wait(SECOND_LOOK_S)
    again = look_again()
    return again, decide(again)


def _losses(decided: object) -> Collection[Loss]:
    return decided.losses if isinstance(decided, BatchPlan) else ()
