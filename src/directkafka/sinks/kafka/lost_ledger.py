"""A ledger that is gone or empty although the pipeline has run before: begun anew, it would write all rows again.

Kafka forgets nothing of a pipeline's transactional id for 7 days (``transactional.id.expiration.ms``). So an id under
which something may have been committed, beside a ledger without a record, means that somebody deleted the topic, or
that it was deleted and made again (by hand, or by a broker with ``auto.create.topics.enable``), or that its records
were deleted. Only a **yes that names the empty topic by its id** begins anew: a yes that is left in a pipeline's file
does not count for a topic that is made some day in this one's place.

What looks alike and is none of this, told as events:

- A driver has made the topic a moment ago, and the broker that is asked has not heard of it yet: it is asked again.
- A driver is fencing for the first time: it has the id, and its record is not committed yet, or its markers are on
  their way. Until the first transaction is committed the id stays at epoch 0, or a record is there in a moment.
- A driver died at its first fence, perhaps twice: the log begins at 0 and has an aborted record; what was committed
  would still be there, since a compacted topic keeps the newest record of each key.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from directkafka.errors import SchemaMismatchError
from directkafka.kafka.transactions.coordinator import Coordinator
from directkafka.sinks.kafka.ledger_topic import LedgerTopic

log = logging.getLogger("directkafka.sinks.kafka.store")

#: How long a broker may not have heard of a topic, or of a commit, that is another driver's of just now.
_UNHEARD_S_MAX: Final = 3.0
_LOOK_S: Final = 0.2

_DANGER: Final = (
    "and the pipeline has run before: begun anew, it would write all its rows again. Find out what is committed. To "
    "begin anew all the same, give the pipeline another name, or"
)


def check_is_not_lost(ledger: LedgerTopic, coordinator: Coordinator, *, accepted: str | None) -> None:
    """Refuse to begin anew unless nothing was ever committed, or the user says so.

    Args:
        ledger: the pipeline's.
        coordinator: of its transactional id; nobody has taken the id over yet.
        accepted: id of the ledger's topic that may be empty, from the sink's option.

    Raises:
        SchemaMismatchError: says what is lost, and how to begin anew.
    """
    deadline = time.monotonic() + _UNHEARD_S_MAX
    while (problem := _problem(ledger, coordinator, accepted)) is not None:
        if time.monotonic() > deadline:
            raise problem
        time.sleep(_LOOK_S)


def _problem(ledger: LedgerTopic, coordinator: Coordinator, accepted: str | None) -> SchemaMismatchError | None:
    if not ledger.exists():
        if not coordinator.is_known():
            return None
        return ledger.wrong(
            f"is gone, {_DANGER} make the topic: kafka-topics.sh --create --topic {ledger.place.topic} --partitions 1 "
            "--config cleanup.policy=compact; the next start says how to go on"
        )
    if ledger.read_stable_tail().generation > 0 or ledger.has_only_failures() or not coordinator.may_have_committed():
        return None
    topic_id = ledger.topic_id()
    if accepted == topic_id:
        log.warning("%s is empty and begins anew, as accept_empty_ledger says", ledger.place.topic)
        return None
    return ledger.wrong(
        f"is empty, {_DANGER} set the sink's option accept_empty_ledger to {topic_id!r}, the id of this empty topic"
    )
