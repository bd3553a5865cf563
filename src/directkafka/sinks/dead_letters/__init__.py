"""Dead letters: rejected rows with their reasons, kept in a table, and written again."""

from __future__ import annotations

from typing import Final

#: The column that says how many replays have tried a dead letter, and rejected it again; null is none.
REPLAYS: Final = "replays"
