"""Protocol Buffers under a registry: a record names a file, and the message in it that it is."""

from __future__ import annotations

from functools import lru_cache

from directkafka.options.schemas.ddl import FieldType
from directkafka.options.schemas.protobuf.files import parse_protobuf
from directkafka.options.schemas.protobuf.schema import ProtobufSchema
from directkafka.options.schemas.protobuf.spark_types import spark_type
from directkafka.payloads.protobuf.compatibility import as_written, check_readable
from directkafka.payloads.protobuf.decoder import ProtobufDecoder
from directkafka.payloads.registry.client import RegisteredSchema


class ProtobufRecords(ProtobufDecoder):
    """Columns of a message, for records of any version of it."""

    names_messages = True

    def __init__(self, schema: ProtobufSchema) -> None:
        super().__init__(schema)
        self._schema = schema

    def program(self, registered: RegisteredSchema, indexes: tuple[int, ...]) -> int:
        """What reads records of a message.

        Args:
            registered: the file that it is in.
            indexes: of the message.

        Raises:
            ValueError: there is no such message, or it cannot be read as that of the columns.
        """
        writer = protobuf_of(registered)
        # Confluent's serializers for Java do not count the entries of maps, those for Python do.
        possible_names = {writer.at(indexes, counts_entries=counts) for counts in (False, True)} - {None}
        names = sorted(name for name in possible_names if name is not None)
        own = self._schema.message.rpartition(".")[2]
        chosen = next((name for name in names if name.rpartition(".")[2] == own), names[0] if names else None)
        if chosen is None:
            raise ValueError(f"the schema has no message at {list(indexes)}")
        check_readable(writer, chosen, self._schema)
        return self.root_of(as_written(writer, chosen, self._schema))


def reader_schema_of(registered: RegisteredSchema, message: str) -> tuple[FieldType, str]:
    """The column that is for a message, and the schema as one text, whatever it refers to.

    Args:
        registered: the file that it is in.
        message: its name; the file's first one if empty.

    Raises:
        ValueError: it is no such file, has no such message, or no column is for it.
    """
    schema = protobuf_of(registered)
    schema = schema.of_message(message) if message else schema
    return spark_type(schema), schema.text()


def protobuf_of(registered: RegisteredSchema) -> ProtobufSchema:
    """A registered schema that is a ``.proto`` file.

    Raises:
        ValueError: it is not.
    """
    if registered.type != "PROTOBUF":
        raise ValueError(f"it is of type {registered.type}, not PROTOBUF")
    return _parsed(registered.texts)


@lru_cache(maxsize=200)
def _parsed(texts: tuple[str, ...]) -> ProtobufSchema:
    """Once in a process: each range that is read has a decoder of its own."""
    return parse_protobuf(texts)
