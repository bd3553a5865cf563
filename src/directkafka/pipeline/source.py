"""The source of a pipeline: its options as they are parsed, and as Spark is given them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from pyspark.sql import SparkSession

from directkafka.errors import OptionError
from directkafka.options.payloads import AS_IT_CAME, UNREAD, check_dead_letters, in_time_zone, kept_columns
from directkafka.options.read_policy import COLUMNS
from directkafka.options.source import SourceOptions
from directkafka.pipeline.execution.rejection import DEAD_LETTERS
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.file import SOURCE_DEFAULTS


@dataclass(frozen=True, slots=True)
class PipelineSource:
    """What a pipeline reads.

    Attributes:
        options: as parsed; with the columns that dead letters need beside decoded payloads.
        given: the same for Spark's format ``directkafka``.
    """

    options: SourceOptions
    given: Mapping[str, str]

    @classmethod
    def of(cls, given: Mapping[str, str], routes: Sequence[Route]) -> Self:
        """Read the options of a source.

        Args:
            given: as the user gave them.
            routes: the pipeline's.

        Raises:
            OptionError: an option is wrong, or records that cannot be read are to become dead letters, and there is no
                place for these.
        """
        options = SourceOptions.parse(given, streaming=True, defaults=SOURCE_DEFAULTS)
        columns = options.columns
        if own := sorted({*AS_IT_CAME.values(), UNREAD} & set(columns)):
            raise OptionError(option=COLUMNS.name, reason=f"names {own[0]}, a column of the pipeline's own")
        if any(route.output == DEAD_LETTERS for route in routes):
            columns += tuple(kept_columns(columns, options.payloads))
        check_dead_letters(options.payloads, columns)
        options = replace(options, columns=columns)
        settled = options.columns_given()
        # The names of options have no case.
        others = {name: text for name, text in given.items() if name.lower() not in settled}
        names = {name.lower() for name in others}
        defaults = {name: text for name, text in SOURCE_DEFAULTS.items() if name not in names}
        return cls(options, defaults | others | settled)

    def in_session(self, session: SparkSession) -> SourceOptions:
        """The options, with the session's time zone for payloads that have no other."""
        zone = str(session.conf.get("spark.sql.session.timeZone"))
        return replace(self.options, payloads=in_time_zone(self.options.payloads, zone))
