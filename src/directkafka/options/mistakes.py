"""Several mistakes told at once: who has mended one must not meet the next one in the next run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from directkafka.errors import OptionError

__all__ = ["Mistakes"]

#: How many are told; a file that is all wrong needs no longer list.
_TOLD_MAX = 20


class Mistakes:
    """Collects what is wrong, in the order found."""

    def __init__(self) -> None:
        self._found: list[OptionError] = []

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._found)

    def add(self, error: OptionError) -> None:
        """One more; the same again is passed over."""
        if str(error) not in map(str, self._found):
            self._found.append(error)

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

    def tell(self) -> None:
        """Raise them, if there is any.

        Raises:
            OptionError: the first, with the others in its message.
        """
        if self._found:
            raise self.together()

    def together(self) -> OptionError:
        """The first, with the others in its message."""
        first, *others = self._found
        also = [*first.also, *(line for one in others for line in str(one).split("\n"))]
        return replace(first, also=tuple(_shortened(also)))


def _shortened(messages: Sequence[str]) -> Sequence[str]:
    if len(messages) < _TOLD_MAX:
        return messages
    return [*messages[: _TOLD_MAX - 1], f"and {len(messages) - _TOLD_MAX + 1} more."]
