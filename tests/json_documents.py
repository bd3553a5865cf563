"""Documents of JSON for tests: every file of the JSONTestSuite, and random ones for random schemas, sound and not."""

from __future__ import annotations

import json
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

_SUITE = Path(__file__).parent / "vectors" / "JSONTestSuite.tar.xz"

#: All types; what they hold is declared in several places of a document.
EVERY_TYPE = """
    a BIGINT, b STRING, c DOUBLE, d BOOLEAN, e INT, f FLOAT, g SMALLINT, h TINYINT, i DECIMAL(12,3), j DATE,
    k TIMESTAMP, l TIMESTAMP_NTZ, m BINARY, n STRUCT<a: BIGINT, b: STRING, n: STRUCT<c: DOUBLE, x: ARRAY<INT>>>,
    o ARRAY<STRING>, p ARRAY<STRUCT<a: INT, b: STRING, o: ARRAY<DOUBLE>>>, q MAP<STRING, BIGINT>,
    r MAP<STRING, STRUCT<a: INT, s: STRING>>, s ARRAY<ARRAY<BOOLEAN>>, `é ü` STRING, `a name of many letters` INT
"""

_NUMBERS = [
    "0", "-0", "1", "-1", "7", "-0.0", "0.0", "1e3", "1E3", "1e-3", "1.5e+2", "127", "128", "255", "256", "-128",
    "-129", "32767", "32768", "-32768", "-32769", "2147483647", "2147483648", "-2147483648", "-2147483649",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "99999999999999999999999", "123456789012345678", "1234567890123456789", "0.1", "0.30000000000000004", "1.10",
    "1.7976931348623157e308", "1.7976931348623159e308", "4.9e-324", "2e-324", "2.2250738585072011e-308", "1e400",
    "1e-400", "3.4028235e38", "3.4028236e38", "1.17549435e-38", "1e-45", "7.0e-46", "16777217", "16777216.000000001",
    "9007199254740993", "9007199254740993.0", "123456.789", "123456789.1235", "999999999.9995", "0.0005", "0.00049",
    "1.0000000596046448", "8.589973e9", "0.1234567890123456789", "100000000000000000000", "1e23", "NaN", "Infinity",
    "-Infinity", "-INF", "+INF", "INF", "01", "-", "-x", "1.", ".5", "1.e2", "1e", "1e+", "0x1", "+1", "1_000", "1d",
]  # fmt: skip
_TIMES = [
    "2024-02-29", "2023-02-29", "2024-1-5", "2024", "2024-13-01", "2024-01-32", "0001-01-01", "9999-12-31",
    "10000-01-01", "-0001-01-01", "+2024-01-01", "1582-10-10", "2024-02-29T12:34:56Z", "2024-02-29 12:34:56",
    "2024-02-29T12:34:56.1", "2024-02-29T12:34:56.123456789Z", "2024-02-29T12:34:56.1234567",
    "2024-02-29T12:34:56+05:30",
    "2024-02-29T12:34:56-0800", "2024-02-29T12:34:56+5:30", "2024-02-29T12:34:56 Europe/Berlin", "2024-02-29T24:00:00Z",
    "2024-02-29T12:60:00Z", "2024-02-29T12:34", "2024-02-29T12", "2024-02-29T", "2024-02-29T12:34:56 UTC",
    "2024-02-29T12:34:56GMT+1", "2024-02-29T12:34:56GMT", " 2024-02-29 ", "2024-02-29 12:34:56.", "20240229", "123",
    "1709210096", "1709210096000", "2024-06-30T23:59:60Z", "1969-12-31T23:59:59.999999Z", "2024-02-29T12:34:56+18:00",
    "2024-02-29T12:34:56+18:01", "2024-02-29T12:34:56CST", "x", "294247-01-10T04:00:54.775807Z", "2024-02-29T1:2:3Z",
    "2024-03-31T02:30:00 Europe/Berlin", "2024-10-27T02:30:00 Europe/Berlin", "290000-01-01", "-123",
]  # fmt: skip
_TEXTS = [
    "", "x", "plain", "é", "日本語のテキスト", "\U0001f600", "a\nb", "a\tb", 'say "so"', "back\\slash", "/", "\u0000",
    "\u001f", "\u007f", "\u2028", "\ufffd", "true", "null", "a" * 15, "b" * 16, "c" * 17, "d" * 31, "e" * 33, "é" * 9,
    "aGVsbG8=", "aGVsbG8", "aGk=", "aA==", "a===", "!", "aGVs bG8=", "1,234.5", "12.3", "-0.5", "+7", "1e2", " 1",
    "NaN", "Infinity", "-INF", "INF", "+Infinity",
]  # fmt: skip
_RAW = [
    '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00"', '"\\ude00\\ud83d"', '"\\ud83dx"', '"\\u00e9"', '"\\u0000"', '"\\/"',
    '"\\\'"', '"\\x"', '"\\u12"', '"\\u12G4"', '"\n"', '"\\\n"', "'single'", "'it\\'s'", "'a\"b'", '"open', "'open",
    '"aGVs\\nbG8="', '"aGVs\nbG8="', '"aGVsbG8\\u003d"', '"aGVsbG8\\/"', "true", "false", "null", "tru", "nul", "TRUE",
    "truex", "nullnull", "{", "}", "[", "]", "{}", "[]", "[[]]", '{"a":1}', '{"a":{"b":[1,{"c":null}]}}', "[1,2]",
    '[1,"x",null,2.5]', '{"b":1,"b":2}', "[1,]", '{"a":1,}', "[,1]", '{"a"}', '{"a":}', "{a:1}", "/* c */ 1", "# c",
    '[{"a":1},{"a":"x"},{"b":"y"}]', '{"k":{"a":1,"s":[1, 2.50]},"l":{"a":"x"}}', '{"k":1,"l":"x","m":3}', "\x00",
    '{"c":"NaN","x":[1,"2",3]}', '{"x":[1,2,3],"c":1e5}', "[[true],[false,null],[]]", '[[true],["x"]]',
]  # fmt: skip
_NAMES = [
    *"abcdefghijklmnopqrs",
    "é ü",
    "a name of many letters",
    "zz",
    "unknown",
    "a name of many letterS",
    "aa",
]


def suite() -> Iterator[tuple[str, bytes]]:
    """The names and the contents of the JSONTestSuite's files (MIT licence, Nicolas Seriot)."""
    with tarfile.open(_SUITE) as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(".json"):
                file = archive.extractfile(member)
                assert file is not None
                yield member.name, file.read()


class _Source(random.Random):
    """Chance, and how much of what it makes is odd."""

    odd = 0.5


def documents(count: int, seed: int, *, odd: float = 0.5) -> Iterator[bytes]:
    """Random documents for :data:`EVERY_TYPE`.

    Args:
        count: how many.
        seed: the same makes the same documents.
        odd: which part of the values is of any type or none; of the documents, a third as many are cut or changed.
    """
    source = _Source(seed)
    source.odd = odd
    for _ in range(count):
        yield _damaged(source, _document(source)) if source.random() < 0.3 * odd else _document(source)


def _document(source: _Source) -> bytes:
    roll = source.random()
    if roll < 0.02 * source.odd:
        return source.choice([b"", b" ", b"\n\t ", b"null", b"[]", b"1", b'"x"', b"true", b"{}", b" { } x", b"\x1e{}"])
    text = _object(source, depth=0)
    if source.random() < 0.1 * source.odd:
        text += source.choice(["x", " ", "}", ",", "{}", "\n"])
    if source.random() < 0.1 * source.odd:
        text = source.choice(["\ufeff", " ", "\n", "\x1e", ","]) + text
    return text.encode("utf-8", "surrogatepass")


def _object(source: _Source, depth: int) -> str:
    names = source.sample(_NAMES, source.randrange(0, 12 if depth == 0 else 5))
    if names and source.random() < 0.1:
        names.append(source.choice(names))
    fields = [f"{_name(source, name)}{_space(source)}:{_space(source)}{_value(source, name, depth)}" for name in names]
    return _joined(source, "{", fields, "}")


def _name(source: _Source, name: str) -> str:
    roll = source.random() / (2 * source.odd + 1e-9)
    if roll < 0.02:
        return "".join(f"\\u{ord(letter):04x}" for letter in name).join('""')
    if roll < 0.03:
        return f"'{name}'"
    return json.dumps(name, ensure_ascii=source.random() < 0.3)


def _value(source: _Source, name: str, depth: int) -> str:  # noqa: PLR0911 - one for each kind of value
    roll = source.random()
    if roll < 0.08:
        return "null"
    if source.random() >= source.odd and depth < 4:
        return str(_FITTING.get(name, _any_sound)(source, depth))
    if roll < 0.65:
        return source.choice(_NUMBERS)
    if roll < 0.72:
        return _number(source)
    if roll < 0.8:
        return _quoted(source, source.choice(_TIMES))
    if roll < 0.9:
        return _quoted(source, source.choice(_TEXTS))
    if roll < 0.97 or depth > 3:
        return source.choice(_RAW)
    return (
        _object(source, depth + 1) if source.random() < 0.5 else _array(source, lambda: _value(source, "", depth + 1))
    )


def _number(source: _Source) -> str:
    kind = source.randrange(5)
    if kind == 0:
        return str(source.randint(-(10 ** source.randrange(1, 22)), 10 ** source.randrange(1, 22)))
    if kind == 1:
        return repr(source.uniform(-1, 1) * 10.0 ** source.randrange(-330, 308))
    if kind == 2:
        return f"{source.randint(-(10**9), 10**9)}.{source.randrange(10 ** source.randrange(1, 20))}"
    if kind == 3:
        digits = "".join(source.choices("0123456789", k=source.randrange(1, 30)))
        return f"{source.randint(1, 9)}.{digits}e{source.randint(-330, 330)}"
    return f"{source.uniform(-1000, 1000):.{source.randrange(1, 12)}f}"


def _quoted(source: _Source, text: str) -> str:
    return json.dumps(text, ensure_ascii=source.random() < 0.5)


def _array(source: _Source, item: Any) -> str:
    return _joined(source, "[", [item() for _ in range(source.randrange(0, 5))], "]")


def _map(source: _Source, item: Any) -> str:
    keys = source.choices(["k", "l", "", "é", "a", "b", "n"], k=source.randrange(0, 4))
    return _joined(source, "{", [f"{json.dumps(key)}:{item()}" for key in keys], "}")


def _joined(source: _Source, start: str, parts: list[str], end: str) -> str:
    comma = f"{_space(source)},{_space(source)}"
    return f"{start}{_space(source)}{comma.join(parts)}{_space(source)}{end}"


def _space(source: _Source) -> str:
    return source.choice(["", "", "", "", "", " ", "\n", "\t", " \r\n "])


def _damaged(source: _Source, document: bytes) -> bytes:
    if not document:
        return document
    at = source.randrange(len(document))
    kind = source.randrange(4)
    if kind == 0:
        return document[:at]
    if kind == 1:
        return document[:at] + document[at + 1 :]
    if kind == 2:
        return document[:at] + bytes([source.randrange(256)]) + document[at + 1 :]
    return (
        document[:at]
        + source.choice([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98", b'"', b"{", b"\\"])
        + document[at:]
    )


def _usual_time(source: _Source) -> str:
    day = f"{source.randrange(1, 2100):04}-{source.randrange(1, 13):02}-{source.randrange(1, 29):02}"
    time = f"{source.randrange(24):02}:{source.randrange(60):02}:{source.randrange(60):02}"
    fraction = f".{source.randrange(10**9):09}"[: source.choice([1, 2, 4, 7, 10])].rstrip(".")
    return source.choice([day, f"{day}T{time}Z", f"{day} {time}{fraction}", f"{day}T{time}{fraction}+05:30"])


def _any_sound(source: _Source, depth: int) -> str:
    return str(_FITTING[source.choice("abcdenopq")](source, depth + 1))


def _struct(source: _Source, depth: int) -> str:
    return _object(source, depth + 1)


_FITTING: dict[str, Any] = {
    "a": lambda source, _: str(source.randint(-(10**12), 10**12)),
    "b": lambda source, _: _quoted(source, source.choice(_TEXTS)),
    "c": lambda source, _: _number(source),
    "d": lambda source, _: source.choice(["true", "false"]),
    "e": lambda source, _: str(source.randint(-(10**6), 10**6)),
    "f": lambda source, _: f"{source.uniform(-1000, 1000):.{source.randrange(1, 6)}f}",
    "é ü": lambda source, _: _quoted(source, source.choice(_TEXTS)),
    "a name of many letters": lambda source, _: str(source.randint(-(10**6), 10**6)),
    "g": lambda source, _: str(source.randint(-300, 300)),
    "h": lambda source, _: str(source.randint(-130, 260)),
    "i": lambda source, _: source.choice([f"{source.uniform(-(10**6), 10**6):.3f}", '"12.5"', '"1,000.25"']),
    "j": lambda source, _: _quoted(source, _usual_time(source)[:10]),
    "k": lambda source, _: _quoted(source, _usual_time(source)),
    "l": lambda source, _: _quoted(source, _usual_time(source).rstrip("Z")[:26].split("+")[0]),
    "m": lambda source, _: "null" if source.random() < 0.99 else _quoted(source, source.choice(_TEXTS)),
    "n": _struct,
    "o": lambda source, depth: _array(source, lambda: _value(source, "b", depth + 1)),
    "p": lambda source, depth: _array(source, lambda: _object(source, depth + 1)),
    "q": lambda source, depth: _map(source, lambda: _value(source, "a", depth + 1)),
    "r": lambda source, depth: _map(source, lambda: _object(source, depth + 1)),
    "s": lambda source, depth: _array(source, lambda: _array(source, lambda: _value(source, "d", depth + 1))),
}


def comparable(array: pa.Array) -> list[Any]:
    """The rows with moments as numbers and floats as their bits, so that all values can be compared."""
    return _comparable(array).to_pylist()  # type: ignore[no-any-return]


def _comparable(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_struct(kind):
        children = [_comparable(child) for child in array.flatten()]
        return pa.StructArray.from_arrays(children, [field.name for field in kind], mask=array.is_null())
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        array = pa.ListArray.from_arrays(array.offsets, entries, mask=array.is_null())
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return pa.ListArray.from_arrays(array.offsets, _comparable(array.values), mask=array.is_null())
    if pa.types.is_floating(kind) or pa.types.is_temporal(kind):
        return array.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    return array
