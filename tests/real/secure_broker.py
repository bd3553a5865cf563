"""A broker with one listener for each way of security, its users, and what its clients need."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.certificates import Certified, authority, for_client, for_server

from directkafka.kafka.network.client import KafkaClient
from directkafka.options.client import ClientOptions
from directkafka.testing import KafkaBroker

ADMIN_TIMEOUT_S = 30.0

USER = "ann"
#: SCRAM gives commas and equals signs a meaning of their own.
ODD_USER = "odd=user,1"
PASSWORD = "pass word-of;ann\"'"
#: How long a session lasts on the listeners SHORT and SHORT_TOKEN.
SESSION_MS = 1_000

#: Security protocol by listener. The first is for the tests' own tools, which may do everything.
LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SSL",
    "OTHER_HOST": "SSL",
    "LOGIN": "SASL_SSL",
    "CLEAR": "SASL_PLAINTEXT",
    "SHORT": "SASL_PLAINTEXT",
    "TOKEN": "SASL_SSL",
    "SHORT_TOKEN": "SASL_PLAINTEXT",
}

_MODULES = "org.apache.kafka.common.security"
_SCRAM = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}


@dataclass(frozen=True)
class Authorities:
    """Who signs what: ``between``, whom ``trusted`` signed, the broker; ``trusted`` the clients; ``other`` nobody."""

    trusted: Certified
    between: Certified
    server: Certified
    other: Certified
    client: Certified
    stranger: Certified


def make_authorities() -> Authorities:
    trusted, other = authority("trusted"), authority("other")
    between = authority("between", trusted)
    return Authorities(
        trusted=trusted,
        between=between,
        server=for_server(between),
        other=other,
        client=for_client(trusted, "mutual-client"),
        stranger=for_client(other, "stranger"),
    )


def secure_broker(authorities: Authorities, *, everyone_may: bool = True) -> KafkaBroker:
    """The broker, not yet started; :func:`add_users` is for after its start.

    Args:
        authorities: who signs what.
        everyone_may: whether users may do everything with what has no ACL.
    """
    servers = {
        "EXPIRED": for_server(authorities.trusted, expired=True),
        "OTHER_HOST": for_server(authorities.trusted, hosts=["broker.example.org"]),
    }
    config: dict[str, object] = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": everyone_may,
    }
    for listener, protocol in LISTENERS.items():
        prefix = f"listener.name.{listener.lower()}"
        if protocol.endswith("SSL"):
            config |= with_prefix(f"{prefix}.ssl", tls_settings(servers.get(listener, authorities.server), authorities))
        if protocol.startswith("SASL"):
            config |= with_prefix(prefix, _sasl(by_token="TOKEN" in listener))
        if listener.startswith("SHORT"):
            config |= {f"{prefix}.{name}.connections.max.reauth.ms": SESSION_MS for name in _mechanisms(listener)}
    config["listener.name.mutual.ssl.client.auth"] = "required"
    return KafkaBroker(listeners=LISTENERS, config=config)


def _mechanisms(listener: str) -> list[str]:
    return ["oauthbearer"] if "TOKEN" in listener else ["plain", *(name.lower() for name in _SCRAM)]


def with_prefix(prefix: str, settings: Mapping[str, object]) -> dict[str, object]:
    return {f"{prefix}.{name}": value for name, value in settings.items()}


def tls_settings(server: Certified, authorities: Authorities) -> dict[str, object]:
    return {
        "keystore.type": "PEM",
        "keystore.key": server.key_pem(),
        "keystore.certificate.chain": server.chain_pem,
        "truststore.type": "PEM",
        "truststore.certificates": authorities.trusted.pem,
    }


def _sasl(*, by_token: bool) -> dict[str, object]:
    if by_token:
        # Kafka's own for tests: it takes tokens that nobody signed (RFC 7515, appendix A.5).
        module = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule"
        handler = f"{_MODULES}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
        return {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "oauthbearer.sasl.jaas.config": f'{module} required unsecuredLoginStringClaim_sub="broker";',
            "oauthbearer.sasl.server.callback.handler.class": handler,
        }
    return {
        "sasl.enabled.mechanisms": ",".join(["PLAIN", *_SCRAM]),
        "plain.sasl.jaas.config": jaas("PLAIN", "broker", "broker", f"user_{USER}={quoted(PASSWORD)}"),
        **{f"{name.lower()}.sasl.jaas.config": jaas(name, "broker", "broker") for name in _SCRAM},
    }


def jaas(mechanism: str, user: str, password: str, *more: str) -> str:
    """A login as Java writes it."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    options = " ".join([f"username={quoted(user)}", f"password={quoted(password)}", *more])
    return f"{_MODULES}.{module} required {options};"


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def add_users(broker: KafkaBroker) -> None:
    """The users of SCRAM, and wait until they can log in."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for mechanism in _SCRAM.values():
        login = ScramCredentialInfo(mechanism, 4096)
        wanted = [UserScramCredentialUpsertion(user, login, PASSWORD.encode()) for user in (USER, ODD_USER)]
        for done in admin.alter_user_scram_credentials(wanted).values():
            done.result(ADMIN_TIMEOUT_S)


def add_topic(broker: KafkaBroker, name: str) -> str:
    """A topic that everybody may read."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(ADMIN_TIMEOUT_S)
    return name


def allow(broker: KafkaBroker, topic: str, user: str, operation: AclOperation) -> None:
    """Give a user a right on a topic; nobody else has any from then on."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    acl = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    for done in admin.create_acls([acl]).values():
        done.result(ADMIN_TIMEOUT_S)


def client_options(broker: KafkaBroker, listener: str, params: Mapping[str, object]) -> ClientOptions:
    """Options for one listener."""
    given = {
        "bootstrap.servers": broker.addresses(listener),
        "security.protocol": LISTENERS[listener],
        **params,
    }
    return ClientOptions.from_kafka_params(given)


def broker_count(options: ClientOptions) -> int:
    """How many brokers a new client sees."""
    client = KafkaClient(options)
    try:
        return len(client.call("Metadata", topics=[]).brokers)
    finally:
        client.close()


def unsecured_token(subject: str, *, lifetime_s: float = 3600.0) -> str:
    """A token that nobody signed."""
    now = int(time.time())
    # The broker does not take a token that begins in its own future, be it by a millisecond.
    claims = {"sub": subject, "iat": now - 10, "exp": now + lifetime_s}
    return f"{_base64({'alg': 'none'})}.{_base64(claims)}."


def _base64(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def written(folder: Path, name: str, content: str | bytes) -> str:
    """The path of a new file."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)
