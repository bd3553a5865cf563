"""Words that the code has left behind: each has one of the field's own in its place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "directkafka"
#: What else is Python here.
OTHER_FOLDERS = ("tests", "soak", "benchmarks", "tools", "examples")

#: What a name was, and what it is now: in Kafka's, Spark's and Postgres' own words.
REPLACED = {
    # The producer: Kafka's RecordAccumulator, ProducerBatch, Sender.
    "Desk": "RecordAccumulator",
    "Outbox": "PartitionQueues",
    "Sending": "ProducerBatch",
    "BrokerLine": "Sender",
    "Verdict": "ProduceOutcome",
    "judge": "classify",
    # The consumer.
    "PartitionLink": "PartitionConnection",
    "_on_nothing": "_handle_empty_response",
    "_react": "_handle_error_code",
    "_lose": "_raise_or_skip_loss",
    "Metadata": "AdminClient",
    "tell_group": "commit_to_group",
    "give_back": "release",
    "give_back_buffers": "release_buffers",
    # Records.
    "survey": "filter_batches",
    "Asked": "FilterSpec",
    "Wanted": "OffsetWindow",
    "Room": "Capacity",
    "Filled": "WriteCursor",
    "Member": "BatchSlice",
    "Spans": "BinaryColumn",
    "Laid": "EncodedSpan",
    "lay_out": "encode_records",
    "seal": "write_headers",
    "Fault": "Corruption",
    "dealt": "round_robin",
    # Stores.
    "PipelineOwner": "TransactionManager",
    "_win_back": "_reacquire",
    "bump": "bump_epoch",
    "newest_settled": "read_committed_tail",
    "newest_standing": "read_stable_tail",
    "EarlyStore": "TransactionalStore",
    "is_left": "needs_second_phase",
    "BatchName": "BatchAttempt",
    "past_the_lock": "with_row_lock",
    "patiently": "retry_locked",
    "Meaning": "ErrorClass",
    "meaning_of": "error_class_of",
    "meant": "error_for",
    "abandon": "abort",
    "give_up": "abort",
    # Sinks.
    "SettledLetters": "DeadLetterReplaySink",
    "PlannedLetters": "ReplayPlanSink",
    "take_out": "delete_replayed",
    "RowMode": "WriteMode",
    "Renewable": "Clonable",
    "renewed": "clone",
    "Aims": "Destinations",
    "BatchTries": "AttemptTracker",
    "hold": "buffer",
    "report_held": "report_inline",
    "Few": "InlineRows",
    "nested_columns": "json_columns",
    "Letters": "DeadLetters",
    "LetterTable": "DeadLetterTable",
    "LettersWriter": "DeadLetterWriter",
    # Pipelines and streams.
    "ClusterView": "ClusterSnapshot",
    "PartitionView": "PartitionSnapshot",
    "last_view": "last_snapshot",
    "Patience": "RetryPolicy",
    "patience": "retry_policy",
    "Written": "WrittenBatch",
    "Writing": "PendingWrite",
    "BegunBatch": "PlannedBatch",
    "BatchAhead": "PrefetchedBatch",
    "Ceiling": "AdaptiveLimit",
    "progress_of_newcomer": "progress_of_new_store",
    "Choice": "ReplaySelection",
    "GuardedStream": "FailStopDStream",
    "believed": "confirm_loss",
    "reach": "fault_point",
    "Given": "RawOptions",
    "Binding": "Route",
    "bindings": "routes",
    "tell": "report_progress",
    "look": "check_fenced",
    "BatchOutcomes": "BatchStatuses",
    "doubtful": "undetermined",
    "trust": "settle",
    "refusals": "auth_errors",
    "few_rows": "inline_rows",
    "second_look": "confirm_loss",
    "error_notes": "transport",
    "_Written": "_CommitMessage",
}


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Names that the code gives, uses or asks for, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.rpartition(".")[2], node.lineno


@cache
def modules() -> list[tuple[str, ast.Module]]:
    """The package's files, read once for all tests."""
    return [(str(path.relative_to(SOURCE)), ast.parse(path.read_text())) for path in sorted(SOURCE.rglob("*.py"))]


@cache
def identifiers_of_the_package() -> list[tuple[str, str, int]]:
    """All of them, each with its file and line."""
    return [(path, name, line) for path, tree in modules() for name, line in identifiers(tree)]


@pytest.mark.parametrize("line", ["class Desk: ...", "x.is_left()", "def f(patience): ...", "from a import reach"])
def test_a_word_of_before_is_found_wherever_it_stands(line: str) -> None:
    assert [name for name, _ in identifiers(ast.parse(line)) if name in REPLACED]


def test_no_word_of_before_has_come_back() -> None:
    messages = [
        f"{path}:{line}: {name} is called {REPLACED[name]} here"
        for path, name, line in identifiers_of_the_package()
        if name in REPLACED
    ]
    assert not messages, "\n".join(messages)


#: Words that are no part of a name, and what stands in their place.
PARTS = {
    "aims": "destinations",
    "doubt": "undetermined",
    "doubtful": "undetermined",
    "newcomer": "new store",
    "patience": "retry",
    "verdict": "outcome",
}


def test_no_name_has_a_word_of_before_in_it() -> None:
    messages = [
        f"{path}:{line}: {name} says {part}, which is {PARTS[part]} here"
        for path, name, line in identifiers_of_the_package()
        for part in re.findall(r"[a-z]+", name.lower())
        if part in PARTS
    ]
    assert not messages, "\n".join(messages)


def test_letters_are_dead_letters_but_in_what_a_replay_reports() -> None:
    """Letters of the alphabet are not plural there."""
    messages = [
        f"{path}:{line}: {name}"
        for path, name, line in identifiers_of_the_package()
        if re.search(r"(?<!dead_)(?<!dead)letters", name.lower()) and Path(path).parent.name not in ("replay", "cli")
    ]
    assert not messages, "\n".join(messages)


#: They say nothing of what a name stands for.
EMPTY = {"found", "one", "place", "said", "some"}
#: Kept: programs read the attribute ``found`` of errors, and ``place``, a verb, chooses an executor for each range.
KEPT_NAMES = {("src/directkafka/errors/__init__.py", "found"), ("src/directkafka/planning/placement.py", "place")}


FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def bare(name: str) -> str:
    """Without underscores around it, a constant in small letters; a type is a word of its own."""
    stripped = name.strip("_")
    return stripped.lower() if stripped.isupper() else stripped


def names_given(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Variables, constants, parameters, fields of classes, attributes, functions and imports, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, node.lineno
        elif isinstance(node, ast.MatchAs | ast.MatchStar | ast.ExceptHandler | FUNCTION) and node.name:
            yield node.name, node.lineno


@pytest.mark.parametrize(
    "line",
    [
        "one = 1",
        "[one for one in []]",
        "def f(place): ...",
        "match 1:\n case found: ...",
        "a._said = 1",
        "def some(): ...",
    ],
)
def test_an_empty_name_is_found_wherever_it_is_given(line: str) -> None:
    assert {bare(name) for name, _ in names_given(ast.parse(line))} & EMPTY


def has_empty_name(code: CodeType) -> bool:
    """Whether a program gives or uses such a name; quicker than a walk, which most files can do without."""
    names = (code.co_name, *code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars)
    below = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return not EMPTY.isdisjoint(map(bare, names)) or any(map(has_empty_name, below))


def test_a_name_says_what_it_stands_for() -> None:
    texts = [
        (str(path.relative_to(ROOT)), path.read_text())
        for folder in ("src", *OTHER_FOLDERS)
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]
    suspects = [(path, text) for path, text in texts if has_empty_name(compile(text, path, "exec"))]
    empty = [
        f"{path}:{line}: {name}: task, range, partition, sink, or what does it hold?"
        for path, text in suspects
        for name, line in names_given(ast.parse(text))
        if bare(name) in EMPTY and (path, name) not in KEPT_NAMES
    ]
    assert suspects
    assert not empty, "\n".join(empty)


def test_a_word_is_not_replaced_by_one_that_was_replaced() -> None:
    assert set(REPLACED.values()) & set(REPLACED) == set()
