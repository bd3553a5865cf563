"""The format ``directkafka``: how a session knows it, and what Spark makes of its options.

Spark makes these objects anew in several Python processes: in one for the options, in another to plan a batch read, in
a third for a stream's offsets, which lives as long as the query, and on executors to ``read``. State is therefore kept
only where it pays: a stream reader keeps its connections. The readers are imported only where they are made, so that
the process that asks for the format's schema starts without Kafka's client and Arrow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from directkafka.errors import OptionError
from directkafka.errors.transport import Notes
from directkafka.options.payloads import Payloads, check_dead_letters, in_time_zone, read_payloads
from directkafka.options.producer import SinkOptions
from directkafka.options.read_policy import read_columns
from directkafka.options.source import SourceOptions, read_strategy
from directkafka.options.spec import RawOptions
from directkafka.payloads.reader_schemas import topics_of, with_reader_schemas
from directkafka.python_worker import freeze_imports, log_to_stderr
from directkafka.spark.schema import check_written, record_columns, record_schema

if TYPE_CHECKING:
    from directkafka.payloads.encode import ColumnEncoding

#: Options of a streaming write that are Spark's, and handed to the sink too.
_SPARK_S_OWN = {"checkpointlocation", "path", "queryname"}


class DirectKafkaDataSource(DataSource):
    """Kafka as a Spark data source; register it with ``directkafka.register(spark)``.

    Attributes:
        notes: sign errors on their way to the driver, which accepts only those of :meth:`of_this_driver`'s class.
    """

    notes: ClassVar[Notes] = Notes.of_this_process()
    #: The session's, when it was told of the format: the processes that plan a read cannot ask it.
    time_zone: ClassVar[str] = "UTC"

    @classmethod
    def of_this_driver(cls, time_zone: str = "UTC") -> type[DirectKafkaDataSource]:
        """The same class with this process's key in it, for Spark to hand to its processes.

        Args:
            time_zone: the session's.

        A class that can be imported is pickled by its name alone: a process would import it, and make a key of its own.
        The class made here is not the one that its module has under that name, so its attributes are pickled too.
        """
        return type(
            cls.__name__, (cls,), {"__doc__": cls.__doc__, "notes": Notes.of_this_process(), "time_zone": time_zone}
        )

    #: What values and keys are, where :meth:`schema` has asked a registry; Spark pickles this object after that.
    _looked_up: Payloads = ()

    #: Whether a listener of the session commits to the group of ``commitToGroup`` when a batch is done.
    _group_has_listener = False

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "directkafka"

    def schema(self) -> str:
        """Spark's seven columns, and ``headers`` when the option asks for them."""
        freeze_imports("plan")
        given = RawOptions.read(dict(self.options))
        payloads = read_payloads(given)
        columns = read_columns(given, payloads)
        check_dead_letters(payloads, columns)
        if any(payload.registry is not None for payload in payloads):
            payloads = self._looked_up = with_reader_schemas(payloads, topics_of(read_strategy(given)))
        return record_schema(columns, payloads)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        from directkafka.spark.datasource.readers import BatchReader

        log_to_stderr()
        options = self._source_options(schema, streaming=False)
        return BatchReader(options, self.notes)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A stream."""
        from directkafka.spark.datasource.readers import StreamReader

        log_to_stderr()
        options = self._source_options(schema, streaming=True)
        return StreamReader(options, self.notes, group_has_listener=self._group_has_listener)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch write."""
        from directkafka.spark.datasource.writers import BatchWriter

        if overwrite:
            reason = "overwrite is not possible: what is in a topic stays; use append"
            raise OptionError(option="mode", reason=reason)
        options = self._sink_options(schema)
        return BatchWriter(replace(options, payloads=()), self.notes, _encodings(options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """The sink of a stream, in any output mode: each row that a batch gives is written."""
        from directkafka.spark.datasource.writers import StreamWriter

        options = self._sink_options(schema)
        return StreamWriter(replace(options, payloads=()), self.notes, _encodings(options, schema))

    def _source_options(self, schema: StructType, *, streaming: bool) -> SourceOptions:
        options = SourceOptions.parse(dict(self.options), streaming=streaming)
        payloads = self._looked_up or with_reader_schemas(options.payloads, topics_of(options.strategy))
        options = replace(options, payloads=in_time_zone(payloads, self.time_zone))
        _refuse_user_schema(schema, options)
        return options

    def _sink_options(self, schema: StructType) -> SinkOptions:
        log_to_stderr()
        # Spark hands over options of its own with a stream's.
        given = {name: text for name, text in self.options.items() if name.lower() not in _SPARK_S_OWN}
        options = SinkOptions.parse(given)
        check_written({field.name: field.dataType.simpleString() for field in schema.fields}, options)
        return options


class ListenedDataSource(DirectKafkaDataSource):
    """The data source for a session with a listener; this class says so to Spark's processes, which have no session."""

    _group_has_listener = True


def _encodings(options: SinkOptions, schema: StructType) -> tuple[ColumnEncoding, ...]:
    """What values and keys become, checked against the rows' types; each job asks the registry here."""
    if not options.payloads:
        return ()
    from pyspark.sql.pandas.types import to_arrow_schema

    from directkafka.payloads.encode import column_encodings, encoding_problems

    encodings = column_encodings(options.payloads, options.topic, may_register=False)
    if problems := encoding_problems(to_arrow_schema(schema, timezone="UTC"), encodings):
        raise OptionError(option=f"{encodings[0].column}.format", reason="; ".join(problems))
    return column_encodings(options.payloads, options.topic)


def _refuse_user_schema(schema: StructType, options: SourceOptions) -> None:
    given = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    fixed = record_schema(options.columns, options.payloads)
    if given != record_columns(options.columns, options.payloads):
        raise OptionError(
            option="schema",
            reason=f"Kafka records have the columns {fixed}; say with value.format and value.schema what a value is, "
            f"instead of giving a schema with {', '.join(' '.join(option) for option in given)}",
        )


def register(spark: SparkSession) -> None:
    """Make the format ``directkafka`` work: ``spark.read``, ``spark.readStream``, ``df.write`` and ``df.writeStream``.

    With a ``local`` master on Linux, Spark runs the format's Python processes by the command ``directkafka-python``.

    Args:
        spark: the session; each further session of the application needs its own call. The session becomes the
            thread's active one, where Spark looks up the format of a write; a second call only does this again.
    """
    from directkafka.spark.datasource.source import DirectKafkaDataSource, ListenedDataSource
    from directkafka.spark.python_command import command_as_python

    java_session: Any = getattr(spark, "_jsparkSession", None)
    if java_session is not None:
        # Spark asks the thread's active session: whether the name is taken, and what it stands for in a write.
        jvm: Any = spark._jvm
        jvm.SparkSession.setActiveSession(java_session)
        if java_session.sessionState().dataSourceManager().dataSourceExists(DirectKafkaDataSource.name()):
            return
        source = ListenedDataSource if _follow_queries(spark) else DirectKafkaDataSource
        with command_as_python(spark.sparkContext):
            spark.dataSource.register(source.of_this_driver(_time_zone(spark)))
        return
    spark.dataSource.register(DirectKafkaDataSource.of_this_driver(_time_zone(spark)))


def _time_zone(spark: SparkSession) -> str:
    return str(spark.conf.get("spark.sql.session.timeZone"))


def _follow_queries(spark: SparkSession) -> bool:
    # Not at the top: a program under Spark Connect has no JVM to ask.
    from directkafka.spark.datasource.query_groups import follow_queries

    return follow_queries(spark)
