"""Logins of clouds in a word: presets, and the Java classes that stand for the same, become Kafka's own settings.

Each setting that is given itself comes before that of the preset. Sources: Amazon's ``aws-msk-iam-auth``, Microsoft's
pages on Event Hubs for Kafka, Google's ``managed-kafka-auth-login-handler``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from directkafka.options.security.oauthbearer import SCOPE, TOKEN_PROVIDER
from directkafka.options.security.sasl import AWS_MSK_IAM, JAAS_CONFIG, OAUTHBEARER, SASL_MECHANISM, SASL_PASSWORD
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
_TLS_AND_LOGIN: Final = {_PROTOCOL: "SASL_SSL"}

#: What Java's classes for callbacks do, in Kafka's settings: nothing, where the mechanism says it.
_HANDLERS: Final[dict[str, dict[str, str]]] = {
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler": {},
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler": {},
    "software.amazon.msk.auth.iam.IAMClientCallbackHandler": {},
    "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler": {SASL_MECHANISM.name: AWS_MSK_IAM},
    "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler": {TOKEN_PROVIDER.name: "gcp"},
}
_HANDLER_SETTINGS: Final = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class")


def with_presets(given: RawOptions) -> RawOptions:
    """Settings with what a preset, and Java classes that are known, stand for; without these themselves.

    Raises:
        OptionError: no such preset.
    """
    texts = dict(given.texts)
    for setting in _HANDLER_SETTINGS:
        meaning = _HANDLERS.get(texts.get(setting, "").strip())
        if meaning is not None:
            del texts[setting]
            # Amazon's class is for Java's OAUTHBEARER; brokers take the same identity by their own mechanism.
            texts = {**texts, **meaning}
            if SASL_MECHANISM.name in meaning:
                texts.pop(JAAS_CONFIG.name, None)
    if given.has(PRESET):
        preset = given.value(PRESET)
        del texts[PRESET.name]
        texts = {**_settings(preset, texts), **texts}
    return given.with_texts(texts)


def _settings(preset: str, texts: Mapping[str, str]) -> dict[str, str]:
    if preset == "aws-msk":
        return {**_TLS_AND_LOGIN, SASL_MECHANISM.name: AWS_MSK_IAM}
    if preset == "azure" and (SASL_PASSWORD.name in texts or JAAS_CONFIG.name in texts):
        name = {} if JAAS_CONFIG.name in texts else {"sasl.username": "$ConnectionString"}
        return {**_TLS_AND_LOGIN, SASL_MECHANISM.name: "PLAIN", **name}
    settings = {**_TLS_AND_LOGIN, SASL_MECHANISM.name: OAUTHBEARER, TOKEN_PROVIDER.name: preset}
    if preset == "azure":
        # The scope is the namespace, which the address names: NAMESPACE.servicebus.windows.net:9093.
        host = texts.get("bootstrap.servers", "").split(",")[0].strip().rpartition(":")[0]
        settings[SCOPE.name] = f"https://{host}/.default"
    return settings
