"""Settings of OAUTHBEARER: where its token comes from, as Kafka's Java clients and librdkafka write it."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from directkafka.options.spec import OptionSpec, RawOptions, Secret, shown, warn_unused
from directkafka.options.texts import http_address, is_near
from directkafka.told_once import warn_once

logger = logging.getLogger("directkafka.options")

TOKEN_CALLBACK: Final = OptionSpec(
    name="sasl.oauthbearer.token.callback",
    kind="text",
    doc="The function module:function that gives the token of OAUTHBEARER, called without arguments wherever a "
    "connection is made: it returns the token, or a pair of it and the time it ends (seconds since 1970). Such a pair "
    "is used again until 80 % of its time is over, or 95 % while the function fails. Executors import the module "
    "too. This library's own name.",
)
TOKEN_ENDPOINT: Final = OptionSpec(
    name="sasl.oauthbearer.token.endpoint.url",
    kind="text",
    doc="The address (https) at which a token of OAUTHBEARER is fetched with the client's id and secret (the grant "
    "client_credentials of OAuth 2), by the driver and by every executor.",
)
TOKEN_PROVIDER: Final = OptionSpec(
    name="sasl.oauthbearer.token.provider",
    kind="choice",
    choices=("azure", "gcp"),
    doc="The cloud whose own library gives the token: azure (azure-identity's DefaultAzureCredential, for "
    "sasl.oauthbearer.scope) or gcp (google-auth's default credentials). This library's own name.",
)
CLIENT_ID: Final = OptionSpec(
    name="sasl.oauthbearer.client.credentials.client.id",
    kind="text",
    aliases=("sasl.oauthbearer.client.id",),
    doc="The client's id at the token endpoint; also clientId in sasl.jaas.config.",
)
CLIENT_SECRET: Final = OptionSpec(
    name="sasl.oauthbearer.client.credentials.client.secret",
    kind="secret",
    aliases=("sasl.oauthbearer.client.secret",),
    doc="The client's secret at the token endpoint; also clientSecret in sasl.jaas.config.",
)
SCOPE: Final = OptionSpec(
    name="sasl.oauthbearer.scope",
    kind="text",
    doc="The scope that is asked of the token endpoint; also scope in sasl.jaas.config.",
)
URL_ENCODED: Final = OptionSpec(
    name="sasl.oauthbearer.header.urlencode",
    kind="boolean",
    default="false",
    doc="Whether id and secret are URL-encoded in the header, as RFC 6749 asks and many servers do not.",
)
EXTENSIONS: Final = OptionSpec(
    name="sasl.oauthbearer.extensions",
    kind="list",
    doc="SASL extensions NAME=VALUE that are sent with the token, such as logicalCluster=...; also extension_NAME in "
    "sasl.jaas.config.",
)

_ENDPOINT_SPECS: Final = (TOKEN_ENDPOINT, CLIENT_ID, CLIENT_SECRET, SCOPE, URL_ENCODED)
TOKEN_SPECS: Final = (TOKEN_CALLBACK, TOKEN_PROVIDER, *_ENDPOINT_SPECS, EXTENSIONS)

_FUNCTION_NAME: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")

#: What a JAAS entry says of an endpoint, in the order of the options that say the same.
_JAAS_OF_ENDPOINT: Final = ("clientId", "clientSecret", "scope")

#: Name and value of a SASL extension (KIP-342; ``OAuthBearerClientInitialResponse.java``).
_EXTENSION: Final = re.compile(r"(?!auth=)([a-zA-Z]+)=([\x20-\x7e\t\r\n]+)")
_JAAS_EXTENSION: Final = "extension_"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpoint:
    """Where a client fetches its token by the grant ``client_credentials`` (RFC 6749, section 4.4).

    Attributes:
        url: the address, ``https`` or ``http``.
        client_id, client_secret: who the client is.
        scope: what is asked for; may be empty.
        is_url_encoded: whether id and secret are URL-encoded in the header (section 2.3.1 there).
    """

    url: str = field(repr=False)
    client_id: str
    client_secret: Secret
    scope: str = ""
    is_url_encoded: bool = False

    @property
    def shown(self) -> str:
        """The address for messages, without what may be secret in it."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{parts.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudIdentity:
    """Who this machine or user is to a cloud, whose library gives a token for it.

    Attributes:
        provider: ``azure`` or ``gcp``.
        scope: what the token is for; may be empty for ``gcp``.
    """

    provider: str
    scope: str = ""


#: Where a token comes from: a function ``module:function``, an endpoint, or a cloud's library.
TokenSource = str | TokenEndpoint | CloudIdentity


def read_token_source(given: RawOptions, login: Mapping[str, str], jaas: OptionSpec) -> dict[str, Any]:
    """The fields of ``ClientOptions`` that say where the token comes from, and its extensions.

    Args:
        given: the settings.
        login: those of the JAAS entry.
        jaas: the option that has the entry.

    Raises:
        OptionError: there is no way to a token, or two, or a part of one is missing or wrong.
    """
    chosen = [spec for spec in (TOKEN_ENDPOINT, TOKEN_PROVIDER, TOKEN_CALLBACK) if given.text(spec)]
    if len(chosen) > 1:
        raise given.error(chosen[1].name, f"give it or {chosen[0].name}, not both")
    is_endpoint, is_cloud = chosen == [TOKEN_ENDPOINT], chosen == [TOKEN_PROVIDER]
    left_over = [name for name in login if not name.startswith(_JAAS_EXTENSION)]
    if left_over and not is_endpoint:
        reason = f"has {', '.join(sorted(left_over))}, which need {TOKEN_ENDPOINT.name}"
        raise given.error(jaas.name, reason)
    if not is_endpoint:
        used = (TOKEN_ENDPOINT, SCOPE) if is_cloud else (TOKEN_ENDPOINT,)
        unused = [spec for spec in _ENDPOINT_SPECS if spec not in used]
        warn_unused(given, *unused, why=f"they belong to {TOKEN_ENDPOINT.name}")
    source: TokenSource
    if is_endpoint:
        source = _read_endpoint(given, login, jaas)
    elif is_cloud:
        source = _read_identity(given)
    else:
        source = _read_callback(given)
    return {"sasl_token_source": source, "sasl_extensions": _read_extensions(given, login, jaas)}


def _read_identity(given: RawOptions) -> CloudIdentity:
    identity = CloudIdentity(provider=given.value(TOKEN_PROVIDER), scope=given.text(SCOPE))
    if identity.provider == "azure" and not identity.scope:
        reason = f"is required with {TOKEN_PROVIDER.name}=azure: https://NAMESPACE.servicebus.windows.net/.default"
        raise given.error(SCOPE.name, reason)
    return identity


def _read_endpoint(given: RawOptions, login: Mapping[str, str], jaas: OptionSpec) -> TokenEndpoint:
    unknown = [name for name in login if name not in _JAAS_OF_ENDPOINT and not name.startswith(_JAAS_EXTENSION)]
    if unknown:
        known = ", ".join(_JAAS_OF_ENDPOINT)
        raise given.error(jaas.name, f"has {', '.join(sorted(unknown))}; known are {known} and extension_NAME")
    # Kafka's own names come before those of JAAS, as in Java (KIP-1139).
    client_id, client_secret, scope = (
        given.text(spec) or login.get(name, "")
        for spec, name in zip((CLIENT_ID, CLIENT_SECRET, SCOPE), _JAAS_OF_ENDPOINT, strict=True)
    )
    for spec, text in ((CLIENT_ID, client_id), (CLIENT_SECRET, client_secret)):
        if not text:
            raise given.error(spec.name, f"is required with {TOKEN_ENDPOINT.name}")
    return TokenEndpoint(
        url=_read_url(given),
        client_id=client_id,
        client_secret=Secret(client_secret),
        scope=scope,
        is_url_encoded=given.value(URL_ENCODED),
    )


def _read_url(given: RawOptions) -> str:
    # Not shown: it may hold a password, or a key of an API.
    url = given.text(TOKEN_ENDPOINT)
    parts = http_address(url)
    if parts is None:
        raise given.error(TOKEN_ENDPOINT.name, "expected an address such as https://host/token")
    if parts.username is not None or parts.fragment:
        reason = f"has a name, a password or a fragment in it; give {CLIENT_ID.name} and {CLIENT_SECRET.name}"
        raise given.error(TOKEN_ENDPOINT.name, reason)
    if parts.scheme == "http" and not is_near(parts):
        warn_once(logger, "%s is not https: whoever listens on the way learns the client's secret", TOKEN_ENDPOINT.name)
    return url


def _read_extensions(given: RawOptions, login: Mapping[str, str], jaas: OptionSpec) -> tuple[tuple[str, str], ...]:
    of_jaas = [
        (jaas, f"{name.removeprefix(_JAAS_EXTENSION)}={value}")
        for name, value in login.items()
        if name.startswith(_JAAS_EXTENSION)
    ]
    extensions = {}
    for option, text in (*of_jaas, *((EXTENSIONS, text) for text in given.value(EXTENSIONS))):
        matched = _EXTENSION.fullmatch(text)
        if matched is None:
            reason = (
                f"expected extensions NAME=VALUE, with NAME of letters and not auth; of {shown(text.split('=')[0])}"
            )
            raise given.error(option.name, f"{reason} that cannot be said")
        extensions[matched[1]] = matched[2]
    return tuple(extensions.items())


def _read_callback(given: RawOptions) -> str:
    callback = given.text(TOKEN_CALLBACK)
    if not callback:
        raise given.error(
            "sasl.mechanism",
            f"OAUTHBEARER needs a token: give {TOKEN_ENDPOINT.name} with the client's id and secret, or the name of "
            f"a function that gives one in {TOKEN_CALLBACK.name}, as module:function",
        )
    if not _FUNCTION_NAME.fullmatch(callback):
        raise given.error(TOKEN_CALLBACK.name, f"expected module:function, found {callback!r}")
    return callback
