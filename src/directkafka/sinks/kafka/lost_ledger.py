"""The check for a lost ledger: gone or empty, so that a pipeline that has run before would write all its rows again.

Kafka keeps a pipeline's transactional id for 7 days after its last use (``transactional.id.expiration.ms``). So if
something may have been committed under the id and the ledger has no record, then somebody deleted the topic, or the
topic was deleted and made again (by hand, or by a broker with ``auto.create.topics.enable``), or its records were
deleted. The pipeline begins anew only if the option ``accept_empty_ledger`` **names the empty topic by its id**: an
option that is left in a pipeline's file does not count for a topic that is made later in this one's place.

What looks the same but is no lost ledger:

- A driver has just made the topic, and the broker that is asked does not know it yet: the broker is asked again.
- A driver is fencing for the first time: it has taken the id over, and its record or the commit marker is not written
  yet. Until the first commit the id normally stays at epoch 0; after that, the record appears within a moment.
- A driver died at its first fence, perhaps twice: the log begins at 0 and has only aborted records. A committed record
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

#: For how long a broker may be unaware of a topic or a commit that another driver has just made, in seconds.
_UNHEARD_S_MAX: Final = 3.0
_LOOK_S: Final = 0.2

_DANGER: Final = (
    "and the pipeline has run before: begun anew, it would write all its rows again. Find out what is committed. To "
    "begin anew all the same, give the pipeline another name, or"
)


def check_is_not_lost(ledger: LedgerTopic, coordinator: Coordinator, *, accepted: str | None) -> None:
    """Refuse to begin anew unless nothing can have been committed, or the user accepts the empty topic.

    Args:
        ledger: the pipeline's ledger topic.
        coordinator: the coordinator of its transactional id, before this fence takes the id over.
        accepted: id of the ledger's topic that may be empty: the sink's option ``accept_empty_ledger``.

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
            f"is gone, {_DANGER} make the topic: kafka-topics.sh --create --topic {ledger.topic} --partitions 1 "
            "--config cleanup.policy=compact; the next start says how to go on"
        )
    if ledger.read_stable_tail().generation > 0 or ledger.has_only_failures() or not coordinator.may_have_committed():
        return None
    topic_id = ledger.topic_id()
    if not topic_id:
        return ledger.wrong("is not known to the broker that was asked just now: start again")
    if accepted == topic_id:
        log.warning("%s is empty and begins anew, as accept_empty_ledger says", ledger.topic)
        return None
    return ledger.wrong(
        f"is empty, {_DANGER} set the sink's option accept_empty_ledger to {topic_id!r}, the id of this empty topic"
    )
