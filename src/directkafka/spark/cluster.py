"""``directkafka.Cluster``: what a program may ask of Kafka; and the lag of a Structured Streaming query."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Self

from directkafka.errors import DirectKafkaError, OptionError, TopicNotFoundError
from directkafka.html_table import html_table
from directkafka.kafka.admin.admin_client import AdminClient, TopicDescription
from directkafka.kafka.network.client import KafkaClient
from directkafka.offsets import OffsetRangeList, Positions, TopicPartition, from_nested
from directkafka.options.client import ClientOptions
from directkafka.options.positions import read_position
from directkafka.planning.starts import needed_lookups, resolve_ranges
from directkafka.snapshot import ClusterSnapshot

Where = str | int | datetime


class Cluster:
    """A Kafka cluster, asked over connections that are kept until :meth:`close`. Safe to use from several threads.

    ::

        with Cluster({"bootstrap.servers": "localhost:9092"}) as cluster:
            ranges = cluster.offset_ranges("flights", start="-10 minutes")

    Args:
        kafka_params: Kafka's dotted client names, as for a consumer. Offsets are those that
            ``isolation.level`` lets a reader see.

    Raises:
        OptionError: a name that nobody knows, or a value out of its bounds.
    """

    def __init__(self, kafka_params: Mapping[str, object]) -> None:
        self._client = KafkaClient(ClientOptions.from_kafka_params(kafka_params, where="kafka_params"))
        self._admin = AdminClient(self._client)

    @property
    def options(self) -> ClientOptions:
        """The client options that the parameters were parsed into."""
        return self._client.options

    def topics(self) -> list[str]:
        """The names of the topics that this user may see, sorted, without Kafka's internal ones.

        Raises:
            BrokerUnreachableError, BrokerResponseError: as every method here that sends a request.
        """
        return sorted(name for name, topic in self._admin.topics().items() if not topic.internal)

    def partitions(self, topic: str) -> list[TopicPartition]:
        """The topic's partitions, sorted.

        Raises:
            TopicNotFoundError: there is no such topic.
        """
        return sorted(TopicPartition(topic, number) for number in self._described([topic])[topic].leaders)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that each partition still has; partitions that do not exist are left out.

        Raises:
            TopicNotFoundError: a topic does not exist; raised by all methods about partitions but
                :meth:`committed`.
        """
        return self.snapshot(partitions).earliest()

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """One past the last offset that can be read of each partition."""
        return self.snapshot(partitions).latest()

    def committed(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, int | None]:
        """The offsets that a consumer group has committed, None where it has none.

        Args:
            group: the group's name.
            partitions: which; None for all of which the group has an offset.
        """
        return self._admin.committed(group, None if partitions is None else list(partitions))

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the offsets at which a consumer group goes on; its other partitions stay where they are.

        ::

            cluster.commit("dashboards", cluster.earliest(cluster.partitions("flights")))

        Args:
            group: the group's name. The group need not exist, and must have no members: a running consumer would
                overwrite these offsets with its own.
            offsets: the next offset to read, by partition.

        Raises:
            OptionError: an offset is no int from 0, or a topic does not have such a partition. Nothing is committed.
            TopicNotFoundError: a topic does not exist. Nothing is committed.
            BrokerResponseError: the group has members, or this user has no READ right on it.
        """
        for partition, offset in offsets.items():
            if type(offset) is not int or offset < 0:
                raise OptionError(
                    option="offsets", reason=f"expected an offset from 0 for {partition}, found {offset!r}"
                )
        described = self._described({partition.topic for partition in offsets})
        strange = sorted(
            partition for partition in offsets if partition.partition not in described[partition.topic].leaders
        )
        if strange:
            raise OptionError(
                option="offsets", reason=f"names partitions that are not there: {', '.join(map(str, strange))}"
            )
        if offsets:
            self._admin.commit(group, offsets)

    def at_timestamp(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time (milliseconds since 1970), None where no record is that young."""
        wanted = dict.fromkeys(partitions, timestamp_ms)
        self._described({partition.topic for partition in wanted})
        return self._admin.at_timestamp(wanted)

    def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str | None]:
        """The address ``host:port`` of each partition's leader, None while it has none."""
        partition_snapshots = self.snapshot(partitions).partitions
        return {
            partition: f"{seen.leader_host}:{seen.leader_port}" if seen.leader is not None else None
            for partition, seen in partition_snapshots.items()
        }

    def offset_ranges(
        self,
        topics: str | Iterable[str],
        *,
        start: Where = "earliest",
        end: Where = "latest",
        partitions: Iterable[int] | None = None,
    ) -> OffsetRangeList:
        """The offset ranges of a window of time or of offsets, in some or all partitions; no record is fetched.

        Args:
            topics: a topic's name, or several.
            start: ``"earliest"``, ``"latest"``, ``"-1000"`` (that many offsets before the end), ``"-10 minutes"``, an
                offset, or a datetime with a time zone, for the first record at or after it. A window that starts after
                the last record is empty.
            end: the same, exclusive.
            partitions: partition numbers; None for all.

        Returns:
            One range per partition, sorted; a range may be empty, and is cut to the offsets that the log has now.

        Raises:
            OptionError: a start or an end is none of these, or a start is after its end.
        """
        names = [topics] if isinstance(topics, str) else list(topics)
        numbers = None if partitions is None else set(partitions)
        described = self._described(names)
        chosen = [
            TopicPartition(topic, number)
            for topic in names
            for number in described[topic].leaders
            if numbers is None or number in numbers
        ]
        snapshot = self._admin.snapshot(chosen, described)
        starting, ending = _positions(start, "start"), _positions(end, "end")
        resolved = resolve_ranges(
            starting, ending, snapshot, self._lookups(starting, snapshot), self._lookups(ending, snapshot)
        )
        return OffsetRangeList(resolved.ranges)

    def snapshot(self, partitions: Iterable[TopicPartition]) -> ClusterSnapshot:
        """Leaders, earliest and latest offsets of the partitions at one moment, as one value."""
        wanted = list(partitions)
        return self._admin.snapshot(wanted, self._described({partition.topic for partition in wanted}))

    #: The method's former name.
    view = snapshot

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self._client.close()

    def _repr_html_(self) -> str:
        """Its topics, asked for once, now: who looks at a notebook does not wait for retries."""
        caption = f"Kafka at {', '.join(self.options.bootstrap_servers)}"
        try:
            topics = AdminClient(self._client, retries=0).topics()
        except DirectKafkaError as error:
            return html_table(caption, ("",), [(str(error),)])
        rows = ((name, len(topics[name].leaders)) for name in sorted(topics) if not topics[name].internal)
        return html_table(caption, ("topic", "partitions"), rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _described(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        wanted = set(names)
        described = self._admin.topics(wanted)
        missing = sorted(wanted - described.keys())
        if missing:
            raise TopicNotFoundError(topics=tuple(missing), addresses=self._client.options.bootstrap_servers)
        return described

    def _lookups(self, positions: Positions, snapshot: ClusterSnapshot) -> dict[TopicPartition, int | None]:
        return self._admin.at_timestamp(needed_lookups(positions, snapshot).timestamps_ms)


def _positions(where: Where, option: str) -> Positions:
    return Positions(default=read_position(where, option=option), latest_if_no_match=True, option=option)


def lag(progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Offsets that a query has not read yet, by partition, as of one of its progress reports.

    ::

        behind = lag(query.lastProgress)
        if sum(behind.values()) > 1_000_000: ...

    Args:
        progress: ``query.lastProgress``, one of ``query.recentProgress``, or the JSON of a listener's event as a
            dict. Sources that do not read Kafka are ignored; those of Spark's own ``kafka`` format are included.

    Returns:
        For each partition that a batch has reached: the latest offset less the batch's end offset. If two sources read
        a partition, the larger lag counts.
    """
    behind: dict[TopicPartition, int] = {}
    for source in progress["sources"]:
        latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
        for partition, offset in latest.items():
            # A partition that no batch has reached yet starts at an offset that the report does not tell.
            if partition in end:
                behind[partition] = max(behind.get(partition, 0), offset - end[partition], 0)
    return behind


def _offsets(told: Any) -> dict[TopicPartition, int]:
    """The offsets in a report, given as an object or its JSON text; empty for sources of another kind."""
    try:
        nested = json.loads(told) if isinstance(told, str) else told
        return from_nested(nested) if nested else {}
    except (ValueError, TypeError, AttributeError):
        return {}
