"""Values of declared fields, read from a JSON text as ``from_json`` in PERMISSIVE mode reads them (Spark 4.3).

The rules are those of Spark's ``JacksonParser``. A field whose value does not fit its type is null, and the fields
behind it are read, from where the parser then stands. A text that is no JSON in a place that this passes is a row of
nulls. A blank text is no row at all. A text that goes on behind its object is read up to there.

It is exact and slow, some 30 µs for ten fields. The kernel hands it what is rare: malformed texts, single quotes, and
what else its own text names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa

from directkafka.options.time_zones import time_zone as zone_of
from directkafka.payloads.json import MalformedJsonError, MismatchError, times
from directkafka.payloads.json.java_texts import NUMBER_WORDS, clean, copied, java_text, real_of
from directkafka.payloads.json.tokens import Token, Tokens

Converter = Callable[[Tokens], Any]

_NUMBERS: Final = (Token.INTEGER, Token.REAL)
#: ``INF`` is a word of Java's, but no text that stands for a number in quotes.
_QUOTED_WORDS: Final = {word: value for word, value in NUMBER_WORDS.items() if word != "INF"}
_DECIMAL: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INT64: Final = 1 << 64
_SHORT: Final = 1024
_INT64_MAX: Final = (1 << 63) - 1


class _PartlyReadError(Exception):
    """A value of which some is read, and what is wrong with the rest."""

    def __init__(self, value: Any, problem: str) -> None:
        super().__init__(problem)
        self.value = value


class JsonReader:
    """Reads texts of one schema.

    Args:
        schema: the fields, as Arrow's types of Spark's.
        time_zone: of timestamps that name none.
    """

    def __init__(self, schema: pa.StructType, time_zone: str = "UTC") -> None:
        self._schema = schema
        self._converters: dict[tuple[str, ...], Converter] = {}
        self._zone = zone_of(time_zone)
        self._names = [field.name for field in schema]
        self._fields = {field.name: self._converter(field.type) for field in reversed(list(schema))}

    def read(self, value: bytes) -> tuple[dict[str, Any] | None, str]:
        """The fields of a text, None where it is blank; and what is wrong with it, empty where nothing is."""
        tokens = Tokens(java_text(value))
        try:
            if tokens.next() is None:
                return None, ""
            if tokens.current is Token.OBJECT_START:
                return self._object(tokens, self._fields, self._names), ""
            problem = f"{tokens.current.value} in place of an object"  # type: ignore[union-attr]
        except MalformedJsonError as error:
            problem = str(error)
        except _PartlyReadError as error:
            return error.value, str(error)
        return dict.fromkeys(self._names), problem

    def mismatch(self, path: tuple[str, ...], text: memoryview) -> str:
        """What is wrong with a value that does not fit its field's type.

        Args:
            path: the names of the fields from the schema's to the value's.
            text: the value, and what stands behind it.
        """
        if (convert := self._converters.get(path)) is None:
            kind = self._schema
            for name in path:
                kind = kind.field(name).type
            convert = self._converters[path] = self._converter(kind)
        # The value itself is short, as a rule, and what stands behind it may not be.
        for part in (text[:_SHORT], text):
            tokens = Tokens("[" + java_text(bytes(part)))
            try:
                tokens.next()
                tokens.next()
                convert(tokens)
            except MismatchError as error:
                return str(error)
            except MalformedJsonError as error:
                problem = str(error)
        return problem

    def _object(self, tokens: Tokens, fields: Mapping[str, Converter], names: list[str]) -> dict[str, Any]:
        row: dict[str, Any] = dict.fromkeys(names)
        problem = ""
        while tokens.next() not in (None, Token.OBJECT_END):
            name = tokens.name
            convert = fields.get(name) if name is not None else None
            if convert is None:
                tokens.skip_children()
                continue
            try:
                row[name] = convert(tokens)  # type: ignore[index]
            except _PartlyReadError as error:
                row[name] = error.value  # type: ignore[index]
                problem = problem or f"{name}: {error}"
            except (MismatchError, MalformedJsonError) as error:
                problem = problem or f"{name}: {error}"
                tokens.skip_children()
        if problem:
            raise _PartlyReadError(row, problem)
        return row

    def _map(self, tokens: Tokens, convert: Converter) -> list[tuple[str, Any]]:
        pairs, problem, is_lost = [], "", False
        while tokens.next() not in (None, Token.OBJECT_END):
            key = clean(tokens.name or "")
            try:
                pairs.append((key, convert(tokens)))
            except _PartlyReadError as error:
                pairs.append((key, error.value))
                problem = problem or f"{key[:20]!r}: {error}"
            except (MismatchError, MalformedJsonError) as error:
                problem = problem or f"{key[:20]!r}: {error}"
                is_lost = True
                tokens.skip_children()
        if is_lost:
            raise MismatchError(problem)
        if problem:
            raise _PartlyReadError(pairs, problem)
        return pairs

    def _array(self, tokens: Tokens, convert: Converter) -> list[Any]:
        items, problem = [], ""
        while tokens.next() not in (None, Token.ARRAY_END):
            try:
                items.append(convert(tokens))
            except _PartlyReadError as error:
                items.append(error.value)
                problem = problem or str(error)
        if problem:
            raise _PartlyReadError(items, problem)
        return items

    def _converter(self, kind: pa.DataType) -> Converter:
        convert = self._converter_of_tokens(kind)

        def at_value(tokens: Tokens) -> Any:
            while tokens.current is Token.NAME:
                tokens.next()
            if tokens.current in (None, Token.NULL):
                return None
            value = convert(tokens, tokens.current)
            if value is _NOTHING:
                what = repr(tokens.string()[:20]) if tokens.current is Token.STRING else tokens.current.value
                raise MismatchError(f"{what} in place of {kind}")
            return value

        return at_value

    def _converter_of_tokens(self, kind: pa.DataType) -> Callable[[Tokens, Token], Any]:
        if pa.types.is_nested(kind):
            return self._converter_of_scopes(kind)
        if pa.types.is_timestamp(kind):
            return self._timestamp if kind.tz else self._local_timestamp
        if pa.types.is_decimal(kind):
            return lambda tokens, at: _decimal(tokens, at, kind)
        if pa.types.is_integer(kind):
            return lambda tokens, at: _integer(tokens, at, kind.bit_width)
        return _SIMPLE[kind]

    def _converter_of_scopes(self, kind: Any) -> Callable[[Tokens, Token], Any]:
        if pa.types.is_struct(kind):
            fields = {field.name: self._converter(field.type) for field in kind}
            names = list(fields)
            return lambda tokens, at: self._object(tokens, fields, names) if at is Token.OBJECT_START else _NOTHING
        if pa.types.is_map(kind):
            items = self._converter(kind.item_type)
            return lambda tokens, at: self._map(tokens, items) if at is Token.OBJECT_START else _NOTHING
        elements = self._converter(kind.value_type)
        return lambda tokens, at: self._array(tokens, elements) if at is Token.ARRAY_START else _NOTHING

    def _timestamp(self, tokens: Tokens, at: Token) -> Any:
        if at is Token.INTEGER:
            seconds = int(tokens.number)
            if not -_INT64_MAX - 1 <= seconds <= _INT64_MAX:
                raise MismatchError("a number that no BIGINT holds in place of a timestamp")
            return (seconds * 1_000_000 + _INT64 // 2) % _INT64 - _INT64 // 2
        return self._time(tokens, at, lambda text: times.timestamp(text, self._zone))

    def _local_timestamp(self, tokens: Tokens, at: Token) -> Any:
        return self._time(tokens, at, times.local_timestamp)

    @staticmethod
    def _time(tokens: Tokens, at: Token, parse: Callable[[str], int | None]) -> Any:
        if at is not Token.STRING or not tokens.string():
            return _NOTHING
        microseconds = parse(clean(tokens.string()))
        return _NOTHING if microseconds is None else microseconds


#: In place of a value: the token is none of those that the type takes.
_NOTHING: Final = object()


def _boolean(_tokens: Tokens, at: Token) -> Any:
    return at is Token.TRUE if at in (Token.TRUE, Token.FALSE) else _NOTHING


def _integer(tokens: Tokens, at: Token, bits: int) -> Any:
    if at is not Token.INTEGER:
        return _NOTHING
    number = int(tokens.number)
    # Java takes 128 to 255 for bytes as well.
    if not -(1 << bits - 1) <= number < (1 << 8 if bits == 8 else 1 << bits - 1):
        raise MismatchError(f"{tokens.number[:40]}, which has more than {bits} bits")
    return number - 256 if bits == 8 and number > 127 else number


def _double(tokens: Tokens, at: Token) -> Any:
    if at is Token.INTEGER:
        # Not by the text: -0 is an integer first.
        return float(tokens.number) if len(tokens.number) > 18 else float(int(tokens.number))
    if at is Token.REAL:
        return real_of(tokens.number)
    if at is Token.STRING and tokens.string():
        return _QUOTED_WORDS.get(tokens.string(), _NOTHING)
    return _NOTHING


def _float(tokens: Tokens, at: Token) -> Any:
    wide = _double(tokens, at)
    if wide is _NOTHING or at is Token.STRING or not math.isfinite(wide):
        return wide
    return nearest_float(wide, tokens.number)


def nearest_float(wide: float, text: str) -> float:
    """The float that is nearest to a number: of its text, since the nearest one to its double may be another.

    Args:
        wide: the double nearest to it.
        text: of the number.
    """
    with np.errstate(over="ignore"):
        near = np.float32(wide)
    if not np.isfinite(near) or float(near) == wide:
        return float(near)
    exact = Decimal(text)
    if exact == Decimal(wide):
        return float(near)
    # The double is a tie between two floats, and the number is not.
    with np.errstate(over="ignore"):
        other = np.nextafter(near, np.float32("inf") if wide > float(near) else np.float32("-inf"))
    if Decimal(float(near)) + Decimal(float(other)) == 2 * Decimal(wide):
        is_above = exact > Decimal(wide)
        return float(max(near, other) if is_above else min(near, other))
    return float(near)


def _string(tokens: Tokens, at: Token) -> Any:
    if at is Token.STRING:
        return clean(tokens.string())
    return clean(copied(tokens))


def _binary(tokens: Tokens, at: Token) -> Any:
    return tokens.base64() if at is Token.STRING else _NOTHING


def _date(tokens: Tokens, at: Token) -> Any:
    if at is not Token.STRING or not tokens.string():
        return _NOTHING
    days = times.date(clean(tokens.string()))
    return _NOTHING if days is None else days


def _decimal(tokens: Tokens, at: Token, kind: Any) -> Any:
    if at in _NUMBERS:
        text = tokens.number
    elif at is Token.STRING and tokens.string():
        text = tokens.string().replace(",", "")
    else:
        return _NOTHING
    if _DECIMAL.fullmatch(text) is None:
        return _NOTHING
    try:
        number = Decimal(text)
    except InvalidOperation:
        # An exponent that no decimal has, of Java's neither.
        return _NOTHING
    if number and number.adjusted() > kind.precision - kind.scale:
        raise MismatchError(f"a number that no {kind} holds")
    rounded = number.quantize(Decimal(1).scaleb(-kind.scale), rounding=ROUND_HALF_UP, context=_WIDE)
    if len(rounded.as_tuple().digits) > kind.precision and rounded:
        raise MismatchError(f"a number that no {kind} holds")
    return rounded


#: More digits than a text of a number may have.
_WIDE: Final = Context(prec=100_000, Emax=10**9, Emin=-(10**9))

_SIMPLE: Final[dict[pa.DataType, Callable[[Tokens, Token], Any]]] = {
    pa.bool_(): _boolean,
    pa.float32(): _float,
    pa.float64(): _double,
    pa.string(): _string,
    pa.binary(): _binary,
    pa.date32(): _date,
}
