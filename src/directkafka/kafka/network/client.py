"""The client of the brokers: questions over kafka-python's connections, with its request schemas (``protocol/``).

kafka-python (3.0) brings every request schema, TLS and SASL. Its network layer is private API. So only this module and
``connections.py`` use it, and ``tests/real/kafka/test_client.py`` checks that it still does what is relied on here:

- ``get_connection`` connects, negotiates versions and authenticates; a connection's ``init_future`` resolves when it is
  ready, or fails;
- ``connection.send_request(request)`` sends any request and resolves to its response;
- ``net.poll(timeout_ms=0)`` lets it notice what happened since it was last asked;
- ``cluster.update_metadata(response)`` teaches it the brokers' addresses;
- a ready connection's socket can be taken over: its reader task is cancelled, the socket unregistered.

Two things leave this module: :class:`KafkaClient`, which asks questions, and :class:`Channel`, a connected,
authenticated, blocking socket for records, which receives without kafka-python (it copies twice).
"""

from __future__ import annotations

import logging
import random
import selectors
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import kafka.errors
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import ProduceResponse

from directkafka.errors import BrokerAccessError, EnvironmentFaultError, OptionError
from directkafka.kafka.network.auth_errors import address_text, connection_failure, rights_needed
from directkafka.kafka.network.connections import Connections
from directkafka.kafka.network.logins import prepare_logins
from directkafka.kafka.network.receive import BrokerSocket
from directkafka.kafka.network.tls import tls_context
from directkafka.kafka.protocol.api_versions import API_VERSIONS
from directkafka.kafka.protocol.error_codes import ErrorCode, broker_error
from directkafka.options.client import ClientOptions

log = logging.getLogger(__name__)

#: What a connection can fail with.
_FAILURES = (kafka.errors.KafkaError, OSError)
#: What is met where one broker is dead, or was just now, or is frozen: its kernel still takes connections, and nothing
#: ever answers.
_OF_ONE_BROKER = (
    OSError,
    kafka.errors.KafkaConnectionError,
    kafka.errors.NodeNotReadyError,
    kafka.errors.KafkaTimeoutError,
    kafka.errors.RequestTimedOutError,
)
_BOOTSTRAP_PAUSE_S = 0.1
#: How often is looked whether a broker that has throttled this client (KIP-219) may be asked again.
_THROTTLED_PAUSE_S = 0.05

#: The kind of coordinator that keeps a consumer group's offsets.
GROUP = CoordinatorType.GROUP

prepare_logins()


def raise_for(api: str, code: int, subject: str, options: ClientOptions, *, topic_right: str = "READ") -> None:
    """Raise when a broker's answer carries an error.

    Args:
        api: the request's name.
        code: the error code; 0 is success.
        subject: what was asked about, for the message.
        options: the client's: who was not allowed to, for the message.
        topic_right: what was to be done with the topic, for the message.

    Raises:
        BrokerResponseError: the code is not 0.
    """
    if code != ErrorCode.NONE:
        raise broker_error(api, code, subject, remedy=rights_needed(code, options, topic_right=topic_right))


class KafkaClient:
    """Asks brokers questions, one at a time, over connections that it keeps.

    Safe to use from several threads; calls are serialised. Nothing is sent before the first call.

    Args:
        options: addresses, security, timeouts.
    """

    def __init__(self, options: ClientOptions) -> None:
        #: The options it was made with.
        self.options = options
        self._lock = threading.RLock()
        try:
            self._manager = Connections(options)
        except OSError as error:  # a process that is out of file descriptors
            limit_ms = options.connect_timeout_ms
            raise connection_failure(error, options, options.bootstrap_servers, limit_ms) from error
        self._bootstrapped = False

    def call(
        self,
        api: str,
        node_id: int | None = None,
        *,
        version_min: int | None = None,
        version_max: int | None = None,
        **values: Any,
    ) -> Any:
        """Send one request and wait for its response.

        Args:
            api: the request's name, for example ``ListOffsets``.
            node_id: the broker to ask; None for any.
            version_min, version_max: the versions that can carry the question, where these are not the table's.
            values: the request's fields by kafka-python's names; structures as dicts, arrays as lists.

        Returns:
            kafka-python's decoded response.

        Raises:
            BrokerUnreachableError: no connection, or no answer within ``request.timeout.ms``. Where any broker will do,
                the next one is asked, with the same limits, until both limits have passed since the first.
            BrokerAccessError: TLS or the login failed.
            OptionError: a store or a keytab cannot be read, or the token's function fails.
            BrokerResponseError: the broker is too old for the question (``UNSUPPORTED_VERSION``).
        """
        with self._lock:
            # Nothing is read between two calls. Without this, a request could go over a connection that the broker has
            # closed.
            self._manager._net.poll(timeout_ms=0)
            self._bootstrap()
            try:
                response = self._manager.run(self._send, api, node_id, (version_min, version_max), values)
            except kafka.errors.IncompatibleBrokerVersion as error:
                raise_for(api, ErrorCode.UNSUPPORTED_VERSION, str(error), self.options)
            except _FAILURES as error:
                # All the brokers that were known may have moved; the bootstrap addresses lead to them again.
                self._bootstrapped = False
                host, port = self.address(node_id) if node_id is not None else ("", 0)
                known = (address_text(host, port),) if host else self.options.bootstrap_servers
                raise connection_failure(error, self.options, known, self.options.request_timeout_ms) from error
            if api == "Metadata":
                self._manager.cluster.update_metadata(response)
            return response

    def address(self, node_id: int) -> tuple[str, int]:
        """Host and port of a broker, as of the last metadata response; ``("", 0)`` if it is not known."""
        broker = self._manager.cluster.broker_metadata(node_id)
        return (broker.host, broker.port) if broker is not None else ("", 0)

    def close(self) -> None:
        """Close all connections. Calling it twice is harmless."""
        with self._lock:
            self._manager.close_all()

    async def _send(
        self, api: str, node_id: int | None, bounds: tuple[int | None, int | None], values: Mapping[str, Any]
    ) -> Any:
        limit_ms = self.options.connect_timeout_ms
        tried: set[int | str | None] = set()
        until = time.monotonic() + (limit_ms + self.options.request_timeout_ms) / 1000
        chosen = self._untried(tried) if node_id is None else node_id
        while True:
            try:
                if chosen not in self._manager._conns:
                    self._renew_tls()
                connection = self._manager.get_connection(chosen, timeout_ms=limit_ms, refresh_metadata_on_err=False)
                await self._manager.ready(connection, limit_ms)
                while connection.paused and time.monotonic() < until:
                    await self._manager._net.sleep(_THROTTLED_PAUSE_S)
                versions = API_VERSIONS[api]
                request = _fill(versions.request, values)
                version_min, version_max = bounds
                request._min_version = version_min or versions.version_min
                request._max_version = version_max or versions.version_max
                return await connection.send_request(request)
            except _OF_ONE_BROKER:
                # The broker may have died or frozen just now. If any will do, the next one is asked. Had the first
                # handled the request, asking again is harmless: it reads, takes a producer's id, or creates a topic.
                tried.add(chosen)
                chosen = self._untried(tried) if node_id is None and time.monotonic() < until else None
                if chosen is None:
                    raise

    def _renew_tls(self) -> None:
        """Read the certificates for a new connection: they may have been renewed since the last one."""
        try:
            self._manager.config["ssl_context"] = tls_context(self.options)
        except (OptionError, EnvironmentFaultError) as error:
            # Somebody may be writing them in this moment.
            log.warning("certificates are used as they were at the last connection: %s", error)

    def _untried(self, tried: Collection[int | str | None]) -> Any:
        """The broker that kafka-python would ask; if that was tried, another one that may be asked now, or None."""
        chosen = self._manager.least_loaded_node()
        if chosen not in tried:
            return chosen
        others = (broker.node_id for broker in self._manager.cluster.brokers() if broker.node_id not in tried)
        return next((node_id for node_id in others if self._manager.connection_delay(node_id) <= 0), None)

    def _bootstrap(self) -> None:
        """Learn the cluster from the first address that answers, within the connection timeout.

        The manager's own bootstrap hides why an address failed; ours tries each address itself and keeps the
        last reason for the error; that the time was over is one only where there is no other. An address that never
        answers may use up only its share of the time.
        """
        if self._bootstrapped:
            return
        if self._manager.config.get("ssl_context") is None:
            self._manager.config["ssl_context"] = tls_context(self.options)
        else:
            self._renew_tls()
        self._manager._auth_failures.clear()
        timeout_ms = self.options.connect_timeout_ms
        deadline = time.monotonic() + timeout_ms / 1000
        cause: Exception | None = None
        while time.monotonic() < deadline:
            # Those that it knows besides: a driver that runs goes on where all that the options name are down.
            named = self._manager.cluster.bootstrap_brokers()
            known = [broker for broker in self._manager.cluster.brokers() if broker not in named]
            brokers = [*named, *random.sample(known, len(known))]
            for tried, broker in enumerate(brokers):
                left_ms = max(0.0, deadline - time.monotonic()) * 1000
                # However many are known, each has time for a login far away; those behind have another turn.
                share_ms = min(left_ms, max(left_ms / (len(brokers) - tried), timeout_ms / (2 * len(named))))
                try:
                    self._manager.run(self._learn_from, broker.node_id, max(1.0, share_ms))
                except _FAILURES as error:
                    # The last try may have had no time to hear what the one before it was told.
                    if cause is None or not isinstance(error, TimeoutError | kafka.errors.KafkaTimeoutError):
                        cause = error
                    address = address_text(broker.host, broker.port)
                    failure = connection_failure(error, self.options, (address,), timeout_ms)
                    if isinstance(failure, BrokerAccessError):
                        raise failure from error
                else:
                    self._bootstrapped = True
                    return
            time.sleep(min(_BOOTSTRAP_PAUSE_S, max(0.0, deadline - time.monotonic())))
        cause = cause or TimeoutError("no address given")
        raise connection_failure(cause, self.options, self.options.bootstrap_servers, timeout_ms) from cause

    async def _learn_from(self, node_id: int | str, timeout_ms: float) -> None:
        self._manager.reset_backoff(node_id)
        connection = self._manager.get_connection(node_id, timeout_ms=timeout_ms, refresh_metadata_on_err=False)
        try:
            await self._manager.ready(connection, timeout_ms)
            metadata = API_VERSIONS["Metadata"]
            request = metadata.request(topics=[], max_version=metadata.version_max)
            self._manager.cluster.update_metadata(await connection.send_request(request, request_timeout_ms=timeout_ms))
        finally:
            connection.close()


@dataclass(slots=True, kw_only=True)
class Channel(BrokerSocket):
    """A connected and authenticated socket to one broker, for fetch and produce requests.

    Attributes:
        fetch_version: the Fetch version that both sides speak.
        produce_version: likewise of Produce; None where the broker speaks none that is written here.
        client_id: the name under which the requests go.
    """

    fetch_version: int
    produce_version: int | None = None
    client_id: str
    _correlation_id: int = 0

    def encode_fetch(self, version: int, **values: Any) -> tuple[int, bytes]:
        """A framed Fetch request: its correlation id and its bytes.

        Args:
            version: at most :attr:`fetch_version`.
            values: fields as for :meth:`KafkaClient.call`.
        """
        return self._encode(API_VERSIONS["Fetch"].request, version, values)

    def encode_produce(self, **values: Any) -> tuple[int, bytes]:
        """A framed Produce request, likewise, of :attr:`produce_version`."""
        assert self.produce_version is not None, "whoever writes has looked"
        return self._encode(API_VERSIONS["Produce"].request, self.produce_version, values)

    def decode_produce(self, response: bytes) -> tuple[int, Any]:
        """The correlation id and the decoded body of the response to a Produce request, framing left out."""
        decoded = ProduceResponse.decode(response, version=self.produce_version, header=True)
        return decoded.header.correlation_id, decoded

    def _encode(self, request_type: Any, version: int, values: Mapping[str, Any]) -> tuple[int, bytes]:
        self._correlation_id = (self._correlation_id + 1) % 2**31
        request = _fill(request_type, values)
        request.API_VERSION = version
        request.with_header(correlation_id=self._correlation_id, client_id=self.client_id)
        return self._correlation_id, bytes(request.encode(framed=True, header=True))


def open_channel(options: ClientOptions, host: str, port: int, *, timeout_ms: int | None = None) -> Channel:
    """Connect to one broker and take the socket over.

    Args:
        options: security and timeouts; its bootstrap addresses are not used.
        host, port: the broker's advertised address.
        timeout_ms: longest time for it, if less than the connection timeout of the options.

    Raises:
        BrokerUnreachableError: no connection, or a broker that speaks no Fetch version this library knows.
        BrokerAccessError: TLS or the login failed.
        OptionError: a store or a keytab cannot be read, or the token's function fails.
    """
    timeout_ms = min(timeout_ms or options.connect_timeout_ms, options.connect_timeout_ms)
    address = address_text(host, port)
    context, manager = tls_context(options), None
    try:
        # In here: a process that is out of file descriptors fails at this already.
        manager = Connections(options, bootstrap_servers=[address], ssl_context=context)
        channel: Channel = manager.run(_take_over, manager, options, host, port, timeout_ms)
    except _FAILURES as error:
        raise connection_failure(error, options, (address,), timeout_ms) from error
    else:
        return channel
    finally:
        if manager is not None:
            manager.close_all()


def _common_version(connection: Any, api: str) -> int:
    """The highest version of a request that both sides speak."""
    versions = API_VERSIONS[api]
    spoken = connection.broker_version_data
    return int(spoken.api_version(versions.request, min_version=versions.version_min, max_version=versions.version_max))


async def _take_over(manager: Any, options: ClientOptions, host: str, port: int, timeout_ms: int) -> Channel:
    node_id = manager.cluster.bootstrap_brokers()[0].node_id
    connection = manager.get_connection(node_id, timeout_ms=timeout_ms, refresh_metadata_on_err=False)
    await manager.ready(connection, timeout_ms)
    transport = connection.transport
    if transport is None:
        raise kafka.errors.KafkaConnectionError("the broker hung up behind its last answer")
    fetch_version = _common_version(connection, "Fetch")
    produce_version: int | None
    try:
        produce_version = _common_version(connection, "Produce")
    except kafka.errors.IncompatibleBrokerVersion:
        # It can still be read from.
        produce_version = None
    lifetime_ms = connection._reauth.session_lifetime_ms
    taken = transport._sock
    # The reader task waits in the selector for this socket. Once it is cancelled and the transport has no
    # socket left to close, closing the manager leaves ours alone.
    transport.pause_reading()
    manager._net.cancel(transport._read_task)
    manager._net.unregister_event(taken, selectors.EVENT_READ | selectors.EVENT_WRITE)
    transport._sock = None
    taken.settimeout(options.request_timeout_ms / 1000)
    return Channel(
        socket=taken,
        host=host,
        port=port,
        fetch_version=fetch_version,
        produce_version=produce_version,
        expires_at=time.monotonic() + 0.85 * lifetime_ms / 1000 if lifetime_ms else float("inf"),
        client_id=options.client_id,
    )


def _fill(container: Any, values: Mapping[str, Any]) -> Any:
    """A request, or a structure in one, from nested dicts: kafka-python has a class for each structure."""
    filled = {}
    for name, value in values.items():
        schema = container._struct.fields[name]
        if schema.is_struct_array() and value is not None:
            filled[name] = [_fill(schema.data_class, structure) for structure in value]
        else:
            filled[name] = value
    return container(**filled)
