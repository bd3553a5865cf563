"""A message of another version is read where each value is the same one, and refused with its path where not."""

from __future__ import annotations

import pytest

from directkafka.options.schemas.protobuf.files import parse_protobuf
from directkafka.payloads.protobuf.compatibility import check_readable


def refusal(writer: str, reader: str) -> str:
    """Why records of one are not read as the other; empty if they are."""
    theirs, ours = (
        parse_protobuf([f'syntax = "proto3"; {text} message In {{ int32 x = 1; }} enum E {{ A = 0; }}'])
        for text in (writer, reader)
    )
    try:
        check_readable(theirs, theirs.message, ours)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ("int32 a = 1;", "int64 b = 1;"),
        ("int64 a = 1;", "int32 a = 1;"),
        ("E a = 1;", "int32 a = 1;"),
        ("uint32 a = 1;", "int64 a = 1;"),
        ("string a = 1;", "bytes a = 1;"),
        ("In a = 1;", "bytes a = 1;"),
        ("sint64 a = 1;", "sint32 a = 1;"),
        ("int32 a = 1;", "repeated int32 a = 1;"),
        ("int32 a = 1; string b = 2;", "int32 a = 1; string c = 3;"),
        ("oneof p { int32 a = 1; int32 b = 2; }", "oneof o { int32 a = 1; int32 b = 2; }"),
        ("int32 a = 1;", "oneof o { int32 a = 1; int32 b = 2; }"),
    ],
)
def test_a_changed_field_is_read(writer: str, reader: str) -> None:
    assert refusal(f"message M {{ {writer} }}", f"message M {{ {reader} }}") == ""


@pytest.mark.parametrize(
    ("writer", "reader", "reason"),
    [
        ("int32 a = 1;", "sint32 a = 1;", "a: it is int32 there, and sint32 here"),
        ("int32 a = 1;", "string a = 1;", "a: it is int32 there, and string here"),
        ("uint64 a = 1;", "int64 a = 1;", "a: it is uint64 there, and int64 here"),
        ("int64 a = 1;", "uint64 a = 1;", "a: it is int64 there, and uint64 here"),
        ("fixed32 a = 1;", "float a = 1;", "a: it is fixed32 there, and float here"),
        ("string a = 1;", "In a = 1;", "a: it is string there, and message here"),
        ("repeated int32 a = 1;", "int32 a = 1;", "a: it is a list there, and one value here"),
        ("Deep d = 1;", "Deep d = 1;", "d.x: it is double there, and int32 here"),
        ("int32 a = 1;", "bool a = 1;", "a: it is int32 there, and bool here"),
        (
            "int32 a = 1; int32 b = 2;",
            "oneof o { int32 a = 1; int32 b = 2; }",
            "o: it is one of several fields here, and there all of them may be set",
        ),
    ],
)
def test_a_field_that_would_be_another_value_is_refused(writer: str, reader: str, reason: str) -> None:
    actual_reason = refusal(
        f"message M {{ {writer} }} message Deep {{ double x = 1; }}",
        f"message M {{ {reader} }} message Deep {{ int32 x = 1; }}",
    )
    assert actual_reason == reason


def test_a_message_of_another_name_is_not_this_one_but_a_package_may_change() -> None:
    assert refusal("package a; message M { int32 a = 1; }", "package b.c; message M { int32 a = 1; }") == ""
    actual_reason = refusal("package a; message Other { int32 a = 1; }", "package b; message M { int32 a = 1; }")
    assert actual_reason == "it is a a.Other, and the columns are those of b.M"


def test_messages_that_contain_themselves_are_compared_once() -> None:
    assert refusal("message M { M m = 1; In in = 2; }", "message M { M m = 1; }") == ""
