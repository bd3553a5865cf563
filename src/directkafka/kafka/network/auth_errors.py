"""Errors of logins and rights: why TLS, SASL or ACLs keep a client from a broker, and which settings to look at.

A refusal would come again at every try, so it is not tried again. A failure that may pass, such as a connection that is
cut during the handshake, is no refusal.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from directkafka.errors import BrokerAccessError, BrokerUnreachableError
from directkafka.kafka.network.kerberos import forget_tickets
from directkafka.kafka.network.oauth import forget_token
from directkafka.kafka.network.tls_errors import RemedyWords, tls_refusal
from directkafka.kafka.protocol.error_codes import ErrorCode
from directkafka.options.client import ClientOptions
from directkafka.options.security.sasl import AWS_MSK_IAM, GSSAPI, OAUTHBEARER

_BROKER = RemedyWords(
    without_tls="Set kafka.security.protocol to PLAINTEXT or SASL_PLAINTEXT, or use the address of its TLS listener",
    certificate="the broker's ssl.keystore.location",
    trusted="the broker's ssl.truststore.location",
    handshake="its ssl.enabled.protocols, ssl.cipher.suites and ssl.client.auth",
)
_LOGIN_REFUSED = (
    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    ErrorCode.ILLEGAL_SASL_STATE,
    ErrorCode.SASL_AUTHENTICATION_FAILED,
)


def connection_failure(
    error: Exception, options: ClientOptions, addresses: tuple[str, ...], timeout_ms: int
) -> BrokerAccessError | BrokerUnreachableError:
    """The error to raise for a failure to connect. If the login was refused, a kept token or ticket is dropped.

    Args:
        error: the failure; an error of TLS may be its cause, its context or its argument. An error of Kafka's has its
            code as ``errno``; if this client has refused the broker, also a ``remedy``.
        options: of the connection.
        addresses: of the broker, or all that were tried.
        timeout_ms: longest time that the try could have taken.

    Returns:
        BrokerAccessError for a refusal; BrokerUnreachableError for a failure that may pass.
    """
    code = None if isinstance(error, OSError) else getattr(error, "errno", None)
    tls = next((cause for cause in _behind(error) if isinstance(cause, ssl.SSLError)), None)
    refusal = None
    if code in _LOGIN_REFUSED:
        if options.sasl_token_source is not None:
            forget_token(options.sasl_token_source)
        if options.sasl_kerberos is not None:
            forget_tickets(options.sasl_kerberos)
        # kafka-python puts the error's name before the broker's words.
        words = str(error.args[0] if error.args else error).rpartition("Error: ")[2]
        remedy = getattr(error, "remedy", None)
        refusal = (words, remedy) if remedy else _login_refusal(code, words, options)
    elif tls is not None:
        refusal = tls_refusal(tls, options.ssl_trust_store, options.ssl_key_store, server=_BROKER)
    if refusal is None:
        cause = str(error) or type(error).__name__
        return BrokerUnreachableError(addresses=addresses, timeout_ms=timeout_ms, cause=cause)
    return BrokerAccessError(address=", ".join(addresses), cause=refusal[0], remedy=refusal[1])


def address_text(host: str, port: int) -> str:
    """``host:port``, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _behind(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those that led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        inner = next((cause for cause in error.args if isinstance(cause, BaseException)), None)
        error = inner or error.__cause__ or error.__context__


def _login_refusal(code: int, words: str, options: ClientOptions) -> tuple[str, str]:
    mechanism = options.sasl_mechanism
    if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        return (
            f"it does not take logins by {mechanism}",
            "Set kafka.sasl.mechanism to one of the broker's sasl.enabled.mechanisms",
        )
    if code == ErrorCode.ILLEGAL_SASL_STATE:
        return (
            "it takes no login on this listener",
            "Set kafka.security.protocol to SSL or PLAINTEXT, or use the address of a listener with SASL",
        )
    return f"it refused the login of {_principal(options)} by {mechanism} ({words})", _login_remedy(options)


def _login_remedy(options: ClientOptions) -> str:
    if options.sasl_mechanism == AWS_MSK_IAM:
        return "Give the identity kafka-cluster:Connect in its IAM policy, and look at this machine's clock"
    if options.sasl_mechanism == GSSAPI:
        return (
            "Compare kafka.sasl.kerberos.service.name with the principal in the broker's own sasl.jaas.config, whose "
            "keytab must have the KDC's present key, and look at the clocks of both machines"
        )
    if options.sasl_mechanism != OAUTHBEARER:
        return (
            "Correct name and password in kafka.sasl.jaas.config, or in kafka.sasl.username and kafka.sasl.password, "
            "and compare kafka.sasl.mechanism with how the broker knows this user"
        )
    if isinstance(options.sasl_token_source, str):
        return "Look at the token that the function of kafka.sasl.oauthbearer.token.callback gives"
    return (
        "Compare scope and audience of the token with what the broker expects (sasl.oauthbearer.expected.audience and "
        "sasl.oauthbearer.expected.issuer there)"
    )


def _principal(options: ClientOptions) -> str:
    """Who this client is to a broker, as far as the options say."""
    if options.sasl_username is not None:
        return f"user {options.sasl_username!r}"
    if options.sasl_mechanism == OAUTHBEARER:
        return "the user of the token"
    if options.sasl_mechanism == AWS_MSK_IAM:
        return f"the identity of AWS of {options.sasl_aws_profile or 'the default profile'}"
    if options.sasl_kerberos is not None:
        return f"the principal {options.sasl_kerberos.principal or 'of the credential cache'}"
    if options.ssl_key_store is not None:
        return "the user of the client's certificate"
    return "the user ANONYMOUS (a client that does not log in)"


def rights_needed(code: int, options: ClientOptions, *, topic_right: str = "READ") -> str | None:
    """What to do about an error code that denies a right, as a sentence; None for other codes.

    Args:
        code: the error code of the broker's answer.
        options: of the client that was denied the right.
        topic_right: the right that the request needs on the topic, besides DESCRIBE.
    """
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return (
            f"Give {_principal(options)} the rights (ACLs) DESCRIBE and {topic_right} on the topic, or log in as "
            "somebody else"
        )
    if code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return (
            f"Give {_principal(options)} the rights (ACLs) DESCRIBE and WRITE on the transactional id, or log in as "
            "somebody else"
        )
    if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return f"Give {_principal(options)} the right (ACL) READ on the group, or log in as somebody else"
    return None
