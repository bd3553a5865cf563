"""Errors of schema registries."""

from __future__ import annotations

from directkafka.errors import DirectKafkaError


class RegistryError(DirectKafkaError):
    """Base of what goes wrong between this process and a schema registry."""


class RegistryUnavailableError(RegistryError):
    """The registry did not answer, at none of its addresses; worth another try.

    Attributes:
        wanted: what was asked of it.
        option: the setting that names it.
    """

    registry: str
    wanted: str
    cause: str
    option: str
    template = (
        "the schema registry at {registry} does not answer for {wanted}: {cause}. Check {option}, and that the "
        "registry runs. What is known of schemas already goes on being read."
    )


class RegistryAccessError(RegistryError):
    """The registry was reached, but its certificate or the login is not accepted; never tried again, never a secret."""

    registry: str
    cause: str
    remedy: str
    template = "the schema registry at {registry} cannot be used: {cause}. {remedy}."


class SchemaNotRegisteredError(RegistryError):
    """The registry answers, and the subject does not have the schema by which rows are to be written."""

    registry: str
    subject: str
    cause: str
    template = (
        "the schema registry at {registry} does not have the given schema under the subject {subject}: {cause}. "
        "Register it there, or set registry.register = true beside the registry's address."
    )


class UnencodableRowError(DirectKafkaError):
    """A row's value or key cannot be written as the format that the options say.

    Attributes:
        column: ``value`` or ``key``.
        format: of the option.
        reason: what is wrong, and where.
    """

    column: str
    format: str
    reason: str
    template = "the {column} of a row cannot be written as {format}: {reason}"


class SchemaNotFoundError(RegistryError):
    """The registry answers, and does not have what was asked for."""

    registry: str
    wanted: str
    cause: str
    template = (
        "the schema registry at {registry} does not have {wanted}: {cause}. Register it there; to go on without the "
        "records that name it, set on.error = null of their value or key."
    )
