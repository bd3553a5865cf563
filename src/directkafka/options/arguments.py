"""Arguments of calls: is each of the type that it is said to be?"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import TypeVar

from directkafka.errors import OptionError

__all__ = ["check_installed", "check_type", "list_of"]

Item = TypeVar("Item")


def check_installed(package: str, *, extra: str) -> None:
    """Refuse a store whose package is not installed.

    Args:
        package: to be imported later, perhaps by another process.
        extra: the extra of this library that brings it.

    Raises:
        OptionError: says what to install.
    """
    if find_spec(package) is None:
        reason = f"the package {package} is not installed: run pip install '.[{extra}]' in a checkout of directkafka"
        raise OptionError(option="type", reason=reason)


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
    found = list(values)
    for one in found:
        check_type(one, expected, option=option, wanted=wanted)
    return found
