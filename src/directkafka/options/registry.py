"""Options of a schema registry: where it is, and who asks it. They stand behind ``value.registry.`` and its like."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Final

from directkafka.options.security.tls import ENDPOINT_IDENTIFICATION, TLS_SPECS, KeyStore, TrustStore, read_tls
from directkafka.options.spec import OptionSpec, RawOptions, Secret
from directkafka.options.texts import http_address, is_near
from directkafka.told_once import warn_once

logger = logging.getLogger("directkafka.options")

URL: Final = OptionSpec(
    name="url",
    kind="list",
    doc="The address of a schema registry that has Confluent's REST API, such as https://registry:8081; several with "
    "commas between them are tried one after the other.",
)
BASIC: Final = OptionSpec(
    name="basic.auth.user.info",
    kind="secret",
    doc="Name and password for the registry, with a colon between them.",
)
BEARER: Final = OptionSpec(name="bearer.auth.token", kind="secret", doc="A token for the registry.")
REGISTRY_SPECS: Final = (URL, BASIC, BEARER, *TLS_SPECS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """A schema registry, and who asks it.

    Attributes:
        urls: its addresses, without a slash at the end.
        option: the option that gives them, for messages.
        user: name and password, with a colon between them.
        token: for whoever has no password.
        trust_store: which certificates are trusted; None: the system's.
        key_store: who this client is; None: nobody.
        check_hostname: whether the registry's certificate must name its host.
    """

    urls: tuple[str, ...]
    option: str
    user: Secret | None = field(default=None, repr=False)
    token: Secret | None = field(default=None, repr=False)
    trust_store: TrustStore | None = None
    key_store: KeyStore | None = None
    check_hostname: bool = True

    @property
    def shown(self) -> str:
        """The addresses as messages have them."""
        return ", ".join(self.urls)


def read_registry(given: RawOptions, prefix: str) -> Registry | None:
    """The registry that options name, if they do.

    Args:
        given: the options.
        prefix: what stands before their names, such as ``value.registry.``.

    Raises:
        OptionError: an address that is none, two ways to log in, or something of a registry without an address.
    """
    texts = {name.removeprefix(prefix): text for name, text in given.texts.items() if name.startswith(prefix)}
    own = replace(given.with_texts(texts), prefix=given.prefix + prefix)
    if not own.text(URL):
        for spec in REGISTRY_SPECS:
            if own.has(spec):
                raise own.error(spec.name, f"is for a registry, and there is no {prefix}url")
        return None
    urls = tuple(_url(own, url) for url in own.value(URL) or ("",))
    if own.text(BASIC) and own.text(BEARER):
        raise own.error(BEARER.name, f"and {prefix}{BASIC.name} are two ways to log in: keep one of them")
    if own.text(BASIC) and ":" not in own.text(BASIC):
        raise own.error(BASIC.name, "expected a name and a password with a colon between them")
    for spec in (BASIC, BEARER):
        if not own.text(spec).isprintable():
            raise own.error(spec.name, "has a line break or another character that cannot be sent")
    if not own.text(BEARER).isascii():
        raise own.error(BEARER.name, "has a character that is no ASCII")
    tls = read_tls(own, own.prefix)
    return Registry(
        urls=urls,
        option=own.prefix + URL.name,
        user=own.value(BASIC) if own.text(BASIC) else None,
        token=own.value(BEARER) if own.text(BEARER) else None,
        trust_store=tls["ssl_trust_store"],
        key_store=tls["ssl_key_store"],
        check_hostname=own.value(ENDPOINT_IDENTIFICATION) == "https",
    )


def _url(given: RawOptions, url: str) -> str:
    # Not shown: it may hold a password.
    parts = http_address(url)
    if parts is None:
        raise given.error(URL.name, "expected an address such as https://registry:8081")
    if parts.username is not None or parts.query or parts.fragment:
        reason = f"has a name, a password, a query or a fragment in it; a login stands in {given.prefix}{BASIC.name}"
        raise given.error(URL.name, reason)
    if parts.scheme == "http" and not is_near(parts) and (given.text(BASIC) or given.text(BEARER)):
        warn_once(logger, "%s%s is not https: whoever listens on the way learns the login", given.prefix, URL.name)
    return url.rstrip("/")
