"""Texts that others write: bounds on numbers, names and patterns, durations in two forms, and types of arguments.

Without these bounds such a text goes deep into a library, which ends with an error of its own: Python makes no number
of 4,300 digits, Kafka's protocol no text of more than 32,767 bytes, the operating system no path with a NUL.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import SplitResult, urlsplit

from directkafka.errors import OptionError

#: Java's Short.MAX_VALUE: longest text of Kafka's protocol.
TEXT_BYTES_MAX: Final = 2**15 - 1

#: Of one name in a path, on the file systems of Linux and macOS.
_NAME_BYTES_MAX: Final = 255

#: As many digits as a number of 64 bits has; zeros before them do not count.
_WHOLE: Final = re.compile(r"([+-]?)0*([0-9]{1,20})")
_DECIMAL: Final = re.compile(r"[0-9]{1,300}(\.[0-9]{1,300})?")
#: Kafka's own rule.
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def whole_number(text: str) -> int | None:
    """The number that a text of digits is; None where it is none, or has more digits than anything here.

    Not ``int(text)``: that takes ``1_000`` and digits of other scripts, which neither Kafka nor Spark does.
    """
    match = _WHOLE.fullmatch(text)
    return None if match is None else int(match[1] + match[2])


def decimal_number(text: str) -> float | None:
    """The same for a number from 0 with a point, or without."""
    value = float(text) if _DECIMAL.fullmatch(text) else math.inf
    return value if math.isfinite(value) else None


def fault_of_text(text: str, *, bytes_max: int | None = None) -> str:
    """What is wrong with a text that becomes a name, a path or an address; empty when nothing is.

    Args:
        text: what the user gives.
        bytes_max: most bytes of UTF-8.
    """
    if "\0" in text:
        return f"has a NUL character (U+0000) at position {text.index(chr(0)) + 1}, which no name, path or address has"
    try:
        length = len(text.encode())
    except UnicodeEncodeError as error:
        return (
            f"has half a character (the lone surrogate U+{ord(text[error.start]):04X}) at position {error.start + 1}; "
            "was it read as another encoding than UTF-8?"
        )
    if bytes_max is not None and length > bytes_max:
        return f"has {length:,} bytes; {bytes_max:,} is the most"
    return ""


def fault_of_host(name: str) -> str:
    """What is wrong with a host's name before anybody is asked for its address; empty when nothing is.

    Names of other scripts are asked for as IDNA writes them (RFC 3490), which leaves out many characters.
    """
    try:
        name.encode("idna")
    except UnicodeError:
        return "has a host whose name no name server takes"
    return ""


def http_address(url: str) -> SplitResult | None:
    """The parts of an address of a web server; None where it is none, or has what no address has.

    Args:
        url: as the user gives it; it may hold a password, and so no message shows it.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname is not None and parts.port != 0
    except ValueError:
        return None
    is_plain = url.isascii() and url.isprintable() and " " not in url
    return parts if is_address and is_plain and not fault_of_host(parts.hostname or "") else None


def is_near(address: SplitResult) -> bool:
    """Whether an address is of this machine, so that nobody listens on the way."""
    return address.hostname in ("localhost", "127.0.0.1", "::1")


def fault_of_path(path: Path) -> str:
    """What is wrong with a path wherever it may lead; empty when nothing is."""
    longest = max(path.parts, key=lambda part: len(os.fsencode(part)), default="")
    size = len(os.fsencode(longest))
    return f"a part of it has {size:,} bytes; {_NAME_BYTES_MAX} is the most" if size > _NAME_BYTES_MAX else ""


def fault_of_topic(name: str) -> str:
    """What is wrong with a topic's name by Kafka's rule; empty when nothing is."""
    if _TOPIC.fullmatch(name) and name not in (".", ".."):
        return ""
    shown = repr(name) if len(name) <= 249 else f"one of {len(name):,} characters"
    return f"{shown} cannot be a topic's name: Kafka has 1 to 249 letters, digits, '.', '_' and '-', and not . and .."


def fault_of_pattern(pattern: str) -> str:
    """What is wrong with a regular expression; empty when nothing is."""
    try:
        # Python warns of what a later version may read in another way; a user of the pattern can do nothing with that.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(pattern)
    except re.error as error:
        return f"is not a Python regular expression: {error}"
    except (RecursionError, OverflowError):
        return "is a regular expression that Python cannot take: nested too deep, or with a number of too many digits"
    return ""


_DURATION: Final = re.compile(r"\s*([0-9.]+)\s*([a-z]+)\s*")
_UNITS_MS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}

#: A hundred years. Python waits for no more than 292, and says so in its own words.
DURATION_MS_MAX: Final = 100 * 365 * 86_400_000


def duration_ms(text: str) -> int | None:
    """A duration in milliseconds; None when the text is none, or one of more than a hundred years."""
    match = _DURATION.fullmatch(text)
    number = None if match is None else decimal_number(match[1])
    if match is None or number is None or match[2] not in _UNITS_MS:
        return None
    value = number * _UNITS_MS[match[2]]
    return round(value) if value <= DURATION_MS_MAX else None


#: A number has 9 digits at most: a duration of 30,000 years is a mistake.
_FORM: Final = re.compile(
    r"P(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:[.,]\d{1,9})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)
_ISO_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)


def iso_duration_ms(text: str) -> int | None:
    """A duration that is not negative, in milliseconds; None when the text is none."""
    match = _FORM.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        return None
    numbers = (float((group or "0").replace(",", ".")) for group in match.groups())
    return round(sum(number * unit_ms for number, unit_ms in zip(numbers, _ISO_UNITS_MS, strict=True)))


Item = TypeVar("Item")


def check_installed(package: str, *, extra: str, option: str = "type") -> None:
    """Refuse what needs a package that is not installed.

    Args:
        package: to be imported later, perhaps by another process.
        extra: the extra of this library that brings it.
        option: what asks for it.

    Raises:
        OptionError: says what to install.
    """
    if find_spec(package) is None:
        reason = f"the package {package} is not installed: run pip install '.[{extra}]' in a checkout of directkafka"
        raise OptionError(option=option, reason=reason)


def check_type(value: object, expected: type | tuple[type, ...], *, option: str, wanted: str) -> None:
    """Refuse a value of another type.

    Args:
        value: what the program gives. It is not shown: it may hold a secret.
        expected: the type, or several.
        option: the argument's name.
        wanted: the type in words.

    Raises:
        OptionError: says what is wanted and which type was found.
    """
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is int):
        raise OptionError(option=option, reason=f"expected {wanted}, found {type(value).__name__}")


def path_text(path: str | os.PathLike[str], *, option: str) -> str:
    """A path, or an address that Hadoop understands, as text.

    Raises:
        OptionError: as :func:`check_type`.
    """
    check_type(path, (str, os.PathLike), option=option, wanted="a path")
    return os.fspath(path)


def list_of(expected: type[Item], values: object, *, option: str, wanted: str) -> list[Item]:
    """The values as a list; a text, a single value, or a tuple in place of a value is refused.

    Args:
        expected: the type of each.
        values: what the program gives, anything that can be gone through.
        option, wanted: as for :func:`check_type`.

    Raises:
        OptionError: as :func:`check_type`.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise OptionError(option=option, reason=f"expected {wanted}, found {type(values).__name__}")
    items = list(values)
    for item in items:
        check_type(item, expected, option=option, wanted=wanted)
    return items


def masked(text: str, secrets: Iterable[str]) -> str:
    """A message without what it quotes of values that stand elsewhere; one or two characters are no secret.

    Args:
        text: may have such a value in it, in any case, also as Python writes it.
        secrets: the values.
    """
    forms = {form for secret in secrets if len(secret) > 2 for form in (secret, repr(secret)[1:-1])}
    if not forms:
        return text
    longest_first = sorted(map(re.escape, forms), key=len, reverse=True)
    return re.sub("|".join(longest_first), "********", text, flags=re.IGNORECASE)
