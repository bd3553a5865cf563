"""Requirements of a cluster for one transaction of many writers, and the replicas of its ledgers.

**Versions.** Every broker is asked, since each may lead a partition or become the coordinator. Below 3.6 a leader takes
a late batch of a transaction that has ended, and the transaction that it opens again is ended by nobody (KIP-890). From
3.6 on it asks the coordinator first; the sign of it is AddPartitionsToTxn 4, by which brokers ask each other. A version
that a broker has dropped is as much of a hindrance as one that it does not have yet.

**Verification.** That question can be switched off (``transaction.partition.verification.enable``). It is a warning,
not a refusal: the batch's own rules hold without it, only the transaction of a writer that was cut off may be left
hanging.

**Replicas of a ledger.** Without its ledger a pipeline cannot go on, as without the cluster's own log of transactions,
which an operator has thought about. So it has as many replicas as that
(``transaction.state.log.replication.factor``), whichever brokers happen to be up when it is made. Where the setting may
not be seen: three, or as many as there are brokers now, and that is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from directkafka.errors import EnvironmentFaultError
from directkafka.kafka.admin.configs import Broker
from directkafka.kafka.protocol.api_versions import API_VERSIONS, BROKERS_VERIFY_VERSION, ApiVersions

VERIFICATION: Final = "transaction.partition.verification.enable"
LOG_REPLICAS: Final = "transaction.state.log.replication.factor"
#: Settings of a broker that are looked at.
ASKED: Final = (VERIFICATION, LOG_REPLICAS)

_REPLICAS_WANTED: Final = 3


#: Requests of a driver and its tasks.
_SPOKEN: Final = (
    "Produce",
    "FindCoordinator",
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "TxnOffsetCommit",
)
_RELEASE_MIN: Final = "3.6"


def check_brokers(brokers: Sequence[Broker]) -> tuple[str, ...]:
    """Refuse brokers that are too old, or too new; what else is to be said of them.

    Returns:
        Warnings, a sentence each.

    Raises:
        EnvironmentFaultError: names the brokers, what they speak, and what is needed.
    """
    if problems := [problem for broker in brokers if (problem := _problem(broker))]:
        raise EnvironmentFaultError(
            what="one Kafka transaction for all tasks of a batch cannot be had here: " + "; ".join(problems),
            remedy=f"Brokers must be of Kafka {_RELEASE_MIN} or later (KIP-890), and speak what directkafka speaks: "
            "upgrade them, or directkafka if they are newer.",
        )
    unverified = [
        str(broker.node_id) for broker in brokers if broker.settings.get(VERIFICATION, "true").lower() != "true"
    ]
    if not unverified:
        return ()
    return (
        f"{VERIFICATION} is false at broker {', '.join(unverified)}: a batch that arrives late, from a task that was "
        "cut off, may leave a transaction open there that nobody ends, and read_committed readers wait behind it. Set "
        "it to true, which is Kafka's default (KIP-890)",
    )


def _problem(broker: Broker) -> str:
    """What a broker lacks; empty for nothing."""
    broker_label = f"broker {broker.node_id} at {broker.address}"
    for api in _SPOKEN:
        needed = API_VERSIONS[api]
        lowest, highest = broker.versions.get(needed.key, (-1, -1))
        if highest < needed.version_min:
            spoken = f"up to version {highest}" if highest >= 0 else "not at all"
            return f"{broker_label} speaks {api} {spoken}, needed is {_range(needed)} (Kafka {needed.release})"
        if lowest > needed.version_max:
            return f"{broker_label} speaks {api} from version {lowest} on, needed is {_range(needed)}"
    highest = broker.versions[API_VERSIONS["AddPartitionsToTxn"].key][1]
    if highest < BROKERS_VERIFY_VERSION:
        return (
            f"{broker_label} speaks AddPartitionsToTxn up to version {highest}, needed is {BROKERS_VERIFY_VERSION} "
            f"(Kafka {_RELEASE_MIN})"
        )
    return ""


def _range(versions: ApiVersions) -> str:
    lowest, highest = versions.version_min, versions.version_max
    return f"{lowest} to {highest}" if lowest < highest else str(lowest)


@dataclass(frozen=True, slots=True)
class Replicas:
    """How many replicas a new ledger has, and why.

    Attributes:
        count: how many.
        reason: who says so.
        is_guess: whether nobody does, so that the user should look at it.
    """

    count: int
    reason: str
    is_guess: bool = False


def replicas_of(given: int | None, brokers: Sequence[Broker]) -> Replicas:
    """How many replicas a new ledger is to have.

    Args:
        given: the option ``ledger_replicas``.
        brokers: those that are up.
    """
    if given is not None:
        return Replicas(given, "ledger_replicas")
    replica_counts = [int(broker.settings[LOG_REPLICAS]) for broker in brokers if LOG_REPLICAS in broker.settings]
    if replica_counts:
        return Replicas(max(replica_counts), f"as the cluster's log of transactions has by {LOG_REPLICAS}")
    count = min(_REPLICAS_WANTED, len(brokers))
    return Replicas(count, f"{_REPLICAS_WANTED}, or as many as there are brokers up now", is_guess=True)


def in_sync_of(replicas: int) -> int:
    """``min.insync.replicas`` of a new ledger: what is written is in two places, where one broker may be away."""
    return 2 if replicas >= _REPLICAS_WANTED else 1
