"""A program with an executor on each of two hosts: where is each partition read? One line of JSON for each strategy.

Run by test_placing.py, since a process has one SparkContext. Arguments: the brokers' addresses, a topic of four
partitions, Spark's master, the host that the brokers are not on, and what reads: ``rdds`` of ranges or ``streams``.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

import directkafka as dk

HOST = "127.0.0.1"
PARTITIONS = range(4)
RUNS = 3
INTERVAL_S = 0.5


def host() -> str:
    """The host of this executor: it works in a folder of its worker's, which has the host's name."""
    return Path.cwd().parts[-3]


def host_of(records: Iterator[dk.ConsumerRecord]) -> Iterator[tuple[int, str]]:
    """The partition, and where it is read; nothing where a batch has no records of it."""
    yield from ((record.partition, host()) for record in islice(records, 1))


def streamed(sc: SparkContext, servers: str, topic: str, strategy: dk.PreferBrokers | dk.PreferFixed) -> dict[int, str]:
    """Where a direct stream reads each partition."""
    hosts: dict[int, str] = {}
    context = StreamingContext(sc, INTERVAL_S)  # type: ignore[arg-type]
    params = {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
    stream = dk.create_direct_stream(context, dk.Subscribe(topic, params), strategy)
    stream.foreachRDD(lambda rdd: hosts.update(rdd.mapPartitions(host_of).collect()))
    context.start()
    while len(hosts) < len(PARTITIONS):
        context.awaitTerminationOrTimeout(0.1)  # type: ignore[arg-type]
    context.stop(stopSparkContext=False)
    return hosts


def main(servers: str, topic: str, master: str, other_host: str, what: str) -> None:
    conf = SparkConf().setMaster(master).setAppName("placing").set("spark.executor.memory", "512m")
    # A task waits for the executor that it prefers.
    conf.set("spark.locality.wait", "20s").set("spark.ui.enabled", "false").set("spark.driver.host", HOST)
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    # Both executors are there once each has run a task.
    while len(set(sc.parallelize(range(8), 8).map(lambda _: host()).collect())) < 2:
        pass
    if what == "rdds":
        read_rdds(sc, servers, topic, other_host)
    else:
        read_streams(sc, servers, topic, other_host)
    sc.stop()


def read_rdds(sc: SparkContext, servers: str, topic: str, other_host: str) -> None:
    ranges = [dk.OffsetRange(topic, partition, 0, 10) for partition in PARTITIONS]
    warned: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: warned.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("directkafka").addHandler(handler)
    for name, strategy in {
        "consistent": dk.PreferConsistent(),
        "brokers": dk.PreferBrokers(),
        "fixed": dk.PreferFixed({dk.TopicPartition(topic, partition): other_host for partition in PARTITIONS}),
        "fixed in part": dk.PreferFixed({dk.TopicPartition(topic, 0): other_host, dk.TopicPartition(topic, 1): HOST}),
        "nowhere": dk.PreferFixed({dk.TopicPartition(topic, 0): "no-such-host"}),
    }.items():
        warned.clear()
        runs = []
        for number in range(RUNS):
            # Another order each time: what counts is the partition.
            given = ranges[number:] + ranges[:number]
            rdd = dk.create_rdd(sc, {"bootstrap.servers": servers}, given, strategy)
            runs.append(dict(rdd.mapPartitions(host_of).collect()))
        print(json.dumps({"strategy": name, "runs": runs, "warned": warned}), flush=True)


def read_streams(sc: SparkContext, servers: str, topic: str, other_host: str) -> None:
    for name, strategy in {
        "brokers": dk.PreferBrokers(),
        "fixed": dk.PreferFixed({dk.TopicPartition(topic, partition): other_host for partition in PARTITIONS}),
    }.items():
        print(json.dumps({"strategy": name, "read": streamed(sc, servers, topic, strategy)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
