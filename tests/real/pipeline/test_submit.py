"""Settings of a pipeline's own session under ``spark-submit``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from directkafka.testing.java import use_java

pytestmark = [pytest.mark.real, pytest.mark.slow]

PROGRAM = """
from directkafka.pipeline.execution.session import session_for

session = session_for("numbers", master="local[7]", conf={"spark.ui.enabled": False})
names = ("spark.master", "spark.sql.session.timeZone", "spark.ui.showConsoleProgress", "spark.ui.enabled")
print("found", *(session.conf.get(name) for name in names))
session.stop()
"""


def test_what_spark_submit_was_told_is_left_and_the_rest_is_set(tmp_path: Path) -> None:
    use_java()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[1]"]
    found = subprocess.run(
        [*command, "--conf", "spark.sql.session.timeZone=Asia/Tokyo", str(program)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert "found local[1] Asia/Tokyo false false" in found.stdout
