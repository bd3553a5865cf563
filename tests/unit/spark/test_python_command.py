"""Which Python Spark runs for the format, and what that command makes of its arguments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest

from directkafka.spark.python_command import NAME, command_as_python
from directkafka.spark.worker_daemon import MODULE as MODULE_OF_DAEMON
from directkafka.spark.worker_imports import without_zip

COMMAND = Path(sys.executable).with_name(NAME)
WORLD = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
#: Prints what ``python -m`` gives a module.
MODULE = "import json, sys; print(json.dumps([__name__, sys.argv[1:], sys.path]))"


def context_of(master: str, python: str = sys.executable) -> Any:
    return SimpleNamespace(master=master, pythonExec=python)


def run(*arguments: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [COMMAND, *arguments],
        cwd=folder,
        env={**WORLD, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("master", ["local[2]", "local[*]", "local-cluster[2,1,1024]"])
def test_spark_runs_the_command_for_what_it_is_given_in_the_block(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    context = context_of(master)
    with suppress(ConnectionError), command_as_python(context):
        assert context.pythonExec == str(COMMAND)
        raise ConnectionError("the JVM is gone")
    assert context.pythonExec == sys.executable


def test_where_imports_may_not_be_forked_spark_runs_what_it_would() -> None:
    """tests/unit/spark/test_settings.py has the places."""
    context = context_of("spark://host:7077")
    with command_as_python(context):
        assert context.pythonExec == sys.executable


def test_without_the_command_spark_runs_what_it_would(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / name))
    context = context_of("local[2]")
    with command_as_python(context):
        assert context.pythonExec == sys.executable


@pytest.mark.parametrize("safe_path", ["", "1"], ids=["usual", "safe path"])
def test_a_module_runs_as_python_runs_it_but_for_the_zip_file_of_pyspark(safe_path: str, tmp_path: Path) -> None:
    """A zip file of the installed package's own, as pip puts it there."""
    (tmp_path / "shown.py").write_text(MODULE)
    zip_file = str(Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip")
    world = {"PYTHONPATH": os.pathsep.join([zip_file, str(tmp_path)]), "PYTHONSAFEPATH": safe_path}
    ours = json.loads(run("-m", "shown", "first", "-second", folder=tmp_path, **world))
    python = [sys.executable, "-m", "shown", "first", "-second"]
    own = json.loads(subprocess.check_output(python, cwd=tmp_path, env={**os.environ, **world}))
    assert ours[:2] == own[:2] == ["__main__", ["first", "-second"]]
    assert zip_file in own[2]
    assert ours[2] == without_zip(own[2])


def test_a_module_of_a_spark_that_pip_did_not_install_comes_from_its_zip_file(tmp_path: Path) -> None:
    zip_file = tmp_path / "pyspark.zip"
    with zipfile.ZipFile(zip_file, "w") as archive:
        archive.writestr("in_zip.py", "print(__file__)")
    assert run("-m", "in_zip", folder=tmp_path, PYTHONPATH=str(zip_file)) == f"{zip_file}/in_zip.py\n"


@pytest.mark.parametrize(("given", "seen"), [({}, "1"), ({"OMP_NUM_THREADS": "4"}, "4")], ids=["unset", "set"])
def test_numpy_starts_no_threads_in_a_daemon_before_it_forks(given: dict[str, str], seen: str, tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    (tmp_path / "pyspark" / "daemon.py").write_text("import os; print(os.environ['OMP_NUM_THREADS'])")
    assert run("-m", "pyspark.daemon", "a.worker", folder=tmp_path, PYTHONPATH=str(tmp_path), **given) == f"{seen}\n"


@pytest.mark.parametrize("daemon", ["pyspark.daemon", MODULE_OF_DAEMON, "directkafka.sources.worker_daemon"])
def test_every_daemon_that_may_be_named_runs_without_a_warning(daemon: str, tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    (tmp_path / "pyspark" / "daemon.py").write_text("import sys; print(__name__, sys.argv[1:])")
    world = {"PYTHONPATH": str(tmp_path), "PYTHONWARNINGS": "error"}
    assert run("-m", daemon, "a.worker", folder=tmp_path, **world) == "__main__ ['a.worker']\n"


def test_all_else_is_python_s(tmp_path: Path) -> None:
    assert run("-c", "import sys; print(sys.argv)", "x", folder=tmp_path) == "['-c', 'x']\n"
    assert run("--version", folder=tmp_path) == f"Python {sys.version.split()[0]}\n"
