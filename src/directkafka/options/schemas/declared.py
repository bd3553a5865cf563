"""Schemas as options give them: the text itself, or the name of a file that has it."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Final

from directkafka.options.schemas.avro_types import avro_column
from directkafka.options.schemas.ddl import FieldType, parse_ddl
from directkafka.options.schemas.debezium import parse_event, row_type
from directkafka.options.schemas.protobuf.files import parse_protobuf
from directkafka.options.schemas.protobuf.proto_text import TEXT_CHARACTERS_MAX, read_declarations
from directkafka.options.schemas.protobuf.spark_types import spark_type

#: What the name of a file with a schema ends in.
_AVRO_FILE: Final = re.compile(r"[^\n{}\"]+\.(avsc|json)")
_PROTO_FILE: Final = re.compile(r"[^\n{};]+\.proto")
_DESCRIPTOR_FILE: Final = re.compile(r"[^\n{};]+\.(desc|pb|protoset)")
_FILES_MAX: Final = 100
_WELL_KNOWN: Final = "google/protobuf/"


def read_schema(form: str, text: str, message: str = "") -> tuple[FieldType, str]:
    """The column that is for a schema, and the schema itself as one text; empty where the column says it all.

    Args:
        form: the format, any but ``string``.
        text: the schema, or of Avro and Protocol Buffers the name of a file with it.
        message: of a ``.proto`` file the one that records are; the first one if empty.

    Raises:
        ValueError: it is none, no column is for it, or the file cannot be read.
    """
    if form in ("avro", "debezium-avro"):
        schema = schema_of_avro(text)
        return (avro_column(schema) if form == "avro" else row_type(parse_event(schema))), schema
    if form == "protobuf":
        protobuf_schema = parse_protobuf(_proto_texts(text), message)
        return spark_type(protobuf_schema), protobuf_schema.text()
    return parse_ddl(text), ""


def schema_of_avro(text: str) -> str:
    """The text of an Avro schema that is given as such, or as the name of a file.

    Raises:
        ValueError: the file cannot be read.
    """
    return _content(text).decode() if _AVRO_FILE.fullmatch(text) else text


def schema_of_proto(text: str) -> str:
    """The text of a ``.proto`` file that is given as such, or by its name.

    Raises:
        ValueError: it cannot be read, or needs others.
    """
    texts = _proto_texts(text)
    if len(texts) > 1:
        raise ValueError("the schema: the file imports others, and one file is expected; a registry may have them all")
    return texts[0]


def _proto_texts(text: str) -> list[str]:
    if _DESCRIPTOR_FILE.fullmatch(text):
        return [base64.b64encode(_content(text)).decode()]
    if not _PROTO_FILE.fullmatch(text):
        return [text]
    texts_by_path: dict[Path, str] = {}
    _add_file(Path(text), texts_by_path)
    return list(texts_by_path.values())


def _add_file(path: Path, texts_by_path: dict[Path, str]) -> None:
    """A file, behind those that it imports, which lie beside it or beside a folder that it is in."""
    if path in texts_by_path:
        return
    if len(texts_by_path) == _FILES_MAX:
        raise ValueError(f"the schema: {path} brings more than {_FILES_MAX} files with it")
    # So that two files which import each other come to an end.
    texts_by_path[path] = ""
    text = _content(str(path)).decode()
    for name in read_declarations(text).imports:
        if not name.startswith(_WELL_KNOWN):
            beside = next((folder / name for folder in path.resolve().parents if (folder / name).is_file()), None)
            if beside is None:
                raise ValueError(f"the schema: {path} imports {name}, which is not in its folder or one around it")
            _add_file(beside, texts_by_path)
    del texts_by_path[path]
    texts_by_path[path] = text


def _content(name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            content = file.read(4 * TEXT_CHARACTERS_MAX + 1)
    except OSError as error:
        raise ValueError(f"the schema: the file {name} cannot be read: {error.strerror}") from None
    if len(content) > 4 * TEXT_CHARACTERS_MAX:
        raise ValueError(f"the schema: the file {name} has more than {4 * TEXT_CHARACTERS_MAX} bytes")
    return content
