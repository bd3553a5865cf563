"""What a process imports by the public names that it uses, each shown in a new process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
import directkafka
for name in sys.argv[1:]:
    getattr(directkafka, name)
print(json.dumps(sorted(name for name in sys.modules)))
"""

#: Slow to import, and of use to tasks alone or to nobody.
HEAVY = {"numba", "llvmlite", "pandas", "pyspark.sql.datasource"}


def imported_by(*names: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *names], capture_output=True, text=True, timeout=60, check=True
    )
    return set(json.loads(done.stdout))


def test_the_package_imports_neither_spark_nor_arrow_nor_kafka_s_client() -> None:
    modules = imported_by()
    assert "directkafka.version" in modules
    assert modules & {"pyspark", "pyarrow", "numpy", "kafka", "pydantic", *HEAVY} == set()


@pytest.mark.parametrize(
    "names",
    [
        ("Pipeline", "PostgresSink", "MySQLSink", "SQLiteSink", "DuckDBSink", "ParquetSink", "DeltaSink"),
        ("create_rdd", "create_dataframe", "create_direct_stream", "lag"),
    ],
    ids=["pipelines", "rdds"],
)
def test_a_driver_imports_nothing_that_only_tasks_need(names: tuple[str, ...]) -> None:
    modules = imported_by(*names)
    assert {"pyspark", "pyarrow", "directkafka.spark.read_task"} <= modules
    assert modules & HEAVY == set()


def test_a_connection_imports_nothing_that_only_some_logins_need() -> None:
    program = "import json, sys, directkafka.kafka.network.connections; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    modules = set(json.loads(done.stdout))
    assert "directkafka.options.config_providers" in modules
    of_logins = {"javaproperties", "directkafka.kafka.network.token_endpoint", "botocore", "azure", "google.auth"}
    assert modules & of_logins == set()
