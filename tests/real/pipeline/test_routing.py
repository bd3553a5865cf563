"""One pipeline, many topics, many tables: rows say where they go, and all tables change together."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.chaos.pipelines import PARTITIONS, produce_numbers
from tests.real.pipeline.conftest import COUNT, World

from directkafka import Pipeline
from directkafka.errors import OptionError, RowRejectedError
from directkafka.pipeline.verify import verify

pytestmark = pytest.mark.real

FILE = """
[pipeline]
name = "routes"
trigger = "available-now"

[source]
"kafka.bootstrap.servers" = "{kafka}"
subscribe = "{topics}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = "50"

[transform]
{transform}

[[sink]]
type = "postgres"
dsn = "{dsn}"
table_from = "kind"
tables = {tables}

[[sink]]
type = "sqlite"
path = "{path}"
table_from = "kind"
tables = {tables}
mode = "upsert"
key = ["topic", "partition", "offset"]
"""
JOB = """
import pyarrow as pa
import pyarrow.compute as pc


def rows(batch):
    names = ["topic", "partition", "offset"]
    number = batch.column("value").cast(pa.string()).cast(pa.int64())
    kind = pc.if_else(pc.equal(pc.bit_wise_and(number, 1), 0), "even", "odd")
    columns = {name: batch.column(name) for name in names}
    return pa.RecordBatch.from_pydict({**columns, "number": number, "kind": kind})
"""
QUERY = """sql = '''
    WITH numbers AS (SELECT topic, partition, offset, CAST(CAST(value AS STRING) AS BIGINT) AS number FROM source)
    SELECT *, CASE number % 2 WHEN 0 THEN "even" ELSE "odd" END AS kind FROM numbers
'''"""


def file_of(folder: Path, world: World, topics: str, transform: str, tables: str = '["even", "odd"]') -> Path:
    (folder / "tables_job.py").write_text(JOB)
    file = folder / "routes.toml"
    file.write_text(
        FILE.format(
            kafka=world.kafka, dsn=world.dsn, topics=topics, transform=transform, tables=tables, path=folder / "air.db"
        )
    )
    return file


@pytest.mark.parametrize(
    "transform", [pytest.param(QUERY, marks=pytest.mark.slow), 'arrow = "tables_job:rows"'], ids=["sql", "arrow"]
)
def test_rows_of_two_topics_go_into_the_tables_that_they_name(
    transform: str, world: World, create_topic: Callable[..., str], tmp_path: Path
) -> None:
    other = create_topic(partitions=PARTITIONS)
    produce_numbers(world.kafka, other, 40, first=COUNT)
    pipeline = Pipeline.from_toml(file_of(tmp_path, world, f"{world.topic},{other}", transform))
    pipeline.check()
    pipeline.run()
    wanted = {"even": list(range(0, COUNT + 40, 2)), "odd": list(range(1, COUNT + 40, 2))}
    with closing(sqlite3.connect(tmp_path / "air.db")) as connection:
        for table, numbers in wanted.items():
            query = f"SELECT number FROM {table} ORDER BY number"
            assert [number for (number,) in world.query(query)] == numbers
            assert [number for (number,) in connection.execute(query)] == numbers
    [totals] = world.query("SELECT total_rows FROM directkafka_ledger WHERE batch_id >= 0")[0]
    assert totals == {"even": len(wanted["even"]), "odd": len(wanted["odd"])}
    columns = world.query("SELECT column_name FROM information_schema.columns WHERE table_name = 'even'")
    assert ("kind",) not in columns
    findings = verify(pipeline)
    assert len(findings) == 4
    assert all(finding.is_right for finding in findings), findings


def test_a_row_for_a_table_that_is_not_allowed_stops_the_pipeline_and_none_has_changed(
    world: World, tmp_path: Path
) -> None:
    file = file_of(tmp_path, world, world.topic, QUERY, '["odd"]')
    with pytest.raises(RowRejectedError, match=r"column kind has 'even', not in tables \(odd\)"):
        Pipeline.from_toml(file).run()
    assert world.query("SELECT * FROM odd") == []


def test_a_section_names_one_table_or_says_where_names_come_from(world: World, tmp_path: Path) -> None:
    file = file_of(tmp_path, world, world.topic, QUERY)
    text = file.read_text()
    changes = {
        'table = "odd"\ntable_from = "kind"': "option 'sink.0.table' ",
        'tables_from = "kind"': "sink.0.tables_from'",
    }
    for line, told in changes.items():
        file.write_text(text.replace('table_from = "kind"', line, 1))
        with pytest.raises(OptionError) as raised:
            Pipeline.from_toml(file)
        assert told in str(raised.value)
    file.write_text(text.replace('tables = ["even", "odd"]', "tables = []", 1))
    with pytest.raises(OptionError, match="expected a list of the tables that rows may name"):
        Pipeline.from_toml(file)
