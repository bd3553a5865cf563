"""The broker for tests, tested with another client."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec
from tests.topics import make_topic

from directkafka.errors import EnvironmentFaultError
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

_WAIT_S = 60


@pytest.fixture(scope="module")
def three() -> Iterator[KafkaBroker]:
    with KafkaBroker(3) as cluster:
        yield cluster


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _admin(broker: KafkaBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def _create_topic(broker: KafkaBroker, topic: str, *, replicas: int = 1, config: dict[str, str] | None = None) -> None:
    make_topic(broker.bootstrap_servers, topic, replicas=replicas, config=config)


def _log_start(broker: KafkaBroker, topic: str) -> int:
    admin, partition = _admin(broker), TopicPartition(topic, 0)
    return int(admin.list_offsets({partition: OffsetSpec.earliest()})[partition].result(_WAIT_S).offset)


def _write(broker: KafkaBroker, topic: str, *, timestamp_ms: int = 0) -> None:
    """One record; a timestamp of 0 is now."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all"})
    producer.produce(topic, value=b"v", timestamp=timestamp_ms, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(_WAIT_S) == 0
    assert failed == [None]


@pytest.mark.slow
def test_one_node_comes_back_after_sigkill_with_its_port_and_its_records() -> None:
    with KafkaBroker() as broker:
        address, [pid] = broker.bootstrap_servers, broker.pids.values()
        _create_topic(broker, "kept")
        _write(broker, "kept")
        broker.kill()
        assert broker.pids == {}
        assert not psutil.pid_exists(pid)
        broker.restart()
        assert broker.bootstrap_servers == address
        assert broker.pids.keys() == {1}
        assert broker.pids[1] != pid
        assert "kept" in _admin(broker).list_topics(timeout=_WAIT_S).topics
        _write(broker, "kept")
    assert not broker.folder.exists()


@pytest.mark.slow
def test_old_records_stay_where_the_topic_does_not_say_how_long_they_are_kept() -> None:
    often = {"log.retention.check.interval.ms": 100, "log.initial.task.delay.ms": 0}
    with KafkaBroker(config=often) as broker:
        _create_topic(broker, "kept")
        _create_topic(broker, "expires", config={"retention.ms": "1000"})
        for topic in ("kept", "expires"):
            _write(broker, topic, timestamp_ms=1_700_000_000_000)
        # The deletion looks at every log in turn, so it has seen the one when it has emptied the other twice.
        for number in (1, 2):
            _wait(lambda end=number: _log_start(broker, "expires") == end)
            _write(broker, "expires", timestamp_ms=1_700_000_000_000)
        assert _log_start(broker, "kept") == 0


@pytest.mark.slow
def test_three_nodes_see_each_other_and_a_topic_has_three_replicas(three: KafkaBroker) -> None:
    assert len(three.bootstrap_servers.split(",")) == 3
    admin = _admin(three)
    _create_topic(three, "replicated", replicas=3)
    assert set(admin.list_topics(timeout=_WAIT_S).brokers) == {1, 2, 3}

    def replicas() -> list[int]:
        """Whichever node answers may not know the topic yet."""
        partitions = admin.list_topics("replicated", timeout=_WAIT_S).topics["replicated"].partitions
        return sorted(partitions[0].replicas) if partitions else []

    _wait(lambda: replicas() == [1, 2, 3])


@pytest.mark.slow
def test_a_cluster_of_three_goes_on_without_one_and_takes_it_back(three: KafkaBroker) -> None:
    admin = _admin(three)
    topic = "survivor"
    _create_topic(three, topic, replicas=3, config={"min.insync.replicas": "2"})
    leader = admin.list_topics(topic, timeout=_WAIT_S).topics[topic].partitions[0].leader
    three.kill(leader)
    assert three.pids.keys() == {1, 2, 3} - {leader}
    _write(three, topic)
    three.restart(leader)
    assert three.pids.keys() == {1, 2, 3}
    _wait(lambda: len(admin.list_topics(topic, timeout=_WAIT_S).topics[topic].partitions[0].isrs) == 3)


@pytest.mark.slow
def test_listeners_settings_and_options_of_java_are_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", f"{os.environ.get('KAFKA_OPTS', '')} -Xmx301m '-Dtold=by the environment'")
    users = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
    config = {
        "message.max.bytes": 2_000_000,
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": users,
    }
    with KafkaBroker(listeners={"OPEN": "PLAINTEXT", "LOGIN": "SASL_PLAINTEXT"}, config=config) as broker:
        options = psutil.Process(broker.pids[1]).cmdline()
        assert options.index("-Xmx512m") < options.index("-Xmx301m") < options.index("-Dtold=by the environment")
        assert broker.bootstrap_servers == broker.addresses("OPEN") != broker.addresses("LOGIN")
        secure = {
            "bootstrap.servers": broker.addresses("LOGIN"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "secret",
        }
        resource = ConfigResource("broker", "1")
        admin = AdminClient(secure)
        settings = admin.describe_configs([resource])[resource].result(_WAIT_S)
        assert settings["message.max.bytes"].value == "2000000"


@pytest.mark.slow
def test_a_folder_of_the_callers_is_kept_and_used_again(tmp_path: Path) -> None:
    with KafkaBroker(folder=tmp_path) as broker:
        _create_topic(broker, "kept")
    with KafkaBroker(folder=tmp_path) as broker:
        assert "kept" in _admin(broker).list_topics(timeout=_WAIT_S).topics


def test_a_setting_that_kafka_refuses_is_named_and_nothing_is_left() -> None:
    broker = KafkaBroker(config={"num.io.threads": "many"})
    with pytest.raises(EnvironmentFaultError, match=r"num\.io\.threads"):
        broker.start()
    assert broker.pids == {}
    assert not broker.folder.exists()


def test_a_node_that_dies_at_its_start_is_an_error_with_the_end_of_its_log() -> None:
    # Taken by the tool that formats, refused by the broker.
    broker = KafkaBroker(config={"authorizer.class.name": "no.such.Authorizer"})
    with pytest.raises(EnvironmentFaultError, match=r"(?s)Kafka node 1 is not ready.*no\.such\.Authorizer"):
        broker.start()
    assert broker.pids == {}


@pytest.mark.slow
def test_nodes_end_and_the_folder_goes_when_the_parent_is_killed() -> None:
    program = textwrap.dedent(
        """
        import sys
        from directkafka.testing import KafkaBroker

        broker = KafkaBroker().start()
        print(broker.pids[1], broker.folder, flush=True)
        sys.stdin.read()
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().split()
        node = psutil.Process(int(pid))
        parent.kill()
    _wait(lambda: not node.is_running() or node.status() == psutil.STATUS_ZOMBIE)
    _wait(lambda: not Path(folder).exists())


@pytest.mark.slow
def test_a_detached_broker_outlives_its_parent(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import sys
        from directkafka.testing import KafkaBroker

        print(KafkaBroker(folder=sys.argv[1], detached=True).start().pids[1])
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True, timeout=_WAIT_S
    )
    node = psutil.Process(int(done.stdout))
    try:
        assert node.status() != psutil.STATUS_ZOMBIE
        assert "kafka.Kafka" in node.cmdline()
    finally:
        node.kill()


def test_nonsense_is_refused_with_its_numbers() -> None:
    with pytest.raises(ValueError, match="not 0"):
        KafkaBroker(0)
    with pytest.raises(ValueError, match="no node 4"):
        KafkaBroker(3).kill(4)
    with pytest.raises(ValueError, match="after start"):
        _ = KafkaBroker().bootstrap_servers
    with pytest.raises(RuntimeError, match="not started"):
        KafkaBroker().restart()
