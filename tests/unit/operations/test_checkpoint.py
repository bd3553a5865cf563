"""What a checkpoint holds, out of files as Spark writes them; of a real query: ``real/cli/test_checkpoint_command``."""

from __future__ import annotations

from pathlib import Path

import pytest

from directkafka.errors import EnvironmentFaultError, OptionError
from directkafka.operations.checkpoint import ArrowFiles, _without_secrets, look_at_checkpoint
from directkafka.pipeline.structured.checkpoint import Checkpoint

METADATA = '{"batchTimestampMs":1700000000000}'


def written(folder: Path, **files: str) -> Checkpoint:
    """A checkpoint with these files; ``__`` stands for a slash."""
    for name, text in files.items():
        file = folder / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Checkpoint(ArrowFiles(str(folder)))


def two_batches(folder: Path) -> Checkpoint:
    return written(
        folder,
        metadata='{"id":"mine"}',
        offsets__3=f'v1\n{METADATA}\n{{"air":{{"0":5}}}}\n-',
        offsets__4=f'v1\n{METADATA}\n{{"air":{{"0":9,"1":3}}}}\n{{"path":"a"}}',
        commits__3="v1\n{}",
    )


def test_the_newest_batch_is_shown_with_where_it_begins_and_whether_it_is_done(tmp_path: Path) -> None:
    shared = {"batch": 4, "committed": False, "planned_at": "2023-11-14T22:13:20+00:00", "source": "0", "topic": "air"}
    assert [planned_range.as_record() for planned_range in look_at_checkpoint(two_batches(tmp_path))] == [
        shared | {"partition": 0, "from_offset": 5, "until_offset": 9},
        shared | {"partition": 1, "from_offset": None, "until_offset": 3},
    ]


def test_all_batches_that_are_kept_are_shown_on_wish(tmp_path: Path) -> None:
    planned_ranges = look_at_checkpoint(two_batches(tmp_path), every_batch=True)
    assert [
        (planned_range.batch, planned_range.is_committed, planned_range.partition) for planned_range in planned_ranges
    ] == [
        (3, True, 0),
        (4, False, 0),
        (4, False, 1),
    ]


def test_a_query_that_has_planned_nothing_has_no_offsets(tmp_path: Path) -> None:
    assert look_at_checkpoint(written(tmp_path, metadata='{"id":"mine"}')) == []


@pytest.mark.parametrize("files", [{}, {"offsets__0": "v1\n{}"}])
def test_a_folder_without_a_query_is_no_checkpoint(tmp_path: Path, files: dict[str, str]) -> None:
    with pytest.raises(EnvironmentFaultError, match="is no checkpoint of Structured Streaming"):
        look_at_checkpoint(written(tmp_path, **files))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name":"a"}', "[" * 200_000])
def test_metadata_that_spark_did_not_write_is_told_with_its_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(EnvironmentFaultError, match="metadata is not what Spark writes"):
        look_at_checkpoint(written(tmp_path, metadata=text))


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_bytes(b"\xff\xfe")
    with pytest.raises(EnvironmentFaultError, match="cannot be read"):
        look_at_checkpoint(Checkpoint(ArrowFiles(str(tmp_path))))


@pytest.mark.parametrize("location", ["ftp://somewhere/checkpoint", "a\x00b"])
def test_a_place_that_arrow_cannot_reach_is_refused(location: str) -> None:
    with pytest.raises(OptionError, match="PATH"):
        ArrowFiles(location)


@pytest.mark.parametrize(
    "location", ["ftp://key:secret@host/x?token=hidden", "s3://key:secret@/x", "ftp://key:sec/secret@bucket/x"]
)
def test_the_keys_in_an_address_are_in_no_message(location: str) -> None:
    with pytest.raises(OptionError) as caught:
        ArrowFiles(location)
    assert not [word for word in ("secret", "key", "hidden") if word in str(caught.value)]


def test_a_port_is_no_login_though_an_at_sign_follows() -> None:
    assert _without_secrets("hdfs://name:8020/user/a@b") == ("hdfs://name:8020/user/a@b", ())
    for secret in ("se/cret", "12/cret", "se?cret", "se/cr?et"):
        assert _without_secrets(f"s3://key:{secret}@bucket/x?region=y")[0] == "s3://bucket/x"
