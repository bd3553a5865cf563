"""Reads ``.proto`` files: proto2, proto3 and editions, as far as it matters for the bytes of records.

The grammar is that of https://protobuf.dev/reference/protobuf/proto2-spec/, proto3-spec/ and edition-2023-spec/.
Options are passed over, but for those that say whether a record tells that a field is absent, and that a message stands
between two tags. Services and extensions are passed over whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from directkafka.options.schemas.protobuf.proto_tokens import Token, read_tokens
from directkafka.options.schemas.protobuf.schema import (
    GROUP,
    MESSAGE,
    NAME_CHARACTERS_MAX,
    SCALARS,
    Declarations,
    Features,
    ProtobufEnum,
    ProtobufField,
    ProtobufMessage,
)

TEXT_CHARACTERS_MAX: Final = 1 << 20
#: Messages in one another; protoc's own limit.
_DEPTH_MAX: Final = 32
_INTEGER: Final = re.compile(r"0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*")
_LABELS: Final = frozenset({"optional", "required", "repeated"})
#: What is passed over to its end: a semicolon, or the brace that closes.
_PASSED: Final = frozenset({"service", "extend", "extensions", "reserved"})
_OPENING: Final = {"{": "}", "[": "]", "<": ">", "(": ")"}
_PRESENCE: Final = "features.field_presence"
_ENCODING: Final = "features.message_encoding"


def read_declarations(text: str) -> Declarations:
    """What a ``.proto`` file declares.

    Raises:
        ValueError: it is no such file, or it is longer than :data:`TEXT_CHARACTERS_MAX`; the message has the line.
    """
    if len(text) > TEXT_CHARACTERS_MAX:
        raise ValueError(f"the schema: {len(text)} characters, and {TEXT_CHARACTERS_MAX} are read")
    # An option of the file holds for all of it, wherever it stands: it is known when the file has been read once.
    once = _Parser(text)
    declared = once.file()
    return declared if once.features == once.of_syntax else _Parser(text, once.features).file()


class _Parser:
    """Reads one file.

    Attributes:
        features: what the file's options have said so far.
        of_syntax: what its syntax says.
    """

    def __init__(self, text: str, of_file: Features | None = None) -> None:
        self._tokens = read_tokens(text)
        self._at = 0
        self._given = of_file
        self._of_file = self.features = self.of_syntax = Features(has_presence=True)
        self._messages: list[ProtobufMessage] = []
        self._enums: list[ProtobufEnum] = []

    def file(self) -> Declarations:
        package, imports = "", []
        self._syntax()
        self._of_file = self._given or self.of_syntax
        while self._next.kind:
            word = self._taken().text
            if word == "package":
                package = self._full_name()
                self._expect(";")
            elif word == "import":
                if self._next.kind == "name":
                    self._taken()
                imports.append(self._text())
                self._expect(";")
            elif word == "option":
                self.features = _with_options(self.features, self._options())
                self._expect(";")
            elif word == "message":
                self._message(package, 1)
            elif word == "enum":
                self._enum(package)
            elif word in _PASSED:
                self._pass_over()
            elif word != ";":
                self._at -= 1
                raise self._wrong("a message, an enum or the like")
        return Declarations(package, tuple(self._messages), tuple(self._enums), tuple(imports))

    def _syntax(self) -> None:
        if self._next.text not in ("syntax", "edition"):
            return
        word = self._taken().text
        self._expect("=")
        value = self._text()
        self._expect(";")
        if word == "syntax" and value not in ("proto2", "proto3"):
            raise ValueError(f"the schema: expected the syntax proto2 or proto3, found {value}")
        self.features = self.of_syntax = Features(has_presence=value != "proto3")

    def _message(self, scope: str, depth: int) -> None:
        name = self._taken_name()
        self._body(f"{scope}.{name}" if scope else name, depth)

    def _body(self, name: str, depth: int) -> None:
        """A message's fields and what is declared in it; it stands before what is in it, as it was begun first."""
        if depth > _DEPTH_MAX:
            raise ValueError(f"the schema, at {name}: more than {_DEPTH_MAX} messages in one another")
        if len(name) > NAME_CHARACTERS_MAX:
            raise self._wrong(f"names of messages of at most {NAME_CHARACTERS_MAX} characters, with those around them")
        index, fields, nested = len(self._messages), list[ProtobufField](), list[str]()
        self._messages.append(ProtobufMessage(name))
        self._expect("{")
        while self._next.text != "}":
            word, following = self._next.text, self._peeked(1)
            if word in ("message", "enum") and following.kind == "name" and self._peeked(2).text == "{":
                self._taken()
                if word == "message":
                    nested.append(f"{name}.{self._next.text}")
                    self._message(name, depth + 1)
                else:
                    self._enum(name)
            elif word == "oneof" and following.kind == "name" and self._peeked(2).text == "{":
                self._taken()
                self._oneof(name, depth, fields, nested)
            elif word in _PASSED and not (following.kind == "name" and self._peeked(2).text == "="):
                self._taken()
                self._pass_over()
            elif word == "option" and (following.kind == "name" or following.text == "("):
                self._taken()
                self._options()
                self._expect(";")
            elif word == ";":
                self._taken()
            else:
                fields.append(self._field(name, depth, nested, oneof=""))
        self._taken()
        self._messages[index] = ProtobufMessage(name, tuple(fields), tuple(nested))

    def _oneof(self, message: str, depth: int, fields: list[ProtobufField], nested: list[str]) -> None:
        name = self._taken_name()
        self._expect("{")
        while self._next.text != "}":
            if self._next.text == "option" and (self._peeked(1).text == "(" or self._peeked(2).text in ("=", ".")):
                self._taken()
                self._options()
                self._expect(";")
            elif self._next.text == ";":
                self._taken()
            else:
                fields.append(self._field(message, depth, nested, oneof=name))
        self._taken()

    def _field(self, message: str, depth: int, nested: list[str], *, oneof: str) -> ProtobufField:
        label = self._taken().text if self._next.text in _LABELS and self._peeked(1).text != "=" else ""
        if self._next.text == "map" and self._peeked(1).text == "<":
            return self._map(message, nested)
        is_group = self._next.text == "group" and self._peeked(2).text == "="
        kind = self._taken().text if is_group else self._full_name(may_be_absolute=True)
        name = self._taken_name()
        self._expect("=")
        number, features = self._integer(), self._field_features()
        if is_group:
            nested.append(f"{message}.{name}")
            self._body(f"{message}.{name}", depth + 1)
            kind, name = f".{message}.{name}", name.lower()
        else:
            self._expect(";")
        is_scalar = kind in SCALARS
        between_tags = is_group or (features.is_delimited and not is_scalar)
        return ProtobufField(
            name,
            number,
            kind if is_scalar else (GROUP if between_tags else MESSAGE),
            "" if is_scalar else kind,
            is_repeated=label == "repeated",
            has_presence=label != "repeated" and (features.has_presence or bool(oneof) or label == "optional"),
            oneof=oneof,
            is_required=label == "required" or (features.is_required and not (label or oneof)),
        )

    def _map(self, message: str, nested: list[str]) -> ProtobufField:
        """A map is a list of messages with key and value, which are declared here."""
        self._taken()
        self._expect("<")
        key = self._full_name()
        self._expect(",")
        value = self._full_name(may_be_absolute=True)
        self._expect(">")
        name = self._taken_name()
        self._expect("=")
        number = self._integer()
        self._field_features()
        self._expect(";")
        entry = f"{message}.{_entry_name(name)}"
        fields = (
            ProtobufField("key", 1, key if key in SCALARS else MESSAGE, "" if key in SCALARS else key),
            ProtobufField("value", 2, value if value in SCALARS else MESSAGE, "" if value in SCALARS else value),
        )
        nested.append(entry)
        self._messages.append(ProtobufMessage(entry, fields, is_map_entry=True))
        return ProtobufField(name, number, MESSAGE, f".{entry}", is_repeated=True)

    def _enum(self, scope: str) -> None:
        name, values = self._taken_name(), list[tuple[int, str]]()
        self._expect("{")
        while self._next.text != "}":
            word = self._taken().text
            if word == "option" and self._next.text != "=":
                self._options()
                self._expect(";")
            elif word == "reserved" and self._next.text != "=":
                self._pass_over()
            elif word != ";":
                self._expect("=")
                values.append((self._integer(), word))
                self._field_features()
                self._expect(";")
        self._taken()
        self._enums.append(ProtobufEnum(f"{scope}.{name}" if scope else name, tuple(values)))

    def _field_features(self) -> Features:
        """The options behind a field's number."""
        features = self._of_file
        if self._next.text == "[":
            self._taken()
            while self._taken_back() in ("[", ","):
                features = _with_options(features, self._options())
                if self._next.text not in (",", "]"):
                    raise self._wrong("a comma or ]")
                self._taken()
        return features

    def _taken_back(self) -> str:
        return self._tokens[self._at - 1].text

    def _options(self) -> list[tuple[str, str]]:
        """The names of options and their values, where these are one word: of one, or of all between its braces."""
        name = ""
        while self._next.text != "=":
            if self._next.text in (";", "{", "}", "]", ""):
                raise self._wrong("an option's name and =")
            name += self._taken().text
        self._taken()
        value = self._next.text
        if value in _OPENING:
            begin = self._at
            self._pass_brackets()
            inner = self._tokens[begin : self._at]
            colons = [index for index, token in enumerate(inner) if token.text == ":"]
            return [(f"{name}.{inner[index - 1].text}", inner[index + 1].text) for index in colons]
        if self._taken().text in ("-", "+"):
            self._taken()
        while self._next.kind == "text":
            self._taken()
        return [(name, value)]

    def _pass_over(self) -> None:
        """To the semicolon that ends it, or behind the brace that does."""
        while self._next.text not in (";", "{"):
            if not self._next.kind:
                raise self._wrong("; or {")
            if self._next.text == "[":
                self._pass_brackets()
            else:
                self._taken()
        if self._next.text == ";":
            self._taken()
        else:
            self._pass_brackets()

    def _pass_brackets(self) -> None:
        waiting = [_OPENING[self._taken().text]]
        while waiting:
            token = self._taken()
            if not token.kind:
                raise self._wrong(waiting[-1])
            if token.text == waiting[-1]:
                waiting.pop()
            elif token.text in _OPENING:
                waiting.append(_OPENING[token.text])

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _peeked(self, count: int) -> Token:
        return self._tokens[min(self._at + count, len(self._tokens) - 1)]

    def _taken(self) -> Token:
        token = self._next
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _taken_name(self) -> str:
        if self._next.kind != "name":
            raise self._wrong("a name")
        return self._taken().text

    def _full_name(self, *, may_be_absolute: bool = False) -> str:
        name = self._taken().text if may_be_absolute and self._next.text == "." else ""
        name += self._taken_name()
        while self._next.text == ".":
            self._taken()
            name += f".{self._taken_name()}"
            if len(name) > NAME_CHARACTERS_MAX:
                raise self._wrong(f"a name of at most {NAME_CHARACTERS_MAX} characters")
        return name

    def _integer(self) -> int:
        sign = -1 if self._next.text == "-" else 1
        if sign < 0:
            self._taken()
        if not _INTEGER.fullmatch(self._next.text):
            raise self._wrong("a whole number")
        text = self._taken().text
        return sign * int(text, 16 if text[:2] in ("0x", "0X") else 8 if text.startswith("0") else 10)

    def _text(self) -> str:
        """A text in quotes; several that follow each other are one."""
        if self._next.kind != "text":
            raise self._wrong("a text in quotes")
        text = ""
        while self._next.kind == "text":
            text += self._taken().text[1:-1]
        return text

    def _expect(self, text: str) -> None:
        if self._next.text != text:
            raise self._wrong(text)
        self._taken()

    def _wrong(self, expected: str) -> ValueError:
        token_text = self._next.text[:50] or "its end"
        return ValueError(f"the schema, line {self._next.line}: expected {expected}, found {token_text}")


def _with_options(features: Features, options: Iterable[tuple[str, str]]) -> Features:
    for name, value in options:
        if name == _PRESENCE:
            features = replace(features, has_presence=value != "IMPLICIT", is_required=value == "LEGACY_REQUIRED")
        elif name == _ENCODING:
            features = replace(features, is_delimited=value == "DELIMITED")
    return features


def _entry_name(field: str) -> str:
    """The name of the message that a map's entries are, as protoc makes it: in camel case."""
    return "".join(word[:1].upper() + word[1:] for word in field.split("_")) + "Entry"
