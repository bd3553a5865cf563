"""An SQLite file that cannot be opened, or be closed well, is let go all the same."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import adbc_driver_manager
import pytest

from directkafka.sinks.embedded.file.sqlite_connection import SQLiteConnection, opened

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not tell open files")


def handles(folder: Path) -> list[str]:
    """This process's open files in a folder."""
    paths = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one by which the folder was read
            paths.append(os.readlink(descriptor))
    return [path for path in paths if path.startswith(str(folder))]


def test_a_file_that_is_no_database_does_not_stay_open(tmp_path: Path) -> None:
    path = tmp_path / "air"
    path.write_bytes(b"no database" * 100)
    for _ in range(3):
        with pytest.raises(adbc_driver_manager.Error, match="not a database"):
            opened(str(path), lock_timeout_s=0.1, durable=True)
    assert handles(tmp_path) == []


def test_a_file_whose_connection_does_not_close_well_does_not_stay_open(tmp_path: Path) -> None:
    class Failing:
        """A connection whose closing fails behind its work."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def close(self) -> None:
            self._inner.close()
            raise OSError("the disk is full")

    connection = SQLiteConnection(str(tmp_path / "air"))
    connection.rows("CREATE TABLE flights (id BIGINT)")
    assert handles(tmp_path)
    connection._connection = Failing(connection._connection)  # type: ignore[assignment]
    with pytest.raises(OSError, match="full"):
        connection.close()
    assert handles(tmp_path) == []


def test_a_column_that_begins_with_many_nulls_is_read(tmp_path: Path) -> None:
    connection = opened(str(tmp_path / "air"), lock_timeout_s=0.1, durable=True)
    connection.rows("CREATE TABLE letters (key BLOB)")
    connection.rows(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999) "
        "INSERT INTO letters SELECT NULL FROM n"
    )
    connection.rows("INSERT INTO letters VALUES (x'61')")
    keys = [key for (key,) in connection.rows("SELECT key FROM letters")]
    connection.close()
    assert keys == [*[None] * 9999, b"a"]
