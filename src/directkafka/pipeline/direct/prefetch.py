"""A batch that begins while the one before it is committed: computing uses Spark's cores, committing the database's.

It begins only where it would follow at once anyway: its records are waiting, and the trigger asks for no pause. Its
ranges are planned from the ends that are about to be committed, and from the same snapshot: no broker that is away
holds a commit up. Its rows are written where nobody sees them, as in every step 3, and are committed in their turn,
after the batch before. What it computes must not depend on what that commit changes: see
:attr:`~directkafka.pipeline.execution.batch_writer.BatchWriter.may_run_ahead`.

Sequences of events that it must stand:

- The commit fails, its answer does not come, or a newer driver has fenced the stores: the batch ahead is cancelled, the
  ledgers are read, and whatever comes next is planned from them. Its staged rows are those of a batch that failed.
- The batch ahead fails while the commit is under way: the commit goes on; the failure is met when the batch's turn
  comes, as if it had happened then.
- The driver is killed: what it staged ahead is as invisible as all that is not committed, and goes with the next fence.
"""

from __future__ import annotations

from dataclasses import dataclass

from directkafka.errors import WorkerLostError
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.pipeline.execution.background_job import BackgroundJob
from directkafka.pipeline.execution.batch_writer import WrittenBatch
from directkafka.planning.plan import BatchPlan
from directkafka.sinks.api import BatchAttempt
from directkafka.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """A batch that is planned.

    Attributes:
        name: this try of it.
        batch: its ranges, and what the ledger will say.
        snapshot: what it was planned from.
        tasks: what executors need to read the ranges.
    """

    name: BatchAttempt
    batch: BatchPlan
    snapshot: ClusterSnapshot
    tasks: tuple[RangeTask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchedBatch:
    """One that is being written in the background.

    Attributes:
        begun: the plan.
        writing: the job.
    """

    begun: PlannedBatch
    writing: BackgroundJob[WrittenBatch]

    def written(self) -> WrittenBatch:
        """Wait for its rows.

        Raises:
            Exception: what :meth:`~directkafka.pipeline.execution.batch_writer.BatchWriter.write` raises.
        """
        return self.writing.result()

    def abort(self) -> None:
        """Cancel it, so that nothing of it runs beside what comes next.

        Raises:
            WorkerLostError: Spark goes on with it for now.
        """
        if not self.writing.cancel():
            raise WorkerLostError(cause="a job was cancelled, and Spark has not ended it yet")
