"""The description of an option: its name, kind, bounds and default; and how its text becomes a value.

The fields of :class:`~directkafka.options.client.ClientOptions` and :class:`~directkafka.options.source.SourceOptions`
carry their :class:`OptionSpec` as dataclass metadata. So a default stands in one place only, and the reference page is
generated from the same rows that the parser reads.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal

from directkafka.errors import OptionError
from directkafka.options.texts import (
    TEXT_BYTES_MAX,
    check_type,
    decimal_number,
    duration_ms,
    fault_of_text,
    masked,
    whole_number,
)
from directkafka.plain_text import cut
from directkafka.told_once import warn_once

logger = logging.getLogger("directkafka.options")

#: How many are told; a file that is all wrong needs no longer list.
_TOLD_MAX = 20


class Mistakes:
    """Collects what is wrong, in the order found.

    Args:
        secrets: values that no message shows; may grow later.
    """

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = secrets
        self._errors: list[OptionError] = []

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._errors)

    def add(self, error: OptionError) -> None:
        """One more; the same again is passed over."""
        if str(error) not in map(str, self._errors):
            self._errors.append(error)

    @contextmanager
    def kept(self, where: str = "") -> Iterator[None]:
        """Keep an :class:`~directkafka.errors.OptionError` that the block raises, and go on behind it.

        Args:
            where: the place, for one that does not say more.
        """
        try:
            yield
        except OptionError as error:
            self.add(replace(error, where=", ".join(filter(None, (where, error.where)))) if where else error)

    def raise_if_any(self) -> None:
        """Raise them, if there is any.

        Raises:
            OptionError: the first, with the others in its message.
        """
        if self._errors:
            raise self.together()

    def together(self) -> OptionError:
        """The first, with the others in its message."""
        first, *others = self._errors
        also = [*first.also, *(line for other in others for line in str(other).split("\n"))]
        shown_also = tuple(masked(line, self._secrets) for line in _shortened(also))
        return replace(first, reason=masked(first.reason, self._secrets), also=shown_also)


def _shortened(messages: Sequence[str]) -> Sequence[str]:
    if len(messages) < _TOLD_MAX:
        return messages
    return [*messages[: _TOLD_MAX - 1], f"and {len(messages) - _TOLD_MAX + 1} more."]


Kind = Literal["integer", "number", "duration", "boolean", "text", "list", "choice", "secret", "json"]
Scope = Literal["streaming and batch", "streaming", "batch"]

#: Java's Integer.MAX_VALUE and Long.MAX_VALUE: the bounds that Spark's and Kafka's own parsers
#: have.
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

#: How much of a wrong value a message shows, in characters.
_SHOWN_MAX: Final = 200


class Secret:
    """A text that is never printed: ``repr`` and ``str`` mask it, pickling keeps it.

    It is no dataclass: :func:`dataclasses.asdict` would take it apart.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self._text,)

    def __str__(self) -> str:
        return "********"

    def __repr__(self) -> str:
        return "Secret(********)"


class _Texts(dict[str, str]):
    """Settings as they were given, secrets among them: printed, also as a part of something else, are their names."""

    def __repr__(self) -> str:
        return f"<{', '.join(sorted(self)) or 'nothing'}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSpec:
    """One row of the option table.

    Attributes:
        name: as Spark or Kafka spells it; client names without the prefix ``kafka.``.
        kind: what its text must be.
        doc: what it does, one or two sentences.
        default: what counts when it is not given, as text for the reference page; empty when
            nothing does.
        minimum, maximum: bounds of an integer, both inclusive.
        without_zero: whether 0 is refused within them, or of a number.
        bytes_max: of a text.
        choices: the texts a choice may have; any case is taken.
        aliases: other names for the same thing, from librdkafka.
        scope: which reads it is for.
    """

    name: str
    kind: Kind
    doc: str
    default: str = ""
    minimum: int = 0
    maximum: int = LONG_MAX
    without_zero: bool = False
    bytes_max: int = TEXT_BYTES_MAX
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    scope: Scope = "streaming and batch"

    def expected(self) -> str:
        """What a value must look like, for messages and for the reference page."""
        if self.kind == "integer":
            least = (
                f"{self.minimum}, or a whole number from 1"
                if self.without_zero
                else f"a whole number from {self.minimum}"
            )
            return f"{least} to {self.maximum}"
        if self.kind == "number" and self.without_zero:
            return "a number above 0, such as 0.2"
        if self.kind == "choice":
            return "one of " + ", ".join(filter(None, self.choices)) + (", or empty" if "" in self.choices else "")
        return _EXPECTED[self.kind]


_EXPECTED: Final[dict[Kind, str]] = {
    "number": "a number from 0, such as 0.2",
    "duration": "a duration such as 500ms, 10s, 5 minutes or 2h",
    "boolean": "true or false",
    "list": "a comma-separated list",
    "json": "a JSON object",
    "text": "text",
    "secret": "text",
}


def option(default: Any, *, name: str, doc: str, kind: Kind | None = None, **rest: Any) -> Any:
    """A dataclass field that is read from the option ``name``.

    Args:
        default: the field's.
        name: of the option.
        doc: for the reference page.
        kind: a choice where there are ``choices``, else what the default is, unless it is given.
        rest: further fields of its :class:`OptionSpec`.
    """
    kind = kind or ("choice" if rest.get("choices") else _KINDS[type(default)])
    spec = OptionSpec(name=name, kind=kind, doc=doc, default=_shown(default), **rest)
    return field(default=default, metadata={"option": spec})


_KINDS: Final[dict[type, Kind]] = {bool: "boolean", int: "integer", float: "number", str: "text"}


def _shown(default: Any) -> str:
    if default is None:
        return ""
    return str(default).lower() if isinstance(default, bool) else str(default)


def specs_of(options_type: type) -> dict[str, OptionSpec]:
    """The specs of a dataclass whose fields were made with :func:`option`, by field name."""
    return {field.name: field.metadata["option"] for field in fields(options_type) if "option" in field.metadata}


@dataclass(frozen=True, slots=True, kw_only=True)
class RawOptions:
    """The options as the user gave them, ready to be asked for.

    Attributes:
        texts: text by lower-case name.
        where: the file or call they stand in, for messages.
        prefix: what the user writes before each name (``kafka.`` in the data source), for messages.
        secrets: values that were found elsewhere, which no message shows.
    """

    texts: Mapping[str, str]
    where: str = ""
    prefix: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def read(cls, values: Mapping[str, object], *, where: str = "", prefix: str = "") -> RawOptions:
        """Lower the names' case and make texts of values such as ``10`` or ``False``.

        Raises:
            OptionError: what is given has no names, two names differ in case only, or a text is none that a name, a
                path or an address could be.
        """
        check_type(values, Mapping, option=where or "options", wanted="settings by name")
        texts = _Texts()
        mistakes = Mistakes()
        for name, value in values.items():
            check_type(name, str, option=where or "options", wanted="settings by name")
            lowered = name.lower()
            if lowered in texts:
                reason = "is given twice, in different case; names are case-insensitive"
                mistakes.add(OptionError(option=prefix + name, reason=reason, where=where))
            texts[lowered] = _text(value)
            fault = fault_of_text(name) or fault_of_text(texts[lowered])
            if value is None or (isinstance(value, Mapping | Sequence) and not isinstance(value, str)):
                fault = f"expected a text, a number, True, False or a path, found {type(value).__name__}"
            if fault:
                mistakes.add(OptionError(option=prefix + name, reason=fault, where=where))
        mistakes.raise_if_any()
        return cls(texts=texts, where=where, prefix=prefix)

    def with_texts(self, texts: Mapping[str, str]) -> RawOptions:
        """The same place, with other names and texts."""
        return replace(self, texts=_Texts(texts))

    def has(self, spec: OptionSpec) -> bool:
        """Whether the option is given, under its own name or an alias."""
        return self.name_of(spec) is not None

    def name_of(self, spec: OptionSpec) -> str | None:
        """The name under which the option is given, or None."""
        return next((name for name in (spec.name, *spec.aliases) if name.lower() in self.texts), None)

    def text(self, spec: OptionSpec) -> str:
        """The option's text without surrounding blanks; empty when it is not given.

        Raises:
            OptionError: it is longer than such a text may be.
        """
        name = self.name_of(spec)
        text = "" if name is None else self.texts[name.lower()].strip()
        same = str.lower if spec.choices else str
        for other in spec.aliases:
            if name is not None and same(self.texts.get(other.lower(), text).strip()) != same(text):
                raise self.error(other, f"means the same as {self.prefix}{name}, and says something else")
        if spec.kind in ("text", "secret") and (fault := fault_of_text(text, bytes_max=spec.bytes_max)):
            raise self.error(name or spec.name, fault)
        return text

    def values(self, specs: Mapping[str, OptionSpec]) -> dict[str, Any]:
        """The values of those options that are given, by field name.

        Raises:
            OptionError: as :meth:`value`; all that are wrong at once.
        """
        values, mistakes = {}, Mistakes()
        for name, spec in specs.items():
            with mistakes.kept():
                if self.has(spec):
                    values[name] = self.value(spec)
        mistakes.raise_if_any()
        return values

    def value(self, spec: OptionSpec) -> Any:
        """The option's value, or its default, of the type that its kind stands for.

        Raises:
            OptionError: the text is not of the option's kind, or is out of its bounds.
        """
        text = self.text(spec) if self.has(spec) else spec.default
        match spec.kind:
            case "integer" | "number":
                return self._number(spec, text)
            case "duration":
                return self._duration(spec, text)
            case "boolean" | "choice":
                return self._choice(spec, text)
            case "list":
                return tuple(filter(None, (part.strip() for part in text.split(","))))
            case "secret":
                return Secret(text)
            case _:
                return text

    def error(self, name: str, reason: str, error_type: type[OptionError] = OptionError) -> OptionError:
        """An error about this option, to be raised by the caller."""
        return error_type(option=self.prefix + name, reason=masked(reason, self.secrets), where=self.where)

    def _number(self, spec: OptionSpec, text: str) -> int | float:
        number = decimal_number(text) if spec.kind == "number" else whole_number(text)
        is_outside = number is not None and spec.kind == "integer" and not spec.minimum <= number <= spec.maximum
        if number is None or is_outside or (spec.without_zero and not number):
            raise self._unexpected(spec, text)
        return number

    def _duration(self, spec: OptionSpec, text: str) -> int:
        # A number alone is milliseconds, as in Spark's own options of this kind.
        milliseconds = whole_number(text)
        milliseconds = duration_ms(text.lower()) if milliseconds is None else milliseconds
        if milliseconds is not None and spec.minimum <= milliseconds <= spec.maximum:
            return milliseconds
        raise self._unexpected(spec, text)

    def _choice(self, spec: OptionSpec, text: str) -> str | bool:
        if spec.kind == "boolean" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        for choice in spec.choices:
            if choice.lower() == text.lower():
                return choice
        raise self._unexpected(spec, text)

    def _unexpected(self, spec: OptionSpec, text: str) -> OptionError:
        return self.error(self.name_of(spec) or spec.name, f"expected {spec.expected()}, found {shown(text)}")


def shown(value: object) -> str:
    """A wrong value in a message, as Python writes it; a long one is cut."""
    try:
        return cut(repr(value), _SHOWN_MAX)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return f"a {type(value).__name__} of too many digits"


def _text(value: object) -> str:
    """A value as text; one that is no option's at all, such as a number of 10,000 digits, as what is none either."""
    if isinstance(value, bool):
        return str(value).lower()
    return hex(value) if isinstance(value, int) and abs(value) > LONG_MAX else str(value)


def read_json(given: RawOptions, spec: OptionSpec, form: str) -> dict[str, Any]:
    """The option's text as a JSON object by topic.

    Raises:
        OptionError: it is no JSON object; the message shows ``form``.
    """
    try:
        value = json.loads(given.text(spec))
    except ValueError as error:
        raise given.error(spec.name, f"expected {form}; not JSON: {error}") from error
    except RecursionError:
        raise given.error(spec.name, f"expected {form}; the JSON is nested too deep") from None
    if not isinstance(value, dict):
        raise given.error(spec.name, f"expected {form}, found {shown(value)}")
    return value


def warn_unused(given: RawOptions, *specs: OptionSpec, why: str) -> None:
    """Say, once in a program, which of these options are given and have no effect."""
    names = [given.prefix + spec.name for spec in specs if given.has(spec)]
    if names:
        warn_once(logger, "ignored: %s (%s)", ", ".join(names), why)
