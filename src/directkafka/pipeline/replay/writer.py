"""Step 3 of a replay: a batch of dead letters through the transform into rows that nobody sees yet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from directkafka.errors import OptionError
from directkafka.options.payloads import Payloads, decodes, undecoded_columns
from directkafka.options.source import SourceOptions
from directkafka.payloads.decode import DecodeRecords
from directkafka.pipeline.execution.batch_writer import BatchWriter, WrittenBatch
from directkafka.pipeline.execution.rejection import DEAD_LETTERS
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.execution.transform import Transform, is_per_batch
from directkafka.pipeline.run_writers import RunWriters
from directkafka.sinks.api import BatchAttempt
from directkafka.sinks.dead_letters import REPLAYS
from directkafka.sinks.dead_letters.replay import DeadLetterReplaySink
from directkafka.sinks.dead_letters.table import dead_letter_table
from directkafka.spark.dataframe import map_in_arrow
from directkafka.spark.schema import record_columns, record_schema


class DeadLetterWriter:
    """Turns dead letters into written rows, batch after batch.

    Args:
        session: the pipeline's own session.
        transform: what becomes of the records.
        routes: which output goes where.
        source: the pipeline's source.
        settled: the sink of what is rejected again, one of the routes.

    Attributes:
        writers: what becomes of their rows.
    """

    def __init__(
        self,
        session: SparkSession,
        transform: Transform,
        routes: Sequence[Route],
        *,
        source: SourceOptions,
        settled: DeadLetterReplaySink,
    ) -> None:
        self.routes = tuple(routes)
        self.settled = settled
        self._frame_of = partial(dead_letters_frame, session, source=source)
        none = dead_letter_table(("topic", "partition", "offset", "value"))

        def make(payloads: Payloads) -> BatchWriter:
            return BatchWriter(
                self._frame_of(none, payloads=payloads), transform, routes, hidden=(REPLAYS,), payloads=payloads
            )

        self.writers = RunWriters(make(source.payloads), payloads=source.payloads, make=make)

    def write_dead_letters(self, name: BatchAttempt, dead_letters: pa.Table, rows: BatchWriter) -> WrittenBatch:
        """Transform and write one batch of dead letters, as the source gave them, and how many replays have tried them.

        All are read: they are with the driver, and are persisted for two outputs at least.

        Args:
            name: the try of the batch.
            dead_letters: as they are in their table.
            rows: one of :attr:`writers`.

        Raises:
            TransformError: the transform failed, or gives other columns than when it was checked.
            DirectKafkaError: what a task met, with its fields.
        """
        count = self.settled.expected = dead_letters.num_rows
        stores = {route.sink.store.identity for route in self.routes}
        frame = self._frame_of(dead_letters, payloads=rows.payloads)
        return rows.write_frame(name, frame, stores=stores, read_check=lambda: count, ranges=())

    def check_stateless(self) -> None:
        """Refuse a transform whose state is in a checkpoint, where dead letters cannot reach it.

        Raises:
            OptionError: it groups, deduplicates or has windows.
        """
        for name, output in self.writers.own.plans().items():
            if name != DEAD_LETTERS and is_per_batch(output):
                raise OptionError(
                    option="engine",
                    reason=f"output {name!r} groups or deduplicates, and under the structured engine its state is in "
                    "the checkpoint, where a replay cannot go on with it: put the records of the dead letters into the "
                    "topic again",
                )


def dead_letters_frame(
    session: SparkSession, dead_letters: pa.Table, *, source: SourceOptions, payloads: Payloads
) -> DataFrame:
    """Dead letters as a source's records. Nothing is read yet.

    Args:
        session: where the DataFrame lives.
        dead_letters: see :func:`~directkafka.sinks.dead_letters.table.dead_letter_table`.
        source: the pipeline's source; what the dead letters do not have of its columns is null.
        payloads: what values and keys are.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    schema: StructType = from_arrow_schema(dead_letters.schema)
    frame = session.createDataFrame(dead_letters, schema)
    replays = f.col(REPLAYS) + 1 if REPLAYS in dead_letters.column_names else f.lit(1)
    payloads = tuple(payload for payload in payloads if decodes(payload, source.columns))
    names = undecoded_columns(source.columns, payloads)
    records = frame.select(
        *(_column(name, kind, dead_letters.column_names) for name, kind in record_columns(names)),
        replays.cast("int").alias(REPLAYS),
    )
    if not payloads:
        return records
    decoded = f"{record_schema(source.columns, payloads)}, {REPLAYS} int"
    return map_in_arrow(records, DecodeRecords(payloads, (*source.columns, REPLAYS)), decoded)


def _column(name: str, kind: str, column_names: Sequence[str]) -> Column:
    if name not in column_names:
        return f.lit(None).cast(kind).alias(name)
    column = f.col(name)
    return f.from_json(column, kind).alias(name) if name == "headers" else column
