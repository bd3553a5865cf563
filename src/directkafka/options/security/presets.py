"""Logins of clouds in a word: presets, and the Java classes that stand for the same, become Kafka's own settings.

Each setting that is given itself comes before that of the preset. Sources: Amazon's ``aws-msk-iam-auth``, Microsoft's
pages on Event Hubs for Kafka, Google's ``managed-kafka-auth-login-handler``.
"""

from __future__ import annotations

import re
from typing import Final

from directkafka.options.security.oauthbearer import SCOPE, TOKEN_CALLBACK, TOKEN_ENDPOINT, TOKEN_PROVIDER
from directkafka.options.security.sasl import (
    AWS_MSK_IAM,
    JAAS_CONFIG,
    OAUTHBEARER,
    SASL_MECHANISM,
    SASL_PASSWORD,
    SASL_USERNAME,
)
from directkafka.options.spec import OptionSpec, RawOptions

PRESET: Final = OptionSpec(
    name="security.preset",
    kind="choice",
    choices=("aws-msk", "azure", "gcp"),
    doc="The usual login of a cloud: aws-msk (IAM), azure (Event Hubs: Entra ID, or sasl.password with a connection "
    "string) or gcp (Managed Service for Apache Kafka). It stands for security.protocol, sasl.mechanism and what they "
    "need; each of these that is given comes before it. This library's own name.",
)

_PROTOCOL: Final = "security.protocol"

#: What Java's classes for callbacks do, in Kafka's settings: nothing, where the mechanism says it.
_HANDLERS: Final[dict[str, dict[str, str]]] = {
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler": {},
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler": {},
    "software.amazon.msk.auth.iam.IAMClientCallbackHandler": {},
    # For Java's OAUTHBEARER; brokers take the same identity by Amazon's own mechanism.
    "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler": {SASL_MECHANISM.name: AWS_MSK_IAM},
    "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler": {TOKEN_PROVIDER.name: "gcp"},
}
_TAKES_A_ROLE: Final = "STSAssumeRole"
_HANDLER_SETTINGS: Final = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class")

_HOST: Final = re.compile(r"(?:.*://)?([^:/,]+):[0-9]+")


def with_presets(given: RawOptions) -> RawOptions:
    """Settings with what a preset, and Java classes that are known, stand for; without these themselves.

    Raises:
        OptionError: no such preset, one beside a protocol without logins, or a class that takes a role in AWS.
    """
    for setting in _HANDLER_SETTINGS:
        handler = given.texts.get(setting, "").strip()
        if _TAKES_A_ROLE in handler:
            reason = "takes a role; write role_arn into a profile of ~/.aws/config, and name it with awsProfileName"
            raise given.error(setting, reason)
        if handler in _HANDLERS:
            # The class says which mechanism it is for, whatever else does.
            dropped = {setting, *SASL_MECHANISM.aliases}
            rest = {name: text for name, text in given.texts.items() if name not in dropped}
            given = given.with_texts({**rest, **_HANDLERS[handler]})
    if not given.has(PRESET):
        return given
    preset = given.value(PRESET)
    protocol = given.texts.get(_PROTOCOL, "SASL_SSL").strip().upper()
    if not protocol.startswith("SASL"):
        raise given.error(_PROTOCOL, f"{protocol} has no login, and {given.prefix}{PRESET.name} is one: leave it out")
    texts = {_PROTOCOL: protocol, **given.texts}
    del texts[PRESET.name]
    mechanism = given.text(SASL_MECHANISM).upper() or _mechanism(preset, given)
    if not given.has(SASL_MECHANISM):
        texts[SASL_MECHANISM.name] = mechanism
    if mechanism == "PLAIN" and preset == "azure" and not (given.has(SASL_USERNAME) or given.has(JAAS_CONFIG)):
        texts[SASL_USERNAME.name] = "$ConnectionString"
    if mechanism == OAUTHBEARER and not any(
        given.has(spec) for spec in (TOKEN_PROVIDER, TOKEN_CALLBACK, TOKEN_ENDPOINT)
    ):
        texts[TOKEN_PROVIDER.name] = preset
        if preset == "azure" and not given.has(SCOPE):
            # The scope is the namespace, which the address names: NAMESPACE.servicebus.windows.net:9093.
            host = _HOST.match(given.texts.get("bootstrap.servers", "").strip())
            texts[SCOPE.name] = f"https://{host[1] if host else 'NAMESPACE.servicebus.windows.net'}/.default"
    return given.with_texts(texts)


def _mechanism(preset: str, given: RawOptions) -> str:
    if preset == "aws-msk":
        return AWS_MSK_IAM
    has_password = given.has(SASL_PASSWORD) or "PlainLoginModule" in given.text(JAAS_CONFIG)
    return "PLAIN" if preset == "azure" and has_password else OAUTHBEARER
