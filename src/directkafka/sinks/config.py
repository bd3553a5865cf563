"""Configurations of sinks: one typed class for each, beside its code.

From it come the sink's arguments (their order, types, bounds and defaults), the names of its section in a pipeline
file, its page in the reference, and the part of its docstring that says what each argument is for.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, dataclass_transform, get_type_hints

import pydantic.dataclasses
from pydantic import ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ArgsKwargs, ErrorDetails

from directkafka.errors import OptionError
from directkafka.options.spec import Mistakes
from directkafka.sinks.api import Sink, Store
from directkafka.sinks.deletes import DeleteHow
from directkafka.sinks.routing import Routing, routed_sinks
from directkafka.sinks.write_modes import Mode

Config = TypeVar("Config", bound="type[SinkConfig]")

FilePath = Annotated[str, Field(min_length=1)] | os.PathLike[str]
SchemaPolicy = Annotated[
    Literal["fail", "add-columns"], Field(description="What happens to columns that the table lacks.")
]
ModeName = Annotated[
    Mode,
    Field(
        description="How rows meet those that are there: append; ignore (rows that are there already are left "
        "out); upsert (a row replaces the row of its key); merge (one row per key, to which numbers are added); "
        "replace (a batch's rows become the whole table)."
    ),
]
KeyColumns = Annotated[
    Sequence[str] | None,
    Field(
        description="Columns with a unique index: needed by upsert and merge, optional for ignore (any unique index)."
    ),
]
AddColumns = Annotated[
    Sequence[str] | None, Field(description="Numeric columns that merge adds up; a null counts as zero.")
]
OrderColumns = Annotated[
    Sequence[str] | None,
    Field(
        description="Columns for upsert: of two rows of a key the one with the higher values stays, in the batch and "
        "in the table. Without them the later batch's row stays, and two rows of a key in one batch are an error."
    ),
]

DeleteColumn = Annotated[
    Annotated[str, Field(min_length=1)] | None,
    Field(
        description="A boolean column for upsert: where it is true, the row of the key is deleted. Soft deletes alone "
        "store it."
    ),
]
DeleteHowName = Annotated[
    DeleteHow,
    Field(
        description="hard: a deleted row is removed; soft: it is marked, in the column of delete, which is stored "
        "then, and keeps what it had."
    ),
]
DeleteTimeColumn = Annotated[
    Annotated[str, Field(min_length=1)] | None,
    Field(description="A column that a row which is marked takes from what came, as those of order: a time."),
]
Truncate = Annotated[
    bool,
    Field(
        description="Whether a row whose column op is t empties the table of what was there before, by its order, as "
        "Debezium tells a TRUNCATE. The column op is not stored then."
    ),
]


class SinkConfig:
    """Base of a sink's configuration, which is itself a base of the sink; see :func:`sink_config`.

    Attributes:
        SECTION_NAMES: names in a pipeline file that differ from those of the arguments.
    """

    SECTION_NAMES: ClassVar[Mapping[str, str]] = MappingProxyType({})
    __pydantic_fields__: ClassVar[dict[str, FieldInfo]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        fields = getattr(cls, "__pydantic_fields__", None)
        # Cleaned: the compiler of Python 3.13 takes the indentation away, that of 3.11 leaves it.
        own = inspect.cleandoc(cls.__doc__ or "")
        if fields and own and "\nArgs:\n" not in own:
            text, raises, errors = own.partition("Raises:\n")
            cls.__doc__ = f"{text.rstrip()}\n\nArgs:\n{_argument_lines(fields)}\n\n{raises}{errors}".rstrip()

    def __post_init__(self) -> None:
        """What the sink makes of its configuration, once that is checked."""

    @classmethod
    def arguments(cls, section: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments for which a section of a pipeline file stands.

        Raises:
            ValueError: what is wrong with the section as a whole.
        """
        own = {name: argument for argument, name in cls.SECTION_NAMES.items()}
        return {own.get(name, name): value for name, value in section.items()}

    @classmethod
    def routed(cls, *arguments: Any, table_from: str, tables: Sequence[str], **options: Any) -> list[Sink]:
        """A sink for each of several tables, which takes the rows that name it; for one output of a pipeline.

        ::

            PostgresSink.routed(dsn, table_from="kind", tables=["orders", "lines"], mode="append")

        Args:
            arguments: of each sink, up to the table.
            table_from: the column that names a row's table; not stored.
            tables: that may be named. A row that names another one is refused with its batch.
            options: of each sink.

        Raises:
            OptionError: there is no such column or list, the sink has no tables, or its arguments make no sense.
        """
        if "table" not in cls.__pydantic_fields__:
            raise OptionError(option="table_from", reason=f"a {cls.__name__} has no tables")
        if "table" in options:
            raise OptionError(option="table", reason="the tables are named by table_from and tables: keep one of both")
        make: Any = cls
        return routed_sinks(lambda table: make(*arguments, table=table, **options), Routing.parse(table_from, tables))

    @classmethod
    def store_at(cls, url: str) -> Store:
        """The store that a URL on the command line stands for; its scheme is the type's name.

        Raises:
            OptionError: no store can be made of it; by default of none.
        """
        raise OptionError(option="--store", reason=f"the store of a {cls.__name__} has no URL: name a pipeline file")


@dataclass_transform(eq_default=False, field_specifiers=(Field,))
def sink_config(cls: Config) -> Config:
    """Make a configuration of a class with annotated fields, in the order of the arguments.

    A sink that inherits from it is made from these arguments, and opens what it needs in ``__post_init__``. Values are
    checked and never converted::

        @sink_config
        class MineConfig(SinkConfig):
            path: Annotated[str, Field(description="Where the rows go.")]
            _: KW_ONLY
            retries: Annotated[int, Field(ge=0, description="How often a write is tried again.")] = 3

        class MineSink(MineConfig, Sink): ...

    Making one raises :class:`~directkafka.errors.OptionError` for arguments that are unknown, missing or wrong: all of
    them at once.
    """
    make: Any = pydantic.dataclasses.dataclass(config=ConfigDict(strict=True, extra="forbid"), eq=False, repr=False)
    made: Any = make(cls)
    check = made.__init__

    @functools.wraps(check)
    def __init__(self: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807 - it becomes a method
        # pydantic gives the object a new dict; what a base or a subclass has put into the old one stays.
        before = vars(self).copy()
        try:
            check(self, *arguments, **options)
            vars(self).update({name: value for name, value in before.items() if name not in vars(self)})
        except ValidationError as error:
            mistakes = Mistakes()
            for details in findings(error, made):
                mistakes.add(_option_error(details, type(self).__name__, made))
            raise mistakes.together() from None

    made.__init__ = __init__
    made.__signature__ = _plain_signature(made)
    config: Config = made
    return config


def _plain_signature(config: type[SinkConfig]) -> inspect.Signature:
    """The arguments for ``help()``: types alone, without the bounds and texts that stand beside them."""
    signature, types = inspect.signature(config), {}
    for name, hint in get_type_hints(config).items():
        plain = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", inspect.formatannotation(hint))
        types[name] = re.sub(r"^Optional\[(.*)\]$", r"\1 | None", plain)
    parameters = [parameter.replace(annotation=types[parameter.name]) for parameter in signature.parameters.values()]
    return signature.replace(parameters=parameters)


def problems(sink: type[SinkConfig], arguments: Mapping[str, Any]) -> list[ErrorDetails]:
    """What is wrong with arguments, each once and under its name, without making a sink; see :func:`findings`."""
    config = next(base for base in sink.__mro__ if "__pydantic_validator__" in vars(base))
    validator: Any = vars(config)["__pydantic_validator__"]
    try:
        validator.validate_python(ArgsKwargs((), dict(arguments)), self_instance=object.__new__(config))
    except ValidationError as error:
        return list(findings(error, sink))
    return []


def findings(error: ValidationError, config: type[SinkConfig]) -> Iterator[ErrorDetails]:
    """What is wrong, each argument once and under its name; without values, which may be secrets.

    Args:
        error: what pydantic found.
        config: the class that was to be made.
    """
    names = list(config.__pydantic_fields__)
    told: set[int | str] = set()
    for details in error.errors(include_url=False, include_input=False):
        first, *inner = details["loc"]
        name = names[first] if isinstance(first, int) and first < len(names) else first
        # Of the alternatives of a union each has its own finding; a number is a place in a list.
        if name in told:
            continue
        told.add(name)
        yield {**details, "loc": (name, *(index for index in inner if isinstance(index, int)))}


def _option_error(details: ErrorDetails, sink: str, config: type[SinkConfig]) -> OptionError:
    name = str(details["loc"][0])
    option = ".".join(map(str, details["loc"]))
    if details["type"] == "missing":
        return OptionError(option=option, where=sink, reason="this argument is missing")
    if details["type"] == "unexpected_positional_argument":
        return OptionError(option=option, where=sink, reason="give it by its name, as all behind the first ones")
    if details["type"] == "unexpected_keyword_argument":
        known = list(config.__pydantic_fields__)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}" if near else f"known are {', '.join(known)}"
        return OptionError(option=option, where=sink, reason=f"no such argument; {hint}")
    return OptionError(option=option, where=sink, reason=reason_of(details, config.__pydantic_fields__[name]))


def reason_of(details: ErrorDetails, field: FieldInfo) -> str:
    """What is wrong with a value; why there is no choice, where there is none."""
    reason = "Input should be a valid list" if details["type"] == "sequence_str" else str(details["msg"])
    if details["type"] == "literal_error" and " or " not in reason and field.description:
        return f"{reason}. {field.description.rstrip('.')}"
    return reason


def _argument_lines(fields: Mapping[str, FieldInfo]) -> str:
    return "\n".join(
        textwrap.fill(f"{name}: {field.description}", 120, initial_indent=" " * 4, subsequent_indent=" " * 8)
        for name, field in fields.items()
    )
