from __future__ import annotations

from directkafka.testing.kafka.config import INTERNAL, NodePorts, properties_text, server_properties

_PORTS = {
    1: NodePorts(listeners={"PLAINTEXT": 11, "SECURE": 12, INTERNAL: 13}, controller=14),
    2: NodePorts(listeners={"PLAINTEXT": 21, "SECURE": 22, INTERNAL: 23}, controller=24),
    3: NodePorts(listeners={"PLAINTEXT": 31, "SECURE": 32, INTERNAL: 33}, controller=34),
}
_PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "SECURE": "SASL_SSL"}


def _properties(brokers: int = 3, **config: object) -> dict[str, str]:
    return server_properties(
        node_id=1,
        ports={node_id: _PORTS[node_id] for node_id in range(1, brokers + 1)},
        protocols=_PROTOCOLS,
        data_folder="/data",
        config={name.replace("_", "."): value for name, value in config.items()},
    )


def test_a_node_listens_on_every_listener_and_the_quorum_but_advertises_no_controller() -> None:
    properties = _properties()
    clients = "PLAINTEXT://127.0.0.1:11,SECURE://127.0.0.1:12,INTERNAL://127.0.0.1:13"
    assert properties["advertised.listeners"] == clients
    assert properties["listeners"] == clients + ",CONTROLLER://127.0.0.1:14"
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:14,2@127.0.0.1:24,3@127.0.0.1:34"


def test_brokers_talk_in_plaintext_whatever_the_listeners_under_test_are() -> None:
    properties = _properties()
    assert properties["inter.broker.listener.name"] == INTERNAL
    assert properties["listener.security.protocol.map"] == (
        "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
    )


def test_internal_topics_have_as_many_replicas_as_there_are_brokers_up_to_three() -> None:
    for brokers in (1, 2, 3):
        properties = _properties(brokers)
        for name in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
            assert properties[f"{name}.replication.factor"] == str(brokers)
        assert properties["transaction.state.log.min.isr"] == str(min(brokers, 2))


def test_the_callers_settings_win_and_booleans_are_written_as_java_reads_them() -> None:
    assert _properties()["auto.create.topics.enable"] == "false"
    assert _properties(auto_create_topics_enable=True)["auto.create.topics.enable"] == "true"
    assert _properties(num_io_threads=9)["num.io.threads"] == "9"


def test_records_are_kept_for_ever_unless_the_caller_says_how_long() -> None:
    assert _properties()["log.retention.ms"] == "-1"
    assert _properties(log_retention_ms=60_000)["log.retention.ms"] == "60000"


def test_a_properties_file_keeps_backslashes_and_line_ends_of_values() -> None:
    assert properties_text({"a": "x\\y", "b": "1\n2"}) == "a=x\\\\y\nb=1\\n2\n"
