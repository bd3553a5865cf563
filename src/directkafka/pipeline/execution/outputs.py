"""Outputs of a transform as the sinks want them: what it rejects is taken out, and each sink has its own.

Apart from the routes (:mod:`directkafka.pipeline.execution.routes`), which are known without Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import DataFrame, SparkSession

from directkafka.errors import OptionError
from directkafka.pipeline.execution.dead_letters import LookOnly, Records, Work, divert
from directkafka.pipeline.execution.rejection import DEAD_LETTERS
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.execution.transform import Transform, apply_transform


def outputs_of(
    transform: Transform,
    source: DataFrame,
    session: SparkSession,
    routes: Sequence[Route],
    *,
    work: Work | None = None,
    hidden: Collection[str] = (),
) -> dict[str, DataFrame]:
    """Apply the transform, take out what it rejects, and see that every sink has its output.

    Args:
        transform, source, session: as for :func:`~directkafka.pipeline.execution.transform.apply_transform`.
        routes: which outputs are wanted.
        work: keeps frames that are used twice; by default nothing is kept, for a look at the plans.
        hidden: columns of the source that the transform is not shown.

    Raises:
        TransformError: see :func:`~directkafka.pipeline.execution.transform.apply_transform`; or rows are rejected, and
            there is no sink for dead letters.
        OptionError: a sink asks for an output that the transform does not give.
    """
    sink = next((route.sink for route in routes if route.output == DEAD_LETTERS), None)
    records = Records.of(source, hidden)
    outputs = divert(apply_transform(transform, records.shown, session), records, sink, work or LookOnly())
    for output in sorted({route.output for route in routes}):
        if output not in outputs:
            raise OptionError(
                option="sink.from",
                reason=f"the transform has no output {output!r}; it has {', '.join(sorted(outputs))}",
            )
    return outputs
