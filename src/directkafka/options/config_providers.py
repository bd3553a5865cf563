"""Options that refer to a file, a folder or the environment, from which the value is read.

The three providers are Kafka's own, with its words for a reference (KIP-297, KIP-632, KIP-887): ``${file:PATH:KEY}`` is
the value of a key in a file of Java properties, ``${dir:PATH:KEY}`` the content of the file KEY in a folder, as
Kubernetes and Docker mount secrets, and ``${env:NAME}`` a variable of the environment. No message of this module shows
a value.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from directkafka.options.spec import Mistakes, OptionSpec, RawOptions, shown
from directkafka.options.texts import fault_of_pattern, fault_of_text

__all__ = [
    "CONFIG_PROVIDERS",
    "REFERENCE_PATTERN",
    "ValueNotProvidedError",
    "value_at",
    "with_provided",
    "with_provided_values",
]

#: Providers by the name that pipeline files give them; Kafka's class for each.
_CLASSES: Final = {
    "file": "FileConfigProvider",
    "dir": "DirectoryConfigProvider",
    "env": "EnvVarConfigProvider",
}

#: The pattern of a reference, without ``${`` before it and ``}`` behind it.
REFERENCE_PATTERN: Final = rf"(?:{'|'.join(_CLASSES)}):[^}}]*"

#: Longest file that is read; secrets are short, and a wrong path may name anything.
_BYTES_MAX: Final = 1024 * 1024

CONFIG_PROVIDERS: Final = OptionSpec(
    name="config.providers",
    kind="list",
    doc="Names of providers (file, dir, env). In other settings, ${file:PATH:KEY}, ${dir:PATH:KEY} and ${env:NAME} "
    "are replaced on the driver by the values found there. config.providers.NAME.class is "
    "Kafka's class of a provider with another name (FileConfigProvider, DirectoryConfigProvider, "
    "EnvVarConfigProvider); config.providers.NAME.param.allowed.paths and .allowlist.pattern bound what may be read.",
)
_SETTING: Final = CONFIG_PROVIDERS.name

#: ``${PROVIDER:PATH:KEY}`` and ``${PROVIDER:KEY}``. Source: ``ConfigTransformer.java``.
_REFERENCE: Final = re.compile(r"\$\{([^}:]*):([^}]*)\}")


class ValueNotProvidedError(ValueError):
    """There is no value that a reference names. The message says why, and contains no secret."""


def value_at(reference: str, *, environment: Mapping[str, str], folder: Path | None = None) -> str:
    """The value that a reference names.

    Args:
        reference: such as ``file:/etc/secrets.properties:password``.
        environment: variables by name.
        folder: where a relative path begins; this process's own by default.

    Raises:
        ValueNotProvidedError: there is none.
    """
    provider, _, rest = reference.partition(":")
    return _Provider(kind=provider, environment=environment, folder=folder).value(rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Provider:
    """One of Kafka's config providers.

    Attributes:
        kind: a name of :data:`_CLASSES`.
        environment: variables by name.
        folder: where a relative path begins.
        allowed: outside these paths nothing is read; None: everywhere.
        pattern: only variables of which it matches the whole name are given (Kafka's ``EnvVarConfigProvider``); None:
            all are.
    """

    kind: str
    environment: Mapping[str, str]
    folder: Path | None = None
    allowed: tuple[Path, ...] | None = None
    pattern: str | None = None

    def value(self, location: str) -> str:
        """The value at ``PATH:KEY``, or at ``NAME``."""
        if self.kind == "env":
            return self._of_environment(location.removeprefix(":"))
        path, colon, key = location.partition(":")
        if not (path and colon and key):
            raise ValueNotProvidedError(f"expected ${{{self.kind}:PATH:KEY}}, found ${{{self.kind}:{location}}}")
        if fault := fault_of_text(path) or fault_of_text(key):
            raise ValueNotProvidedError(f"${{{self.kind}:...}} names a path or a key that {fault}")
        return self._of_file(path, key) if self.kind == "file" else self._of_folder(path, key)

    def _of_environment(self, name: str) -> str:
        if self.pattern is not None and not re.fullmatch(self.pattern, name):
            raise ValueNotProvidedError(f"the environment variable {name} is not one of allowlist.pattern")
        if name not in self.environment:
            raise ValueNotProvidedError(f"the environment variable {name} is not set")
        return self.environment[name]

    def _of_file(self, path: str, key: str) -> str:
        # Not above: executors import this module with every connection's options.
        import javaproperties

        content = self._content(Path(path))
        try:
            values = javaproperties.loads(content)
        except ValueError as error:
            raise ValueNotProvidedError(f"{path} is not a file of Java properties") from error
        if key not in values:
            # Its keys are not shown: in a file that is no properties file at all, the secret itself is one.
            raise ValueNotProvidedError(f"{path} has no key {key} (number of its keys: {len(values):,})")
        return values[key]

    def _of_folder(self, path: str, key: str) -> str:
        if "/" in key or key in (".", ".."):
            raise ValueNotProvidedError(f"{key} is not the name of a file in {path}")
        # Editors end a file with a line's end, which belongs to no password.
        return self._content(Path(path) / key).removesuffix("\n").removesuffix("\r")

    def _content(self, path: Path) -> str:
        joined_path = (self.folder or Path()) / path
        try:
            resolved = joined_path.resolve(strict=True)
            if self.allowed is not None and not any(resolved.is_relative_to(allowed) for allowed in self.allowed):
                raise ValueNotProvidedError(f"{path} is outside allowed.paths")
            if not resolved.is_file():
                raise ValueNotProvidedError(f"{path} is not a file")
            with resolved.open("rb") as file:
                content = file.read(_BYTES_MAX + 1)
        except RuntimeError as error:  # of Python before 3.13, in place of ELOOP
            raise ValueNotProvidedError(f"{path} cannot be read ({os.strerror(errno.ELOOP)})") from error
        except OSError as error:
            raise ValueNotProvidedError(f"{path} cannot be read ({error.strerror})") from error
        if len(content) > _BYTES_MAX:
            raise ValueNotProvidedError(f"{path} has more than {_BYTES_MAX} bytes")
        try:
            return content.decode()
        except UnicodeDecodeError:
            # Not behind the new error: it holds the bytes.
            raise ValueNotProvidedError(f"{path} is not UTF-8 text") from None


def with_provided_values(given: RawOptions, environment: Mapping[str, str] | None = None) -> RawOptions:
    """Settings of Kafka with the values that ``config.providers`` stand for, and without its own settings.

    Without that setting nothing is looked up, as in Kafka's own clients.

    Args:
        given: the settings.
        environment: variables by name; this process's own by default.

    Raises:
        OptionError: a provider that is not known, or a reference that has no value.
    """
    if _SETTING not in given.texts:
        return given
    mistakes = Mistakes()
    with mistakes.kept():
        providers = _read_providers(given, os.environ if environment is None else environment)
    mistakes.raise_if_any()
    texts, values = {}, list(given.secrets)

    def value(match: re.Match[str]) -> str:
        # Kafka leaves a provider that it does not know as it is, since the text may mean something else.
        provider = providers.get(match[1])
        if provider is None:
            return match[0]
        values.append(provider.value(match[2]))
        return values[-1]

    for name, text in given.texts.items():
        if name == _SETTING or name.startswith(f"{_SETTING}."):
            continue
        try:
            texts[name] = _REFERENCE.sub(value, text)
        except ValueNotProvidedError as error:
            mistakes.add(given.error(name, str(error)))
    mistakes.raise_if_any()
    return replace(given.with_texts(texts), secrets=tuple(values))


def with_provided(given: RawOptions, name: str, *, prefix: str) -> RawOptions:
    """Options with the value of one of Kafka's settings that their ``config.providers`` stand for.

    Args:
        given: the options.
        name: the setting, with the prefix.
        prefix: what Kafka's settings among them begin with.

    Raises:
        OptionError: as :func:`with_provided_values`.
    """
    if "${" not in given.texts.get(name, ""):
        return given
    settings = {
        option.removeprefix(prefix): text
        for option, text in given.texts.items()
        if option == name or option == prefix + _SETTING or option.startswith(f"{prefix}{_SETTING}.")
    }
    provided = with_provided_values(RawOptions(texts=settings, where=given.where, prefix=prefix))
    texts = {**given.texts, name: provided.texts[name.removeprefix(prefix)]}
    return replace(given.with_texts(texts), secrets=provided.secrets)


def _read_providers(given: RawOptions, environment: Mapping[str, str]) -> dict[str, _Provider]:
    names = dict.fromkeys(filter(None, (name.strip() for name in given.texts[_SETTING].split(","))))
    settings = dict(_settings(given))
    providers = {}
    for name in names:
        chosen = settings.pop(f"{name}.class".lower(), _CLASSES.get(name, ""))
        kind = next((kind for kind, known in _CLASSES.items() if chosen.rpartition(".")[2] == known), None)
        if kind is None:
            known = ", ".join(_CLASSES.values())
            reason = f"is {chosen}, which is not known here" if chosen else "is missing"
            raise given.error(f"{_SETTING}.{name}.class", f"{reason}; known are {known}")
        allowed = settings.pop(f"{name}.param.allowed.paths".lower(), None)
        pattern = settings.pop(f"{name}.param.allowlist.pattern".lower(), None)
        if pattern is not None and (fault := fault_of_pattern(pattern)):
            raise given.error(f"{_SETTING}.{name}.param.allowlist.pattern", fault)
        paths = None if allowed is None else _paths(given, f"{_SETTING}.{name}.param.allowed.paths", allowed)
        providers[name] = _Provider(kind=kind, environment=environment, allowed=paths, pattern=pattern)
    for name in settings:
        reason = f"belongs to no provider of {_SETTING} ({', '.join(names)}), or is no setting of it"
        raise given.error(f"{_SETTING}.{name}", reason)
    return providers


def _paths(given: RawOptions, name: str, text: str) -> tuple[Path, ...]:
    """Absolute paths that are there, as Kafka's ``AllowedPaths.java`` wants them; but an empty list allows nothing."""
    paths = []
    for path in filter(None, (part.strip() for part in text.split(","))):
        if not Path(path).is_absolute() or not Path(path).exists():
            raise given.error(name, f"expected paths that are absolute and there, found {shown(path)}")
        paths.append(Path(path).resolve())
    return tuple(paths)


def _settings(given: RawOptions) -> Iterator[tuple[str, str]]:
    """What is said of the providers, by provider and setting."""
    for name, text in given.texts.items():
        if name.startswith(f"{_SETTING}."):
            yield name.removeprefix(f"{_SETTING}."), text.strip()
