"""JSON as Spark's ``from_json`` reads it: by a compiled kernel; what that leaves, by the same rules in Python."""

from __future__ import annotations


class MalformedJsonError(Exception):
    """The text is no JSON from here on; the parser may be asked for the next token all the same."""


class MismatchError(Exception):
    """A value that does not fit the type of its field."""
