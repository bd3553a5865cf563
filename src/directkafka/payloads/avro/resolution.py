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

    def _value(self, source: AvroSchema, source_type: AvroType, wanted: AvroType, node: int, path: str) -> None:
        """A value of a type, of the writer's schema or of the reader's own for defaults, into a column."""
        source_type, wanted = source.definition(source_type), self._reader.definition(wanted)
        if source_type.kind == "union":
            self._alternatives(source, source_type, wanted, node, path)
        elif wanted.kind == "union":
            self._into_union(source, source_type, wanted, node, path)
        elif reason := _misfit(source, source_type, self._reader, wanted):
            self._program.fail(f"{_at(path)}{reason}", path)
        elif source_type.kind == "record":
            self._record(source, source_type, wanted, node, path)
        elif source_type.kind in ("array", "map"):
            self._list(source, source_type, wanted, node, path)
        else:
            self._scalar(source_type, wanted, node, path)

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

    def _into_union(self, source: AvroSchema, source_type: AvroType, wanted: AvroType, node: int, path: str) -> None:
        if source_type.kind == "null" and any(
            alternative.kind == "null" for alternative in map(self._reader.definition, wanted.inner)
        ):
            self._add(op.NULL, node, path=path)
            return
        alternatives = alternatives_of(self._reader, wanted)
        chosen = _chosen(source, source_type, self._reader, alternatives)
        if chosen is None:
            self._program.fail(
                f"{_at(path)}the writer's {source_type} matches no alternative of the reader's {wanted}", path
            )
        elif len(alternatives) == 1:
            self._value(source, source_type, alternatives[0], node, path)
        elif widened(alternatives):
            widest = next(alternative for alternative in alternatives if alternative.kind in ("long", "double"))
            self._value(source, source_type, widest, node, path)
        else:
            self._valid(node, path)
            member = node + 1
            for number, alternative in enumerate(alternatives):
                if number == chosen:
                    self._value(source, source_type, alternative, member, f"{path}.member{number}")
                else:
                    self._add(op.NULL, member, path=path)
                member = self._behind[member]

    def _valid(self, node: int, path: str) -> None:
        if self._again:
            self._add(op.VALID, node, path=path)

    def _record(self, source: AvroSchema, source_type: AvroType, wanted: AvroType, node: int, path: str) -> None:
        self._valid(node, path)
        nodes, below = {}, node + 1
        for field in wanted.fields:
            nodes[field.name] = below
            below = self._behind[below]
        missing = {field.name: field for field in wanted.fields}
        names = {written.name for written in source_type.fields}
        for written in source_type.fields:
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

    def _list(self, source: AvroSchema, source_type: AvroType, wanted: AvroType, node: int, path: str) -> None:
        again, item, inner = self._again, node + 1, source_type.inner[0]
        least = _least_bytes(source, inner) + (source_type.kind == "map")
        begin = self._add(op.LIST, node, second=min(least, 1), path=path)
        self._again = True
        first = len(self._program)
        if source_type.kind == "map":
            self._add(op.TEXT, item, path=f"{path}.key")
            item = self._behind[item]
        self._value(source, inner, wanted.inner[0], item, f"{path}[]")
        self._add(op.NEXT_ELEMENT, node, first, begin, path=path)
        self._again = again
        self._program.go_on(begin)

    def _scalar(self, source_type: AvroType, wanted: AvroType, node: int, path: str) -> None:
        unit = _unit(wanted)
        if source_type.kind in _NUMBERS and unit:
            factor, divisor = _MOMENTS[_unit(source_type) or unit]
            self._add(op.MOMENT, node, factor, divisor, path=path)
        elif (source_type.logical, wanted.logical) == ("time-millis", "time-micros"):
            self._add(op.MOMENT, node, *_MOMENTS["millis"], path=path)
        elif source_type.kind in _NUMBERS:
            self._add(_WIDENINGS[source_type.kind, wanted.kind], node, path=path)
        elif source_type.kind == "enum":
            self._enum(source_type, wanted, node, path)
        elif wanted.logical == "decimal":
            operation = op.DECIMAL if source_type.kind == "bytes" else op.FIXED_DECIMAL
            self._add(operation, node, source_type.size, wanted.precision, path=path)
        elif source_type.kind == "fixed":
            self._add(
                {"duration": op.DURATION, "uuid": op.UUID}.get(wanted.logical, op.FIXED),
                node,
                source_type.size,
                path=path,
            )
        elif source_type.kind == "boolean":
            self._add(op.BOOLEAN, node, path=path)
        else:
            self._add(op.TEXT if wanted.kind == "string" else op.BYTES, node, path=path)

    def _enum(self, source_type: AvroType, wanted: AvroType, node: int, path: str) -> None:
        self._add(op.ENUM, node, len(source_type.symbols), path=path)
        for symbol in source_type.symbols:
            text = symbol if symbol in wanted.symbols else wanted.default
            raw = symbol.encode() if text is None else text.encode()
            self._program.add(
                op.SYMBOL, NOWHERE, self._program.constant(raw), -1 if text is None else len(raw), path=path
            )

    # Types that the reader does not have.

    def _skip(self, writer_type: AvroType, around: tuple[str, ...], path: str) -> None:
        self._skipped_types += 1
        if self._skipped_types > op.INSTRUCTIONS_MAX:
            raise ValueError(f"it has more than {op.INSTRUCTIONS_MAX} types that are skipped, counted in all levels")
        writer_type = self._writer.definition(writer_type)
        match writer_type.kind:
            case "record":
                self._skip_record(writer_type, around, path)
            case "union":
                self._branch(writer_type, NOWHERE, path, lambda alternative: self._skip(alternative, around, path))
            case "array" | "map":
                self._skip_list(writer_type, around, path)
            case "bytes" | "string":
                self._add(op.SKIP_BYTES, NOWHERE, path=path)
            case "int" | "long" | "enum":
                self._add(op.SKIP_NUMBER, NOWHERE, path=path)
            case "boolean" | "float" | "double" | "fixed" as kind:
                self._add(op.SKIP, NOWHERE, writer_type.size if kind == "fixed" else _LEAST_BYTES[kind], path=path)

    def _skip_list(self, writer_type: AvroType, around: tuple[str, ...], path: str) -> None:
        least = _least_bytes(self._writer, writer_type.inner[0]) + (writer_type.kind == "map")
        begin = self._add(op.LIST, NOWHERE, second=min(least, 1), path=path)
        first = len(self._program)
        if writer_type.kind == "map":
            self._add(op.SKIP_BYTES, NOWHERE, path=path)
        self._skip(writer_type.inner[0], around, path)
        self._add(op.NEXT_ELEMENT, NOWHERE, first, begin, path=path)
        self._program.go_on(begin)

    def _skip_record(self, writer_type: AvroType, around: tuple[str, ...], path: str) -> None:
        if writer_type.name in around or writer_type.name in self._calls:
            self._calls.setdefault(writer_type.name, []).append(self._add(op.CALL, NOWHERE, path=path))
            return
        for field in writer_type.fields:
            self._skip(field.type, (*around, writer_type.name), path)


def _field_of(names: set[str], missing: dict[str, AvroField], writer_field: AvroField) -> AvroField | None:
    """The reader's field that a field of the writer's is read into, if it has one.

    Args:
        names: of all the writer's fields: one with the reader's own name is preferred to one that an alias names.
        missing: the reader's fields that no field is read into yet.
        writer_field: the writer's field.
    """
    if writer_field.name in missing:
        return missing[writer_field.name]
    aliased = (field for field in missing.values() if writer_field.name in field.aliases and field.name not in names)
    return next(aliased, None)


def _chosen(source: AvroSchema, source_type: AvroType, reader: AvroSchema, alternatives: list[AvroType]) -> int | None:
    """The reader's alternative for a value: the first of the same type and name, or the first that it resolves to."""
    fitting = [
        number
        for number, alternative in enumerate(alternatives)
        if not _misfit(source, source_type, reader, alternative)
    ]
    return min(fitting, key=lambda number: _distance(source_type, alternatives[number]), default=None)


def _distance(source_type: AvroType, wanted: AvroType) -> int:
    """How far a type is from one that it resolves to: same name, an alias, same short name, another type."""
    if source_type.kind != wanted.kind:
        return 3
    if source_type.name == wanted.name:
        return 0
    return 1 if source_type.name in wanted.aliases else 2


def _misfit(source: AvroSchema, source_type: AvroType, reader: AvroSchema, wanted: AvroType) -> str:
    """Why a type of the writer's, no union, does not resolve to one of the reader's, no union; empty where it does."""
    fits = source_type.kind == wanted.kind
    if source_type.kind in _NUMBERS:
        fits = (source_type.kind, wanted.kind) in _WIDENINGS
    elif source_type.kind in ("bytes", "string"):
        fits = wanted.kind in ("bytes", "string")
    if fits and source_type.logical == wanted.logical == "decimal":
        fits = (source_type.precision, source_type.scale) == (wanted.precision, wanted.scale)
    if fits and wanted.logical == "decimal":
        fits = source_type.kind != "string"
    if fits and source_type.kind == "fixed":
        fits = source_type.size == wanted.size
    if fits and source_type.kind in ("record", "enum", "fixed"):
        fits = _is_same_name(source_type, wanted)
    return "" if fits else f"the writer's {source_type} does not resolve to the reader's {wanted}"


def _is_same_name(source_type: AvroType, wanted: AvroType) -> bool:
    """Whether names agree: without their namespaces, or by an alias of the reader's."""
    return _short(source_type.name) == _short(wanted.name) or source_type.name in wanted.aliases


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _unit(avro_type: AvroType) -> str:
    """The unit of a timestamp; empty for others."""
    return avro_type.logical.rpartition("-")[2] if "timestamp" in avro_type.logical else ""


def _least_bytes(schema: AvroSchema, avro_type: AvroType, known: dict[str, int] | None = None) -> int:
    """1 if a value has bytes in any case, 0 if it may have none: nulls, records of nothing else, fixed of no bytes.

    Args:
        schema: of the type.
        avro_type: the type.
        known: records that were looked at. (One that is in itself with nothing between has no end, and so no value.)
    """
    avro_type, known = schema.definition(avro_type), {} if known is None else known
    if avro_type.kind == "record":
        if avro_type.name not in known:
            known[avro_type.name] = 0
            known[avro_type.name] = int(any(_least_bytes(schema, field.type, known) for field in avro_type.fields))
        return known[avro_type.name]
    return min(1, avro_type.size if avro_type.kind == "fixed" else _LEAST_BYTES.get(avro_type.kind, 1))


def _at(path: str) -> str:
    return f"{path.removeprefix('.')}: " if path else ""
