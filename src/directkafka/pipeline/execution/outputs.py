"""The transform's outputs as the sinks get them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from directkafka.errors import OptionError
from directkafka.pipeline.execution.dead_letters import DEAD_LETTERS, LookOnly, Work, divert
from directkafka.pipeline.execution.routes import Binding
from directkafka.pipeline.execution.transform import Transform, apply_transform

__all__ = ["outputs_of"]


def outputs_of(
    transform: Transform,
    source: DataFrame,
    session: SparkSession,
    bindings: Sequence[Binding],
    *,
    work: Work | None = None,
    records: DataFrame | None = None,
) -> dict[str, DataFrame]:
    """Apply the transform, take out what it rejects, and see that every sink has its output.

    Args:
        transform, source, session: as for :func:`~directkafka.pipeline.execution.transform.apply_transform`.
        bindings: which outputs are wanted.
        work: what is done with frames that are used twice; by default, for a look at the plans, nothing.
        records: where rejected records are looked up; the source by default.

    Raises:
        TransformError: see :func:`~directkafka.pipeline.execution.transform.apply_transform`; or rejected rows have no
            place.
        OptionError: a sink asks for an output that the transform does not give.
    """
    sink = next((one.sink for one in bindings if one.output == DEAD_LETTERS), None)
    applied = apply_transform(transform, source, session)
    outputs = divert(applied, source if records is None else records, sink, work or LookOnly())
    for output in sorted({one.output for one in bindings}):
        if output not in outputs:
            raise OptionError(
                option="sink.from",
                reason=f"the transform has no output {output!r}; it has {', '.join(sorted(outputs))}",
            )
    return outputs
