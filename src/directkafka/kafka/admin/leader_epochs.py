"""The ends of leader epochs in the leaders' logs, which tell whether a log was cut since somebody read it.

API: OffsetForLeaderEpoch (23, v3 and v4; KIP-101, KIP-320). Each election gives a partition a leader epoch, one more
than before, and the leader writes it into its batches. Asked about an epoch, a leader says where, in **its** log, the
records of that epoch and of all earlier ones end. Sequence of events that this finds:

1. a reader is at offset 500; the leader's epoch was 3 when its last batch was planned;
2. the leader dies, and one that has only 400 records is elected (unclean election; or the broker comes back with an
   older copy of its disk): the epoch is 4 or more;
3. 200 records are written, offsets 400 to 599. The log reaches past 500 again, and nothing seems to be missing;
4. the leader says that epoch 3 ends at 400. What the reader had from there on is gone, and others took its place.

Version 2 and earlier need a right on the cluster (CLUSTER_ACTION) that readers do not have: not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from directkafka.errors import BrokerResponseError
from directkafka.kafka.admin.topics import TopicDescription, by_leader, by_topic, check_answered
from directkafka.kafka.network.client import KafkaClient, raise_for
from directkafka.kafka.protocol.error_codes import ErrorCode
from directkafka.offsets import PartitionProgress, TopicPartition
from directkafka.snapshot import EndedEpoch, PartitionSnapshot

_UNDEFINED: Final = -1


def ended_epochs(
    client: KafkaClient, epochs: Mapping[TopicPartition, int], topics: Mapping[str, TopicDescription]
) -> dict[TopicPartition, EndedEpoch | None]:
    """Where leader epochs, and all earlier ones, have ended in the leaders' logs.

    Args:
        client: the connections to use.
        epochs: the leader epoch to ask about, by partition.
        topics: a description of the partitions' topics. A leader that is in another epoch by now refuses (an error
            that is retriable), so that no deposed leader is believed.

    Returns:
        None where the leader knows neither this epoch nor a later one, or is too old to be asked.

    Raises:
        BrokerResponseError: a leader has moved, for example.
    """
    ended: dict[TopicPartition, EndedEpoch | None] = {}
    for node_id, partitions in by_leader(epochs, topics).items():
        ended |= _ask(client, node_id, {partition: epochs[partition] for partition in partitions}, topics)
    return ended


def epochs_risen(
    known: Mapping[TopicPartition, PartitionProgress], seen: Mapping[TopicPartition, PartitionSnapshot]
) -> dict[TopicPartition, int]:
    """The leader epochs to ask about: of the partitions that have had an election since they were read last."""
    return {
        partition: here.leader_epoch
        for partition, here in known.items()
        if partition in seen
        and 0 <= here.leader_epoch < seen[partition].leader_epoch
        and (not here.topic_id or not seen[partition].topic_id or here.topic_id == seen[partition].topic_id)
    }


def _ask(
    client: KafkaClient,
    node_id: int,
    epochs: Mapping[TopicPartition, int],
    topics: Mapping[str, TopicDescription],
) -> dict[TopicPartition, EndedEpoch | None]:
    def item(partition: TopicPartition) -> dict[str, int]:
        current = topics[partition.topic].leaders[partition.partition].epoch
        return {"partition": partition.partition, "current_leader_epoch": current, "leader_epoch": epochs[partition]}

    try:
        response = client.call(
            "OffsetForLeaderEpoch",
            node_id,
            replica_id=-1,
            topics=by_topic(epochs, "partitions", item, name="topic"),
        )
    except BrokerResponseError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        return dict.fromkeys(epochs)
    ends: dict[TopicPartition, int] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.topic, partition.partition)
            raise_for("OffsetForLeaderEpoch", partition.error_code, str(topic_partition), client.options)
            ends[topic_partition] = int(partition.end_offset)
    check_answered("OffsetForLeaderEpoch", epochs, ends)
    return {
        partition: EndedEpoch(epochs[partition], end) if end > _UNDEFINED else None for partition, end in ends.items()
    }
