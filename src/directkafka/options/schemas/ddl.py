"""Schemas in Spark's DDL, as a payload's fields are declared: ``id BIGINT, legs ARRAY<STRUCT<carrier: STRING>>``.

Spark's own parser is in its JVM, which the processes that plan a read and ``directkafka.decode`` have not. The grammar
is that of Spark's ``SqlBaseParser.g4`` for ``colDefinitionList``, without what says nothing about a payload: defaults,
generated columns, collations. Tests compare it with Spark's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""\s*(?:--[^\n]*\n\s*)*(?:
      (?P<name>[A-Za-z0-9_]+)
    | `(?P<quoted>(?:[^`]|``)+)`
    | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<sign>[<>(),:])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)

#: The types that need no more than a name, by all of their names.
_PLAIN: Final = {
    "boolean": "boolean",
    "tinyint": "tinyint",
    "byte": "tinyint",
    "smallint": "smallint",
    "short": "smallint",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
_DECIMALS: Final = ("decimal", "dec", "numeric")
_PRECISION_MAX: Final = 38
#: Scopes in one another that a schema may have.
DEPTH_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class FieldType:
    """The type of a field.

    Attributes:
        name: Spark's name of it, in lower case.
        fields: of a struct; of a map, ``key`` and ``value``; of an array, ``element``.
        precision, scale: of a decimal.
    """

    name: str
    fields: tuple[SchemaField, ...] = ()
    precision: int = 0
    scale: int = 0

    def simple_string(self, *, quoted: bool = False) -> str:
        """The type as Spark's ``simpleString`` writes it; ``quoted``: Spark can parse it, whatever the names.

        Args:
            quoted: whether names are quoted.
        """
        inner = [field.type.simple_string(quoted=quoted) for field in self.fields]
        if self.name == "struct":
            names = [f"`{field.name.replace('`', '``')}`" if quoted else field.name for field in self.fields]
            return f"struct<{','.join(f'{name}:{kind}' for name, kind in zip(names, inner, strict=True))}>"
        if inner:
            return f"{self.name}<{','.join(inner)}>"
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A field of a struct, by its name."""

    name: str
    type: FieldType


def parse_ddl(text: str) -> FieldType:
    """The struct whose fields a text declares.

    Args:
        text: fields with commas between them, or one ``STRUCT<...>``.

    Raises:
        ValueError: it declares none; the message says where, and what is expected there.
    """
    parser = _Parser(text)
    struct = parser.type() if parser.is_type_alone() else FieldType("struct", parser.fields())
    parser.expect_end()
    if struct.name != "struct" or not struct.fields:
        raise ValueError("declares no field")
    return struct


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._last = 0
        self._depth = 0

    def is_type_alone(self) -> bool:
        """Whether the text is a struct's type, and no list of fields."""
        return re.match(r"\s*struct\s*<", self._text, re.IGNORECASE) is not None

    def expect_end(self) -> None:
        if self._next().lastgroup != "end":
            raise self._unexpected("a comma or the end")

    def fields(self) -> tuple[SchemaField, ...]:
        fields = [self._field()]
        while self._takes(","):
            fields.append(self._field())
        names = [field.name for field in fields]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"declares {twice[0]!r} twice in one struct")
        return tuple(fields)

    def type(self) -> FieldType:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ValueError(f"has more than {DEPTH_MAX} types in one another")
        name = self._name("a type").lower()
        if name in _DECIMALS:
            field_type = self._decimal()
        elif name == "array":
            self._expect("<")
            field_type = FieldType("array", (SchemaField("element", self.type()),))
            self._expect(">")
        elif name == "map":
            field_type = self._map()
        elif name == "struct":
            self._expect("<")
            field_type = FieldType("struct", () if self._peek_is(">") else self.fields())
            self._expect(">")
        elif name in _PLAIN:
            field_type = FieldType(_PLAIN[name])
        else:
            known = ", ".join(sorted({*_PLAIN.values(), "decimal", "array", "map", "struct"})).upper()
            raise ValueError(f"has the type {name.upper()!r}; known here: {known}")
        self._depth -= 1
        return field_type

    def _map(self) -> FieldType:
        self._expect("<")
        key = self.type()
        if key.name != "string":
            raise ValueError(f"has a map with keys of type {key.name.upper()}: names in a payload are STRING")
        self._expect(",")
        value = self.type()
        self._expect(">")
        return FieldType("map", (SchemaField("key", key), SchemaField("value", value)))

    def _decimal(self) -> FieldType:
        precision, scale = 10, 0
        if self._takes("("):
            precision = self._number()
            scale = self._number() if self._takes(",") else 0
            self._expect(")")
        if not (1 <= precision <= _PRECISION_MAX and 0 <= scale <= precision):
            raise ValueError(f"has a DECIMAL({precision},{scale}): at most {_PRECISION_MAX} digits, scale <= precision")
        return FieldType("decimal", precision=precision, scale=scale)

    def _field(self) -> SchemaField:
        name = self._name("a field's name")
        self._takes(":")
        kind = self.type()
        if self._takes_word("not") and not self._takes_word("null"):
            raise self._unexpected("NULL")
        if self._takes_word("comment") and self._next().lastgroup != "text":
            raise self._unexpected("a comment in quotes")
        return SchemaField(name, kind)

    def _next(self) -> re.Match[str]:
        match = _TOKEN.match(self._text, self._at)
        self._last = self._at
        if match is None:
            raise self._unexpected("a name, a type or one of < > ( ) , :")
        self._at = match.end()
        return match

    def _name(self, wanted: str) -> str:
        match = self._next()
        if match["name"] is None and match["quoted"] is None:
            raise self._unexpected(wanted)
        return str(match["name"] or match["quoted"].replace("``", "`"))

    def _number(self) -> int:
        text = self._name("a number")
        if not re.fullmatch("[0-9]{1,3}", text):
            raise self._unexpected("a number")
        return int(text)

    def _peek_is(self, sign: str) -> bool:
        at = self._at
        match = self._next()
        self._at = at
        return match["sign"] == sign

    def _takes(self, sign: str) -> bool:
        if not self._peek_is(sign):
            return False
        self._next()
        return True

    def _takes_word(self, word: str) -> bool:
        at = self._at
        if (self._next()["name"] or "").lower() == word:
            return True
        self._at = at
        return False

    def _expect(self, sign: str) -> None:
        if self._next()["sign"] != sign:
            raise self._unexpected(repr(sign))

    def _unexpected(self, wanted: str) -> ValueError:
        rest = self._text[self._last :].lstrip()
        shown_rest = repr(rest[:20] + "..." * (len(rest) > 20)) if rest else "the end"
        return ValueError(f"has {shown_rest} where {wanted} is expected")
