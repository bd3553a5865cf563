"""Files are read as protoc reads them, from their texts and from descriptors; what is wrong is told with its line."""

from __future__ import annotations

import base64
import random

import pytest
from tests.protobuf_records import compiled, random_file

from directkafka.options.schemas.protobuf.files import parse_protobuf
from directkafka.options.schemas.protobuf.proto_text import TEXT_CHARACTERS_MAX
from directkafka.options.schemas.protobuf.schema import ProtobufField, schema_of_text

EVERYTHING = """
// A comment; "not a text".
edition = "2023"; /* another
one */
package a.b;
import public "google/protobuf/timestamp.proto";
import "google/protobuf/struct.proto";
option features.field_presence = IMPLICIT;
option java_package = "com.a" ".b";
message M {
  option deprecated = true;
  int32 a = 0x10 [features.field_presence = EXPLICIT, deprecated = true];
  map<string, .a.b.M> by_name2_x = 4;
  repeated int32 expanded = 021 [features.repeated_field_encoding = EXPANDED];
  string s = 5 [default = "x\\"y;]", features.field_presence = EXPLICIT];
  enum E { option allow_alias = true; A = 0; B = -1; B2 = -1; reserved 5, 7 to max; }
  oneof o { option deprecated_legacy_json_field_conflicts = true; string q = 6; N n = 7; }
  E e = 8;
  N between_tags = 9 [features.message_encoding = DELIMITED];
  google.protobuf.Timestamp t = 10;
  google.protobuf.Value v = 11;
  message N { int64 message = 1; double option = 2; float reserved = 3; string enum = 4; bytes oneof =5;
    bool extensions = 6; uint32 optional=7; uint64 repeated = 8; sint32 map = 9; sint64 group = 10; fixed32 extend = 11;
    M deeper = 12;;
  }
  extensions 100 to 200 [declaration = { number: 100, full_name: ".a.b.ext", type: "int32" }];
  reserved foo, bar;
}
extend M { int32 ext = 100; }
message Second { M.E e = 1; M.N n = 2; b.M m = 3; }
service S { rpc F(M) returns (stream M) { option deprecated = true; } }
"""
PROTO2 = """
package a;
message M {
  required group Inner = 1 { optional string x = 1; }
  repeated group Others = 2 { repeated group Deep = 3 { optional bool y = 4; } }
  optional string message = 3 [default = 'it''s'];
  extensions 100 to max;
}
"""


def assert_same_as_protoc(text: str, message: str = "") -> None:
    own = parse_protobuf([text.replace(" [default = 'it''s']", "")], message)
    other = parse_protobuf([base64.b64encode(compiled(text)).decode()], message)
    assert (own.messages, own.enums, own.outer, own.message) == (
        other.messages, other.enums, other.outer, other.message,
    )  # fmt: skip
    again = schema_of_text(own.text())
    assert schema_of_text(again.text()).text() == own.text()
    assert again.root.fields == own.root.fields


def test_what_confluent_s_serializers_leave_out_of_the_references_is_known() -> None:
    text = """
    syntax = "proto3";
    import "confluent/type/decimal.proto";
    import "google/type/date.proto";
    message Flight { confluent.type.Decimal price = 1; google.type.Date day = 2; Money fee = 3; }
    message Money { int64 cents = 1; }
    """
    schema = parse_protobuf([text], "Money")
    assert schema.message == "Money"
    fields = parse_protobuf([text], "Flight").root.fields
    assert [field.type_name for field in fields] == ["confluent.type.Decimal", "google.type.Date", "Money"]
    assert [field.name for field in schema.messages["google.type.Date"].fields] == ["year", "month", "day"]


def test_a_file_may_declare_what_is_known_without_it() -> None:
    text = 'syntax = "proto3"; package google.type; message Money { int64 cents = 1; } message Color { int32 red = 1; }'
    schema = parse_protobuf([text])
    assert (schema.message, [field.name for field in schema.root.fields]) == ("google.type.Money", ["cents"])
    assert parse_protobuf([text], "Color").message == "google.type.Color"
    with pytest.raises(ValueError, match=r"google.type.Money is declared twice"):
        parse_protobuf([text.replace("Color", "Money")])


def test_all_of_the_grammar_is_read_as_protoc_reads_it() -> None:
    text = EVERYTHING.replace("option deprecated_legacy_json_field_conflicts = true;", "")
    assert_same_as_protoc(text.replace(' [declaration = { number: 100, full_name: ".a.b.ext", type: "int32" }]', ""))
    schema = parse_protobuf([EVERYTHING], "Second")
    assert schema.message == "a.b.Second"
    assert schema.enums["a.b.M.E"].values == ((0, "A"), (-1, "B"), (-1, "B2"))
    assert schema.enums["a.b.M.E"].name_by_number() == {0: "A", -1: "B"}
    fields = {field.name: field for field in schema.messages["a.b.M"].fields}
    assert (fields["a"].number, fields["expanded"].number) == (16, 17)
    assert fields["q"] == ProtobufField("q", 6, "string", has_presence=True, oneof="o")
    assert fields["by_name2_x"].type_name == "a.b.M.ByName2XEntry"


def test_groups_are_messages_between_two_tags() -> None:
    assert_same_as_protoc(PROTO2.replace(" [default = 'it''s']", ""))
    schema = parse_protobuf([PROTO2])
    assert [field.kind for field in schema.root.fields] == ["group", "group", "string"]
    assert [field.name for field in schema.root.fields] == ["inner", "others", "message"]
    assert schema.root.nested == ("a.M.Inner", "a.M.Others")


@pytest.mark.parametrize("seed", range(20))
def test_random_files_are_read_as_protoc_reads_them(seed: int) -> None:
    assert_same_as_protoc(random_file(random.Random(seed)), "Record")


def test_a_file_may_stand_in_several_and_names_are_looked_for_from_the_inside_out() -> None:
    other = 'syntax = "proto3"; package x; message M { int32 theirs = 1; } message Only { M m = 1; }'
    own = """
    syntax = "proto3"; package x.y; import "other.proto";
    message M { message Only { int32 mine = 1; } Only a = 1; x.Only b = 2; .x.M c = 3; M d = 4; y.M e = 5; }
    """
    schema = parse_protobuf([other, own])
    assert [field.type_name for field in schema.root.fields] == ["x.y.M.Only", "x.Only", "x.M", "x.y.M", "x.y.M"]
    assert schema.messages["x.Only"].fields[0].type_name == "x.M"


@pytest.mark.parametrize(
    ("text", "error_message"),
    [
        ("", "it is empty"),
        ("message M { int32 a = 1 }", "line 1: expected ;, found }"),
        ("syntax = 'proto3';\nmessage M {\n int32 = 1;\n}", "line 3: expected a name, found ="),
        ("message M { int32 a = x; }", "expected a whole number, found x"),
        ("message M { int32 a = 1; ", "found its end"),
        ("message M { int32 a = 1; string a = 2; }", "at M: two fields have the name a"),
        ("message M { int32 a = 1; string b = 1; }", "at M: two fields have the number 1"),
        ("message M { int32 a = 0; }", "at M.a: expected a number from 1 to 536870911, found 0"),
        ("message M { Nothing a = 1; }", "at M.a: there is no type Nothing"),
        ("message M {} message M {}", "M is declared twice"),
        ("enum E { A = 0; }", "it has no message"),
        ("syntax = 'proto9'; message M {}", "expected the syntax proto2 or proto3, found proto9"),
        ("message M { int32 a = 1; } ~", "line 1: no .proto file has '~'"),
        ("message M { int32 a = 1 [x", "expected an option's name and ="),
        ("message M { option x = { a: [1, 2", "expected ], found its end"),
        ("message A {" * 40, "more than 32 messages in one another"),
        ("~" * (TEXT_CHARACTERS_MAX + 1), "characters, and 1048576 are read"),
        ("a " * (TEXT_CHARACTERS_MAX // 2 - 1) + "~", "no .proto file has '~'"),
        ("AAAA", "it is no descriptor"),
        ("A", "neither a .proto file nor base64"),
        (base64.b64encode(b"\x0a\x02\x0a\x05").decode(), "it is no descriptor"),
    ],
)
def test_what_is_no_schema_is_told(text: str, error_message: str) -> None:
    with pytest.raises(ValueError, match=r"the schema.*") as caught:
        parse_protobuf([text])
    assert error_message in str(caught.value)


def test_a_message_is_chosen_by_its_name() -> None:
    text = "package a; message M { message In { int32 x = 1; } } message Other { message In { int32 y = 1; } }"
    assert parse_protobuf([text]).message == "a.M"
    assert parse_protobuf([text], "Other").message == "a.Other"
    assert parse_protobuf([text], "a.M.In").message == "a.M.In"
    for name, error_message in (
        ("In", "several are called In"),
        ("Nobody", "no message is called Nobody; it has a.M, a.M.In"),
    ):
        with pytest.raises(ValueError, match=error_message):
            parse_protobuf([text], name)


def test_random_bytes_are_no_descriptor_and_nothing_else_happens() -> None:
    rng = random.Random(1)
    whole = compiled("syntax = 'proto3'; message M { int32 a = 1; repeated string b = 2; }")
    told: set[str] = set()
    for _ in range(3_000):
        broken = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] = rng.getrandbits(8)
        try:
            parse_protobuf([base64.b64encode(broken[: rng.randint(1, len(broken))]).decode()])
        except ValueError as error:
            told.add(str(error)[:11])
    assert told == {"the schema:"}


@pytest.mark.parametrize(
    "text",
    [
        'edition = "2023"; message M { int32 a = 1; } option features.field_presence = IMPLICIT;',
        'edition = "2023"; option features = { field_presence: IMPLICIT message_encoding: DELIMITED }; '
        "message M { int32 a = 1; M m = 2; map<string, M> by_name = 3; }",
        'edition = "2023"; message M { int32 a = 1 [features = { field_presence: IMPLICIT }]; }',
        'edition = "2023"; option features.message_encoding = DELIMITED; message M { map<string, M> m = 1; M n = 2; }',
    ],
)
def test_options_that_matter_are_found_wherever_they_stand(text: str) -> None:
    assert_same_as_protoc(text, "M")


def test_an_option_of_a_oneof_may_have_a_name_in_brackets() -> None:
    text = 'syntax = "proto3"; message M { oneof x { option (buf.validate.oneof).required = true; int32 a = 1; } }'
    assert [field.name for field in parse_protobuf([text]).root.fields] == ["a"]


def test_of_edition_2024_the_visibility_is_passed_over() -> None:
    text = (
        'edition = "2024"; export message M { local enum E { A = 0; } E e = 1; } local message N { int32 local = 1; }'
    )
    assert parse_protobuf([text]).outer == ("M", "N")


def test_an_own_message_may_have_the_name_of_a_known_one() -> None:
    text = 'syntax = "proto3"; package acme; message First { int32 a = 1; } message Duration { int32 b = 1; }'
    assert parse_protobuf([text], "Duration").message == "acme.Duration"


@pytest.mark.parametrize(
    ("text", "error_message"),
    [
        ("package google.protobuf; message NullValue { int32 a = 1; }", "it has no message"),
        ("message M { int32 a = 1; } enum E { A = 99999999999999999999; }", "a number of an enum has 32 bits"),
        (f"package {'a' * 1_001}; message M {{ int32 a = 1; }}", "at most 1000 characters"),
        (f"message {'M' * 600} {{ message {'N' * 600} {{ }} }}", "at most 1000 characters"),
        (
            "message M { oneof o { " + "".join(f"int32 f{at} = {at + 1};" for at in range(1_001)) + "} }",
            "more than 1000",
        ),
    ],
)
def test_what_would_cost_too_much_or_hides_what_is_known_is_refused(text: str, error_message: str) -> None:
    with pytest.raises(ValueError, match=error_message):
        parse_protobuf([text])
