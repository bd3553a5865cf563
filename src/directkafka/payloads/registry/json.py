"""JSON under a registry: a record is the text behind its frame, whatever version of the schema it is of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from directkafka.options.schemas.ddl import FieldType
from directkafka.options.schemas.json_schema import json_schema_type
from directkafka.payloads.json.decoder import JsonDecoder
from directkafka.payloads.kernels.nodes import IS_UNKNOWN
from directkafka.payloads.registry.client import RegisteredSchema
from directkafka.payloads.texts import Texts

_PROGRAM = 0


class JsonRecords:
    """Columns of a JSON Schema.

    Args:
        schema: the fields.
        time_zone: of timestamps that name none.
        explains: whether somebody reads what is wrong with each text.
    """

    names_messages = False

    def __init__(self, schema: pa.StructType, time_zone: str, *, explains: bool = True) -> None:
        self._decoder = JsonDecoder(schema, time_zone, explains=explains)
        self.type: pa.DataType = schema
        #: Of the last column: what is wrong with a record, by its number.
        self.problems: dict[int, str] = {}

    def program(self, registered: RegisteredSchema, indexes: tuple[int, ...]) -> int:
        """What reads records of a schema: a record says by itself which fields it has.

        Args:
            registered: the schema.
            indexes: nothing: a schema is one type.

        Raises:
            ValueError: it is of another format.
        """
        _check(registered)
        return _PROGRAM

    def read(self, texts: Texts, starts: Any, programs: Any) -> pa.Array:
        """Decode records that have something in front.

        Args:
            texts: the column.
            starts: int64 positions of the records' first bytes.
            programs: int64, of each record what :meth:`program` says, or that it is null or unknown.
        """
        behind = texts.ends[1:]
        first, last = int(texts.ends[0]), int(texts.ends[-1])
        is_kept = np.ones(last - first, bool)
        fronts = starts - texts.ends[:-1]
        for byte_index in range(int(fronts.max(initial=0))):
            is_kept[(texts.ends[:-1] - first + byte_index)[fronts > byte_index]] = False
        ends = np.concatenate([[0], np.cumsum(behind - starts)])
        data = pa.py_buffer(texts.data[first:last][is_kept])
        column = pa.Array.from_buffers(pa.large_binary(), len(starts), [None, pa.py_buffer(ends), data])
        if (programs < 0).any():
            # An unknown one is a struct of nulls; what it is in truth, nobody can say.
            column = pc.if_else(pa.array(programs == IS_UNKNOWN), pa.scalar(b"{}", pa.large_binary()), column)
            nulls = (programs < 0) & (programs != IS_UNKNOWN)
            column = pc.if_else(pa.array(nulls), pa.scalar(None, pa.large_binary()), column)
        rows = self._decoder.decode(column)
        self.problems = self._decoder.problems
        return rows


def reader_schema_of(registered: RegisteredSchema, message: str) -> tuple[FieldType, str]:
    """The column that is for a schema, which says it all.

    Raises:
        ValueError: it is no JSON Schema, or no column is for it.
    """
    _check(registered)
    return json_schema_type(registered.texts, registered.names), ""


def _check(registered: RegisteredSchema) -> None:
    if registered.type != "JSON":
        raise ValueError(f"it is of type {registered.type}, not JSON")
