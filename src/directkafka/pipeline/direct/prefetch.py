"""A prefetched batch: it begins while the batch before it is committed, since Spark's cores have nothing to do then.

It begins only if it would follow at once anyway: at least half as many records as in the batch before are waiting, and
the trigger asks for no pause. Its ranges are planned from the ends that are about to be committed, and from the same
snapshot, so that an unreachable broker does not delay the commit. As in every step 3, no reader sees the rows that it
writes; they are committed after the batch before. Its rows must not depend on what that commit changes: see
:attr:`~directkafka.pipeline.execution.batch_writer.BatchWriter.may_run_ahead`.

Sequences of events that must do no harm:

- The commit fails, or its answer does not come: the prefetched batch is cancelled, the ledgers are read, and the next
  batch is planned from them. Rows that were staged ahead are treated as those of any failed batch. If a newer driver
  has fenced the stores, the batch is cancelled too, and the run ends.
- The prefetched batch fails during the commit: the commit goes on. The failure is raised when the batch's turn comes,
  as if it had happened then.
- The driver is killed: no reader sees the rows that it staged ahead, and the next driver removes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from directkafka.errors import WorkerLostError
from directkafka.kafka.consumer.range_task import RangeTask, ReadCount
from directkafka.pipeline.execution.background_job import BackgroundJob
from directkafka.pipeline.execution.batch_writer import WrittenBatch
from directkafka.pipeline.progress import Stopwatch
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
class CommittedBatch:
    """A batch whose commit has begun, and what is to be told of it once all stores have it.

    Attributes:
        begun: the planned batch.
        read: how much was read of each topic.
        watch: has the laps of its steps.
    """

    begun: PlannedBatch
    read: Mapping[str, ReadCount]
    watch: Stopwatch


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchedBatch:
    """A batch that is being written in the background.

    Attributes:
        begun: the planned batch.
        writing: the job that writes it.
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
        """Cancel the batch, and wait until none of its tasks runs.

        Raises:
            WorkerLostError: Spark has not ended it within ten seconds.
        """
        if not self.writing.cancel():
            raise WorkerLostError(cause="a job was cancelled, and Spark has not ended it yet")
