"""Resolution of the schema that a record was written with to the one that it is read with (Avro 1.12).

Fields are found by their names, or by aliases of the reader's. A writer's field that the reader lacks is skipped; a
reader's field that the writer lacks takes its default. Numbers are widened; strings may be read as bytes, and bytes as
strings. Each alternative of a union is resolved by itself: where one does not resolve, only records that have it fail.

Two things go beyond that. A time of one unit becomes the same time in another: ignoring the unit would make it wrong by
a factor of 1,000. And two decimals must have the same precision and scale, as the specification says, which not all
implementations ask for; a decimal and plain bytes are each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from directkafka.options.schemas.avro import AvroField, AvroSchema, AvroType
from directkafka.options.schemas.avro_types import alternatives_of, widened
from directkafka.payloads.avro import program as op
from directkafka.payloads.avro.defaults import encode_default
from directkafka.payloads.avro.program import NOWHERE, Program

_NUMBERS: Final = ("int", "long", "float", "double")
#: How numbers of one type become those of another.
_WIDENINGS: Final = {
    ("int", "int"): op.INT,
    ("int", "long"): op.LONG,
    ("int", "float"): op.INT_TO_FLOAT,
    ("int", "double"): op.INT_TO_DOUBLE,
    ("long", "long"): op.LONG,
    ("long", "float"): op.INT_TO_FLOAT,
    ("long", "double"): op.INT_TO_DOUBLE,
    ("float", "float"): op.FLOAT,
    ("float", "double"): op.FLOAT_TO_DOUBLE,
    ("double", "double"): op.DOUBLE,
}
#: Factor and divisor that make microseconds of a unit.
_MOMENTS: Final = {"millis": (1000, 1), "micros": (1, 1), "nanos": (1, 1000)}
_LEAST_BYTES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8, "record": 0}
_NESTED_RECORDS_MAX: Final = 4


def resolve(writer: AvroSchema, reader: AvroSchema, behind: Sequence[int]) -> Program:
    """The program that reads records of one schema into columns of another.

    Args:
        writer: the schema that the records were written with.
        reader: the schema of the columns.
        behind: for each node of the columns, the number of the first node after all that is below it.

    Raises:
        ValueError: a record as a whole is of another type or name, or the schema is too large. Any other
            mismatch is no error here: it is told of each record that meets it.
    """
    try:
        return _Resolution(writer, reader, behind).run()
    except RecursionError:
        raise ValueError("its types are nested too deep") from None


class _Resolution:
    def __init__(self, writer: AvroSchema, reader: AvroSchema, behind: Sequence[int]) -> None:
        self._writer, self._reader, self._behind = writer, reader, behind
        self._program = Program()
        #: Records that contain themselves and are skipped: where each begins, and who calls it.
        self._skipped: dict[str, int] = {}
        self._calls: dict[str, list[int]] = {}
        self._again = False
        self._skipped_types = 0

    def run(self) -> Program:
        program = self._program
        self._value(self._writer, self._writer.type, self._reader.type, 0, "")
        if program.begins_with(op.FAIL) and not program.path(0):
            raise ValueError(program.reasons[0])
        program.add(op.END)
        while waiting := [name for name in self._calls if name not in self._skipped]:
            self._skipped[waiting[0]] = len(program)
            for field in self._writer.names[waiting[0]].fields:
                self._skip(field.type, (waiting[0],), waiting[0])
            program.add(op.RETURN)
        for name, calls in self._calls.items():
            for number in calls:
                program.go_on(number, self._skipped[name])
        return program

    def _add(self, operation: int, node: int, first: int = 0, second: int = 0, *, path: str) -> int:
        return self._program.add(operation, node, first, second, again=self._again, path=path)

    # Types into columns.

    def _value(self, source: AvroSchema, found: AvroType, wanted: AvroType, node: int, path: str) -> None:
        """A value of a type, of the writer's schema or of the reader's own for defaults, into a column."""
        found, wanted = source.definition(found), self._reader.definition(wanted)
        if found.kind == "union":
            self._alternatives(source, found, wanted, node, path)
        elif wanted.kind == "union":
            self._into_union(source, found, wanted, node, path)
        elif reason := _misfit(source, found, self._reader, wanted):
            self._program.fail(f"{_at(path)}{reason}", path)
        elif found.kind == "record":
            self._record(source, found, wanted, node, path)
        elif found.kind in ("array", "map"):
            self._list(source, found, wanted, node, path)
        else:
            self._scalar(found, wanted, node, path)

    def _alternatives(self, source: AvroSchema, union: AvroType, wanted: AvroType, node: int, path: str) -> None:
        self._branch(union, node, path, lambda alternative: self._value(source, alternative, wanted, node, path))

    def _branch(self, union: AvroType, node: int, path: str, add: Callable[[AvroType], None]) -> None:
        """What is done with each alternative of a union."""
        self._add(op.BRANCH, node, len(union.inner), path=path)
        jumps = [self._program.add(op.JUMP) for _ in union.inner]
        ends = []
        for jump, alternative in zip(jumps, union.inner, strict=True):
            self._program.go_on(jump)
            add(alternative)
            ends.append(self._program.add(op.JUMP))
        for end in ends:
            self._program.go_on(end)

    def _into_union(self, source: AvroSchema, found: AvroType, wanted: AvroType, node: int, path: str) -> None:
        if found.kind == "null" and any(
            alternative.kind == "null" for alternative in map(self._reader.definition, wanted.inner)
        ):
            self._add(op.NULL, node, path=path)
            return
        alternatives = alternatives_of(self._reader, wanted)
        chosen = _chosen(source, found, self._reader, alternatives)
        if chosen is None:
            self._program.fail(f"{_at(path)}the writer's {found} matches no alternative of the reader's {wanted}", path)
        elif len(alternatives) == 1:
            self._value(source, found, alternatives[0], node, path)
        elif widened(alternatives):
            widest = next(alternative for alternative in alternatives if alternative.kind in ("long", "double"))
            self._value(source, found, widest, node, path)
        else:
            self._valid(node, path)
            member = node + 1
            for number, alternative in enumerate(alternatives):
                if number == chosen:
                    self._value(source, found, alternative, member, f"{path}.member{number}")
                else:
                    self._add(op.NULL, member, path=path)
                member = self._behind[member]

    def _valid(self, node: int, path: str) -> None:
        if self._again:
            self._add(op.VALID, node, path=path)

    def _record(self, source: AvroSchema, found: AvroType, wanted: AvroType, node: int, path: str) -> None:
        self._valid(node, path)
        nodes, below = {}, node + 1
        for field in wanted.fields:
            nodes[field.name] = below
            below = self._behind[below]
        missing = {field.name: field for field in wanted.fields}
        names = {written.name for written in found.fields}
        for written in found.fields:
            target = _field_of(names, missing, written)
            if target is None:
                self._skip(written.type, (), f"{path}.{written.name}")
            else:
                del missing[target.name]
                self._value(source, written.type, target.type, nodes[target.name], f"{path}.{target.name}")
        for field in missing.values():
            self._default(field, nodes[field.name], f"{path}.{field.name}")

    def _default(self, field: AvroField, node: int, path: str) -> None:
        if field.default is None:
            self._program.fail(f"{_at(path)}the writer has no such field, and the reader no default for it", path)
            return
        try:
            raw = encode_default(self._reader, field)
        except ValueError as error:
            self._program.fail(f"{_at(path)}{error}", path)
            return
        self._add(op.CONSTANT, node, len(raw), self._program.constant(raw), path=path)
        self._value(self._reader, field.type, field.type, node, path)
        self._add(op.CONSTANT_END, node, path=path)

    def _list(self, source: AvroSchema, found: AvroType, wanted: AvroType, node: int, path: str) -> None:
        again, item, inner = self._again, node + 1, found.inner[0]
        least = _least_bytes(source, inner, 0) + (found.kind == "map")
        begin = self._add(op.LIST, node, second=min(least, 1), path=path)
        self._again = True
        first = len(self._program)
        if found.kind == "map":
            self._add(op.TEXT, item, path=f"{path}.key")
            item = self._behind[item]
        self._value(source, inner, wanted.inner[0], item, f"{path}[]")
        self._add(op.NEXT_ELEMENT, node, first, begin, path=path)
        self._again = again
        self._program.go_on(begin)

    def _scalar(self, found: AvroType, wanted: AvroType, node: int, path: str) -> None:
        unit = _unit(wanted)
        if found.kind in _NUMBERS and unit:
            factor, divisor = _MOMENTS[_unit(found) or unit]
            self._add(op.MOMENT, node, factor, divisor, path=path)
        elif (found.logical, wanted.logical) == ("time-millis", "time-micros"):
            self._add(op.MOMENT, node, *_MOMENTS["millis"], path=path)
        elif found.kind in _NUMBERS:
            self._add(_WIDENINGS[found.kind, wanted.kind], node, path=path)
        elif found.kind == "enum":
            self._enum(found, wanted, node, path)
        elif wanted.logical == "decimal":
            operation = op.DECIMAL if found.kind == "bytes" else op.FIXED_DECIMAL
            self._add(operation, node, found.size, wanted.precision, path=path)
        elif found.kind == "fixed":
            self._add(
                {"duration": op.DURATION, "uuid": op.UUID}.get(wanted.logical, op.FIXED), node, found.size, path=path
            )
        elif found.kind == "boolean":
            self._add(op.BOOLEAN, node, path=path)
        else:
            self._add(op.TEXT if wanted.kind == "string" else op.BYTES, node, path=path)

    def _enum(self, found: AvroType, wanted: AvroType, node: int, path: str) -> None:
        self._add(op.ENUM, node, len(found.symbols), path=path)
        for symbol in found.symbols:
            text = symbol if symbol in wanted.symbols else wanted.default
            raw = symbol.encode() if text is None else text.encode()
            self._program.add(
                op.SYMBOL, NOWHERE, self._program.constant(raw), -1 if text is None else len(raw), path=path
            )

    # Types that the reader does not have.

    def _skip(self, found: AvroType, around: tuple[str, ...], path: str) -> None:
        self._skipped_types += 1
        if self._skipped_types > op.INSTRUCTIONS_MAX:
            raise ValueError(f"it has more than {op.INSTRUCTIONS_MAX} types that are skipped, counted in all levels")
        found = self._writer.definition(found)
        match found.kind:
            case "record":
                self._skip_record(found, around, path)
            case "union":
                self._branch(found, NOWHERE, path, lambda alternative: self._skip(alternative, around, path))
            case "array" | "map":
                self._skip_list(found, around, path)
            case "bytes" | "string":
                self._add(op.SKIP_BYTES, NOWHERE, path=path)
            case "int" | "long" | "enum":
                self._add(op.SKIP_NUMBER, NOWHERE, path=path)
            case "boolean" | "float" | "double" | "fixed" as kind:
                self._add(op.SKIP, NOWHERE, found.size if kind == "fixed" else _LEAST_BYTES[kind], path=path)

    def _skip_list(self, found: AvroType, around: tuple[str, ...], path: str) -> None:
        least = _least_bytes(self._writer, found.inner[0], 0) + (found.kind == "map")
        begin = self._add(op.LIST, NOWHERE, second=min(least, 1), path=path)
        first = len(self._program)
        if found.kind == "map":
            self._add(op.SKIP_BYTES, NOWHERE, path=path)
        self._skip(found.inner[0], around, path)
        self._add(op.NEXT_ELEMENT, NOWHERE, first, begin, path=path)
        self._program.go_on(begin)

    def _skip_record(self, found: AvroType, around: tuple[str, ...], path: str) -> None:
        if found.name in around or found.name in self._calls:
            self._calls.setdefault(found.name, []).append(self._add(op.CALL, NOWHERE, path=path))
            return
        for field in found.fields:
            self._skip(field.type, (*around, found.name), path)


def _field_of(names: set[str], missing: dict[str, AvroField], found: AvroField) -> AvroField | None:
    """The reader's field that a field of the writer's is read into, if it has one.

    Args:
        names: of all the writer's fields: one with the reader's own name is preferred to one that an alias names.
        missing: the reader's fields that no field is read into yet.
        found: the writer's field.
    """
    if found.name in missing:
        return missing[found.name]
    aliased = (field for field in missing.values() if found.name in field.aliases and field.name not in names)
    return next(aliased, None)


def _chosen(source: AvroSchema, found: AvroType, reader: AvroSchema, alternatives: list[AvroType]) -> int | None:
    """The reader's alternative for a value: the first of the same type and name, or the first that it resolves to."""
    fitting = [
        number for number, alternative in enumerate(alternatives) if not _misfit(source, found, reader, alternative)
    ]
    return min(fitting, key=lambda number: _distance(found, alternatives[number]), default=None)


def _distance(found: AvroType, wanted: AvroType) -> int:
    """How far a type is from one that it resolves to: same name, an alias, same short name, another type."""
    if found.kind != wanted.kind:
        return 3
    if found.name == wanted.name:
        return 0
    return 1 if found.name in wanted.aliases else 2


def _misfit(source: AvroSchema, found: AvroType, reader: AvroSchema, wanted: AvroType) -> str:
    """Why a type of the writer's, no union, does not resolve to one of the reader's, no union; empty where it does."""
    fits = found.kind == wanted.kind
    if found.kind in _NUMBERS:
        fits = (found.kind, wanted.kind) in _WIDENINGS
    elif found.kind in ("bytes", "string"):
        fits = wanted.kind in ("bytes", "string")
    if fits and found.logical == wanted.logical == "decimal":
        fits = (found.precision, found.scale) == (wanted.precision, wanted.scale)
    if fits and wanted.logical == "decimal":
        fits = found.kind != "string"
    if fits and found.kind == "fixed":
        fits = found.size == wanted.size
    if fits and found.kind in ("record", "enum", "fixed"):
        fits = _is_same_name(found, wanted)
    return "" if fits else f"the writer's {found} does not resolve to the reader's {wanted}"


def _is_same_name(found: AvroType, wanted: AvroType) -> bool:
    """Whether names agree: without their namespaces, or by an alias of the reader's."""
    return _short(found.name) == _short(wanted.name) or found.name in wanted.aliases


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _unit(found: AvroType) -> str:
    """The unit of a timestamp; empty for others."""
    return found.logical.rpartition("-")[2] if "timestamp" in found.logical else ""


def _least_bytes(schema: AvroSchema, found: AvroType, depth: int) -> int:
    """The least bytes that a value has; for what is nested deep, 0."""
    found = schema.definition(found)
    if found.kind == "record" and depth < _NESTED_RECORDS_MAX:
        return sum(_least_bytes(schema, field.type, depth + 1) for field in found.fields[:8])
    return found.size if found.kind == "fixed" else _LEAST_BYTES.get(found.kind, 1)


def _at(path: str) -> str:
    return f"{path.removeprefix('.')}: " if path else ""
