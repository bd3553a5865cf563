"""What a process imports by the public names that it uses, each shown in a new process."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "directkafka"

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


def test_the_process_that_asks_for_a_format_s_schema_imports_neither_arrow_nor_kafka_s_client() -> None:
    """Spark starts one for each read, and another one for its plan."""
    program = """
import json, sys
from directkafka.spark.datasource.source import DirectKafkaDataSource
fields = DirectKafkaDataSource({"kafka.bootstrap.servers": "h:1", "subscribe": "t", "value.format": "string"}).schema()
print(json.dumps([fields, *sorted(sys.modules)]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    fields, *modules = json.loads(done.stdout)
    assert "value string" in fields
    assert set(modules) & {"pyarrow", "numpy", "kafka", "pydantic", "numba", "llvmlite", "pandas"} == set()


def test_a_connection_imports_nothing_that_only_some_logins_need() -> None:
    program = "import json, sys, directkafka.kafka.network.connections; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    modules = set(json.loads(done.stdout))
    assert "directkafka.options.config_providers" in modules
    of_logins = {"javaproperties", "directkafka.kafka.network.token_endpoint", "botocore", "azure", "google.auth"}
    assert modules & of_logins == set()


def imports_of_modules() -> dict[str, set[str]]:
    """What each module imports of this package, also inside functions and for types alone."""
    names = {
        ".".join(("directkafka", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in SOURCE.rglob("*.py")
    }
    imports: dict[str, set[str]] = {}
    for module, path in names.items():
        asked = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                asked |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                asked |= {f"{node.module}.{alias.name}" for alias in node.names}
        parents = {name if name in names else name.rpartition(".")[0] for name in asked}
        imports[module] = (parents & names.keys()) - {module}
    return imports


def test_no_module_imports_itself_by_way_of_others() -> None:
    imports = imports_of_modules()
    in_order = list(TopologicalSorter(imports).static_order())  # CycleError names the circle
    assert set(in_order) == imports.keys()
