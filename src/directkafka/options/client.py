"""Settings of a connection to Kafka, parsed from Kafka's own dotted names."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from directkafka.options.config_providers import CONFIG_PROVIDERS, with_provided_values
from directkafka.options.names import IGNORED_CLIENT_NAMES, hint
from directkafka.options.security.kerberos import KerberosLogin
from directkafka.options.security.oauthbearer import TokenSource
from directkafka.options.security.presets import PRESET, with_presets
from directkafka.options.security.sasl import OPEN_MECHANISMS, SASL_SPECS, read_sasl, warn_in_the_clear
from directkafka.options.security.tls import TLS_SPECS, KeyStore, TrustStore, read_tls
from directkafka.options.spec import INT_MAX, Mistakes, OptionSpec, RawOptions, Secret, option, shown, specs_of
from directkafka.told_once import warn_once

#: Of a client's settings among other options.
CLIENT_PREFIX: Final = "kafka."

logger = logging.getLogger("directkafka.options")

IsolationLevel = Literal["read_uncommitted", "read_committed"]

BOOTSTRAP_SERVERS: Final = OptionSpec(
    name="bootstrap.servers",
    kind="list",
    doc="Addresses host:port of some brokers, from which the others are learnt. Required.",
)
SECURITY_PROTOCOL: Final = OptionSpec(
    name="security.protocol",
    kind="choice",
    choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    default="PLAINTEXT",
    doc="Whether connections are encrypted (SSL) and logged in (SASL). Settings of a layer that is "
    "not used are not looked at.",
)

#: Most bytes that a record batch may decompress to, unless ``max.decompressed.batch.bytes`` says otherwise.
DECOMPRESSED_BYTES_MAX: Final = 128 * 1024 * 1024

#: Kafka's own pattern of an address: an optional listener name, a host or [IPv6], a port.
_ADDRESS = re.compile(r"(?:[0-9a-zA-Z._%-]*://)?(\[[0-9a-fA-F:.%]+\]|[0-9a-zA-Z._%-]+):([0-9]{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What a connection to Kafka needs. Travels to executors; secrets are masked when it is
    printed.

    Attributes:
        bootstrap_servers: ``host:port`` each.
        security_protocol: ``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``.
        ssl_trust_store: which certificates are trusted; None for the system's own.
        ssl_key_store: who this client is; None when it shows no certificate.
        ssl_check_hostname: whether the broker's certificate must name its host.
        sasl_mechanism: ``PLAIN``, ``SCRAM-SHA-256``, ``SCRAM-SHA-512``, ``OAUTHBEARER``, ``AWS_MSK_IAM`` or
            ``GSSAPI``; None without SASL.
        sasl_username, sasl_password: the login of the first three.
        sasl_token_source: where OAUTHBEARER's token comes from.
        sasl_extensions: names and values that are sent with it.
        sasl_aws_profile: whose credentials AWS_MSK_IAM uses; None for the default ones.
        sasl_kerberos: whose ticket GSSAPI uses, and for which service.

    The other fields are named, bounded and explained by their :class:`OptionSpec`.
    """

    bootstrap_servers: tuple[str, ...]
    security_protocol: str = "PLAINTEXT"
    ssl_trust_store: TrustStore | None = None
    ssl_key_store: KeyStore | None = None
    ssl_check_hostname: bool = True
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: Secret | None = None
    sasl_token_source: TokenSource | None = None
    sasl_aws_profile: str | None = None
    sasl_kerberos: KerberosLogin | None = None
    sasl_extensions: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    client_id: str = option(
        "directkafka",
        name="client.id",
        doc="Name under which the brokers log and limit this client.",
    )
    client_rack: str = option(
        "",
        name="client.rack",
        doc="Rack or zone of this client, so that brokers can name a replica near it to read from.",
    )
    isolation_level: IsolationLevel = option(
        "read_uncommitted",
        name="isolation.level",
        choices=("read_uncommitted", "read_committed"),
        doc="read_committed leaves out records of open and aborted transactions, and ends at the last stable offset.",
    )
    request_timeout_ms: int = option(
        30_000,
        name="request.timeout.ms",
        minimum=1,
        maximum=INT_MAX,
        doc="How long the answer to a request may take.",
    )
    connect_timeout_ms: int = option(
        10_000,
        name="socket.connection.setup.timeout.ms",
        minimum=1,
        doc="How long a connection may take to be made, TLS and login included.",
    )
    fetch_max_bytes: int = option(
        52_428_800,
        name="fetch.max.bytes",
        minimum=1,
        maximum=INT_MAX,
        doc="Most bytes of one fetch response; a single larger record batch is still sent.",
    )
    # Kafka's own default of 1 MiB is for many partitions in one response; here a response is of one.
    max_partition_fetch_bytes: int = option(
        8_388_608,
        name="max.partition.fetch.bytes",
        minimum=1,
        maximum=INT_MAX,
        doc="Most bytes of one partition in a fetch response; a single larger record batch is still sent.",
    )
    fetch_min_bytes: int = option(
        1,
        name="fetch.min.bytes",
        maximum=INT_MAX,
        doc="Bytes for which a broker waits before it answers a fetch.",
    )
    fetch_max_wait_ms: int = option(
        500,
        name="fetch.max.wait.ms",
        maximum=INT_MAX,
        doc="How long a broker waits for fetch.min.bytes.",
    )
    max_decompressed_batch_bytes: int = option(
        DECOMPRESSED_BYTES_MAX,
        name="max.decompressed.batch.bytes",
        kind="integer",
        minimum=1,
        maximum=INT_MAX,
        doc="Most bytes that one record batch may decompress to; a larger one is an error, before there is memory for "
        "it. Brokers limit only what a batch has compressed. A task holds such a batch, and the rows made of it, at "
        "once. This library's own name.",
    )
    check_crcs: bool = option(
        True,
        name="check.crcs",
        doc="Whether the checksum of every record batch is verified.",
    )
    reconnect_backoff_ms: int = option(
        50,
        name="reconnect.backoff.ms",
        doc="Wait before a broken connection is made again; doubled with each failure.",
    )
    reconnect_backoff_max_ms: int = option(
        1_000,
        name="reconnect.backoff.max.ms",
        doc="Longest wait before a broken connection is made again.",
    )
    retry_backoff_ms: int = option(
        100,
        name="retry.backoff.ms",
        doc="Wait before a request that failed for a passing reason is sent again.",
    )
    # Of Spark's first direct stream: tasks slept this long, then failed. Here they look for the leader.
    refresh_leader_backoff_ms: int | None = option(
        None,
        name="refresh.leader.backoff.ms",
        kind="integer",
        doc="Wait before a task that has lost its partition's leader looks for the new one, each time. When not given, "
        "retry.backoff.ms at first, then longer, up to a second.",
    )
    receive_buffer_bytes: int | None = option(
        None,
        name="receive.buffer.bytes",
        kind="integer",
        minimum=-1,
        maximum=INT_MAX,
        doc="Size of the socket's receive buffer; the operating system's own when not given or -1.",
    )

    @classmethod
    def from_kafka_params(
        cls,
        params: Mapping[str, object],
        *,
        where: str = "",
        prefix: str = "",
        used_elsewhere: Collection[str] = (),
        ignored: Mapping[str, str] = IGNORED_CLIENT_NAMES,
    ) -> ClientOptions:
        """Parse Kafka's dotted client names.

        Args:
            params: values by name, as texts, numbers or booleans; the names' case does not matter.
            where: the file or call they stand in, for messages.
            prefix: what the user writes before each name, for messages.
            used_elsewhere: names that the caller reads itself; they are neither warned of nor
                refused.
            ignored: names that mean nothing to the caller, with why.

        Raises:
            OptionError: a name that nobody knows, a value that is out of bounds, an address that is
                none, or a way to log in that is not supported.
        """
        given = with_presets(with_provided_values(RawOptions.read(params, where=where, prefix=prefix)))
        mistakes = Mistakes()
        _check_settings(given, used_elsewhere, ignored, mistakes)
        with mistakes.kept():
            addresses = _read_addresses(given)
        with mistakes.kept():
            values = given.values(specs_of(cls))
        security: dict[str, Any] = {}
        with mistakes.kept():
            protocol = given.value(SECURITY_PROTOCOL)
            if protocol.endswith("SSL"):
                security |= read_tls(given)
            if protocol.startswith("SASL"):
                security |= read_sasl(given, protocol=protocol)
        mistakes.raise_if_any()
        if protocol == "SASL_PLAINTEXT" and security["sasl_mechanism"] in OPEN_MECHANISMS:
            warn_in_the_clear(security["sasl_mechanism"])
        # Kafka reads -1 as "leave the socket alone", which is what None says.
        values = {name: value for name, value in values.items() if value != -1}
        return cls(bootstrap_servers=addresses, security_protocol=protocol, **security, **values)


def client_specs() -> tuple[OptionSpec, ...]:
    """Every client setting that has an effect, in the order of the reference page."""
    return (
        BOOTSTRAP_SERVERS,
        *specs_of(ClientOptions).values(),
        SECURITY_PROTOCOL,
        PRESET,
        *TLS_SPECS,
        *SASL_SPECS,
        CONFIG_PROVIDERS,
    )


def _read_addresses(given: RawOptions) -> tuple[str, ...]:
    addresses = given.value(BOOTSTRAP_SERVERS)
    if not addresses:
        reason = "is required: the addresses host:port of one or more brokers, separated by commas"
        raise given.error(BOOTSTRAP_SERVERS.name, reason)
    return tuple(_read_address(given, address) for address in addresses)


def _read_address(given: RawOptions, address: str) -> str:
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match[2]) < 2**16 or not _is_host(match[1]):
        reason = f"expected host:port with a port from 1 to 65535, found {shown(address)}"
        raise given.error(BOOTSTRAP_SERVERS.name, reason)
    return f"{match[1]}:{match[2]}"


def _is_host(text: str) -> bool:
    """Whether a host's name has parts of lengths that a resolver takes; an IPv6 address has brackets."""
    return text.startswith("[") or all(0 < len(part) <= 63 for part in text.removesuffix(".").split("."))


def check_names(
    given: RawOptions, own: Iterable[OptionSpec], settings: Iterable[OptionSpec], mistakes: Mistakes, *, what: str
) -> None:
    """Add a mistake for each option that is neither one's own nor begins as a client's setting does.

    Args:
        given: the options.
        own: those of a source or a sink.
        settings: those that stand behind ``kafka.``, to be proposed.
        mistakes: so far.
        what: whose options they are.
    """
    known = [name for spec in own for name in (spec.name, *spec.aliases)]
    lower = {name.lower() for name in known}
    for name in sorted(given.texts):
        if name not in lower and not name.startswith(CLIENT_PREFIX):
            proposed = [*known, *(CLIENT_PREFIX + spec.name for spec in settings)]
            mistakes.add(given.error(name, f"is not an option of this {what}" + hint(name, proposed)))


def _check_settings(
    given: RawOptions, used_elsewhere: Collection[str], ignored: Mapping[str, str], mistakes: Mistakes
) -> None:
    known = [name for spec in client_specs() for name in (spec.name, *spec.aliases)]
    passed_over = []
    for name in sorted(set(given.texts).difference(known, used_elsewhere)):
        if name not in ignored:
            reason = "is not a setting of any Kafka client"
            mistakes.add(given.error(name, reason + hint(name, [*known, *ignored])))
            continue
        passed_over.append(f"{given.prefix}{name} ({ignored[name]})")
    if passed_over:
        warn_once(logger, "ignored, because they mean nothing here: %s", "; ".join(passed_over))
