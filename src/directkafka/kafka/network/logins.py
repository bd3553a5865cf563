"""Logins of kafka-python: our tokens and tickets, bounds on what a broker may ask for, and a log without secrets.

Whoever answers in the broker's place, where there is no TLS, chooses how often SCRAM hashes the password. After one
round, what a client sends is enough to try a dictionary against it at the full speed of a machine. RFC 5802 (section
5.1) and RFC 7677 ask for 4,096 rounds at least, and so do Kafka's own brokers of the users that they keep
(``ScramMechanism.java``). kafka-python checks the other bound only.

What kafka-python logs of a connection at DEBUG, without the secrets in it.

It logs every request and response, and the bytes of both. A login is such a request: its bytes are the password
(PLAIN) or the token (OAUTHBEARER).
"""

from __future__ import annotations

import logging
import os
import re
import struct
from typing import Any, Final

from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI
from kafka.net.sasl.msk import AwsMskIamClient, SaslMechanismAwsMskIam
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.sasl.scram import SaslMechanismScram

from directkafka.kafka.network.kerberos import TicketProvider
from directkafka.kafka.network.kerberos_faults import TicketError, is_over
from directkafka.kafka.network.oauth import TokenProvider

_LOGGERS = ("kafka.net.connection", "kafka.protocol.parser")
_LOGIN_MESSAGE = re.compile(r"Sasl\w*(Request|Response)(_v\d+)?")


def mask_logins() -> None:
    """Mask bytes, and what belongs to a login, in kafka-python's log; calling it twice is harmless."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_mask)


def _mask(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(_masked(argument) for argument in record.args)
    return True


def _masked(argument: object) -> object:
    if isinstance(argument, bytes | bytearray | memoryview):
        return f"<{len(argument)} bytes>"
    name = type(argument).__name__
    return f"<{name} ********>" if _LOGIN_MESSAGE.fullmatch(name) else argument


ITERATIONS_MIN: Final = 4096
_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class _TooFewIterationsError(SaslAuthenticationFailedError):  # type: ignore[misc]
    remedy = (
        "Its users need at least 4096 (kafka-configs.sh --alter --add-config SCRAM-SHA-...=[iterations=4096,...]). "
        "Nothing made of the password was sent. Without TLS it may be somebody else who answers"
    )


class _BoundedScram(SaslMechanismScram):  # type: ignore[misc]
    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        client = self._scram_client
        salt_password = client.create_salted_password

        def salt_enough(salt: bytes, iterations: int) -> None:
            if iterations < ITERATIONS_MIN:
                raise _TooFewIterationsError(f"it asks for {iterations} rounds of {self.mechanism}, which is too few")
            salt_password(salt, iterations)

        client.create_salted_password = salt_enough


class _NoIdentityError(SaslAuthenticationFailedError):  # type: ignore[misc]
    remedy = (
        "Install directkafka with the extra aws on the driver and on every executor, and give AWS's credentials as its "
        "own tools take them: a profile (awsProfileName in kafka.sasl.jaas.config, AWS_PROFILE), variables, or the "
        "role of the machine"
    )


class _NoRegionError(SaslAuthenticationFailedError):  # type: ignore[misc]
    remedy = "Set AWS_REGION on the driver and on every executor to the region of the cluster"


#: Of MSK and of MSK Serverless; the last part of the name is longer in China.
_MSK_HOST: Final = re.compile(r".+\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")


class _MskLogin(SaslMechanismAwsMskIam):  # type: ignore[misc]
    """With the profile that the options name, and the region of the broker, which may not be that of the profile."""

    def __init__(self, **config: Any) -> None:
        try:
            super().__init__(**config)
        except RuntimeError as error:
            raise _NoIdentityError("AWS_MSK_IAM needs the package botocore") from error
        self._profile = config.get("sasl_plain_username") or None

    def _build_client(self) -> AwsMskIamClient:
        match = _MSK_HOST.fullmatch(self.host)
        try:
            session = self._boto_session_cls(profile=self._profile)
            region = match[1] if match else os.environ.get("AWS_REGION") or session.get_config_variable("region")
            credentials = session.get_credentials().get_frozen_credentials()
        except Exception as error:  # noqa: BLE001 - botocore's own are many, and no credentials are an AttributeError
            names = {kind.__name__ for kind in type(error).__mro__}
            if names & {"HTTPClientError", "ConnectionError", "MetadataRetrievalError"}:
                raise ConnectionError(f"AWS does not answer for credentials ({type(error).__name__})") from None
            raise _NoIdentityError(f"AWS has no credentials here ({type(error).__name__})") from None
        if not region:
            raise _NoRegionError(f"{self.host} names no region, and AWS_REGION is not set")
        return AwsMskIamClient(self.host, credentials.access_key, credentials.secret_key, region, credentials.token)


class _NoTicketError(SaslAuthenticationFailedError):  # type: ignore[misc]
    def __init__(self, fault: TicketError) -> None:
        super().__init__(fault.cause)
        self.remedy = fault.remedy


class _UnprovenBrokerError(SaslAuthenticationFailedError):  # type: ignore[misc]
    remedy = (
        "Somebody else may answer at its address, or it has no key for the service of kafka.sasl.kerberos.service.name"
    )


class _KerberosLogin(SaslMechanismGSSAPI):  # type: ignore[misc]
    """With tickets of a keytab or a cache that the options name; kafka-python's own has the environment's alone.

    The settings of kafka-python carry a provider of tickets under the name of a principal.
    """

    def __init__(self, *, host: str, sasl_kerberos_name: TicketProvider, **_: Any) -> None:
        self._is_done = False
        self._is_authenticated = False
        try:
            begun = sasl_kerberos_name.begin(host)
        except TicketError as fault:
            raise _NoTicketError(fault) from fault
        self._client_ctx, self._next_token = begun.context, begun.token
        # As whom this client wants to act: as Java's, it says who it is.
        self.auth_id = begun.principal

    def receive(self, auth_bytes: bytes) -> None:
        try:
            super().receive(auth_bytes)
        except (ValueError, LookupError, struct.error) as error:
            raise _UnprovenBrokerError(f"its answer is none of GSSAPI's: {error}") from error
        except Exception as error:
            if type(error).__module__.partition(".")[0] != "gssapi":
                raise
            if is_over(error):
                raise ConnectionError("the ticket's time was over during the login") from error
            raise _UnprovenBrokerError(f"it could not prove who it is: {error}") from error

    def auth_details(self) -> str:
        # kafka-python's own asks the context, which may be over in this moment.
        return f"Authenticated as {self.auth_id} via SASL / GSSAPI"


def prepare_logins() -> None:
    """Log in so from now on; calling it twice is harmless."""
    AbstractTokenProvider.register(TokenProvider)
    for name in _MECHANISMS:
        register_sasl_mechanism(name, _BoundedScram, overwrite=True)
    register_sasl_mechanism("AWS_MSK_IAM", _MskLogin, overwrite=True)
    register_sasl_mechanism("GSSAPI", _KerberosLogin, overwrite=True)
    mask_logins()
