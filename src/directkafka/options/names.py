"""Names of other programs' options, and what becomes of each: ignored with a warning, or refused.

Read from the ``ConfigDef`` tables of Kafka's own clients (consumer, producer and admin client,
4.3.0) and from the source provider of Spark's ``kafka`` format (4.2.0, and 4.3 where it has more).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

_CONSUMER_GROUPS = """
    auto.commit.interval.ms auto.offset.reset enable.auto.commit exclude.internal.topics group.id
    group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
    max.poll.interval.ms max.poll.records partition.assignment.strategy session.timeout.ms
    share.acknowledgement.mode share.acquire.mode
"""
_JAVA_CLASSES = """
    interceptor.classes key.deserializer key.serializer metric.reporters partitioner.class
    sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
    security.providers ssl.engine.factory.class ssl.keymanager.algorithm ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm value.deserializer value.serializer
"""
_JAVA_CLIENT = """
    allow.auto.create.topics bootstrap.controllers client.dns.lookup connections.max.idle.ms
    default.api.timeout.ms enable.metrics.push metadata.max.age.ms metadata.max.idle.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metrics.num.samples
    metrics.recording.level metrics.sample.window.ms send.buffer.bytes ssl.cipher.suites
    ssl.enabled.protocols ssl.protocol
"""
_PRODUCER = """
    acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level delivery.timeout.ms enable.idempotence linger.ms max.block.ms
    max.in.flight.requests.per.connection max.request.size partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.ignore.keys retries transaction.timeout.ms
    transaction.two.phase.commit.enable transactional.id
"""
_KERBEROS = """
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor
"""
_JAVA_TOKENS = """
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
"""

#: Settings of Kafka's Java clients that mean nothing here, with why. They are accepted with one
#: warning, so that a job moves over unchanged.
IGNORED_CLIENT_NAMES: Final[dict[str, str]] = {
    name: why
    for names, why in (
        (_CONSUMER_GROUPS, "there is no consumer group: the driver plans which offsets are read"),
        (_JAVA_CLASSES, "it names Java code"),
        (_JAVA_CLIENT, "it tunes the Java client"),
        (_PRODUCER, "it is a producer's"),
        (_KERBEROS, "the Kerberos library fetches tickets of a keytab when they are needed"),
        ("sasl.oauthbearer.method", "the other settings say where the token comes from"),
        (_JAVA_TOKENS, "it is of a way to a token that is not known here, or of how Java waits for one"),
    )
    for name in names.split()
}

#: What Spark's source refuses behind ``kafka.``; the data source does the same, with what to write
#: instead.
REFUSED_SOURCE_CLIENT_NAMES: Final[dict[str, str]] = {
    "auto.offset.reset": "the source keeps its own offsets; set startingOffsets to earliest or "
    "latest instead (it counts for a new query only)",
    "key.deserializer": "keys arrive as binary; use DataFrame operations such as CAST(key AS STRING)",
    "value.deserializer": "values arrive as binary; use DataFrame operations such as CAST(value AS STRING)",
    "enable.auto.commit": "offsets are kept in the checkpoint or the ledger, and never committed "
    "by a consumer; leave it out",
    "interceptor.classes": "interceptors can change records and are Java code; use DataFrame operations",
}


#: Settings of Java's producer that change nothing when rows are written, with why.
IGNORED_SINK_CLIENT_NAMES: Final[dict[str, str]] = {
    "acks": "every write waits for all in-sync replicas",
    "enable.idempotence": "every write is idempotent",
    "linger.ms": "rows come by the thousand, and are sent at once",
    "partitioner.adaptive.partitioning.enable": "rows without key go to all partitions in turn",
    "partitioner.availability.timeout.ms": "rows without key go to all partitions in turn",
    "retries": "a write is tried again until delivery.timeout.ms",
    "transaction.timeout.ms": "there is no transaction",
    "transaction.two.phase.commit.enable": "a transaction, where there is one, is never left prepared",
}

#: What cannot be left out of a write without changing which records are there, or where; the first two are what
#: Spark's sink refuses.
REFUSED_SINK_CLIENT_NAMES: Final[dict[str, str]] = {
    "key.serializer": "keys are written as they are, binary or string; use DataFrame operations such as CAST",
    "value.serializer": "values are written as they are, binary or string; use DataFrame operations such as CAST",
    "interceptor.classes": "interceptors can change records and are Java code; use DataFrame operations",
    "partitioner.class": "it names Java code; leave it out for the rule of Java's default partitioner, or give a "
    "column partition",
    "partitioner.ignore.keys": "give a column partition, or null keys, to spread keyed rows",
    "transactional.id": "this writer has no transactions; a pipeline with a Kafka sink writes exactly once",
}


def hint(name: str, known: Iterable[str]) -> str:
    """The end of a sentence, naming the known option that was perhaps meant; empty when none is
    near."""
    by_lower_name = {name.lower(): name for name in known}
    prefixed = f"kafka.{name.lower()}"
    near = [prefixed] if prefixed in by_lower_name else []
    near = near or difflib.get_close_matches(name.lower(), by_lower_name, n=1, cutoff=0.6)
    return f"; the nearest one is {by_lower_name[near[0]]!r}" if near else ""
