"""A direct stream's batches: what the next one reads, and what Spark's scheduler says of those before.

Spark goes on behind an output that fails, and behind a batch that it drops since a function that makes its RDDs has
raised. Outputs that are guarded tell such a failure themselves. Of all others Spark tells the context, as it would tell
``awaitTermination``: so that is asked for before a batch is planned, before an output runs, before a checkpoint is
written, and before offsets are committed. It does not say which batch failed.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Final

from directkafka.errors import OptionError
from directkafka.planning.direct import DirectBatch, added_partitions, plan_direct, start_positions
from directkafka.snapshot import ClusterSnapshot
from directkafka.spark.dstream.batch_tracker import BatchStatuses
from directkafka.spark.dstream.jvm_scheduler import StreamingJVM
from directkafka.spark.dstream.state import StreamPlan, StreamState, rates_of
from directkafka.spark.source_cluster import SourceCluster, confirm_loss

#: How long events of batches that have ended are waited for, in seconds: when the context has stopped, when there is an
#: error and it must be found out whose, and when an output of the next batch is about to run.
EVENTS_S: Final = 1.0

_LOOK_S: Final = 0.002


class Batches:
    """Batches are named by their times, in milliseconds since 1970.

    Attributes:
        jvm: Spark's scheduler; None until a context that comes from a checkpoint has started.
        statuses: what was heard.
    """

    def __init__(self) -> None:
        self.jvm: StreamingJVM | None = None
        self.statuses = BatchStatuses()
        self._newest_ms = 0

    def plan(self, batch_ms: int) -> None:
        """The ranges of a batch are decided, or known from its checkpoint."""
        self._newest_ms = max(batch_ms, self._newest_ms)
        self.statuses.plan(batch_ms)

    def pending(self) -> set[int]:
        """Which batches wait or run, or have failed; none while nobody can be asked."""
        return self.jvm.pending() if self.jvm is not None else set()

    def begin(self, batch_ms: int) -> None:
        """An output of a batch is about to run.

        Raises:
            BatchFailedError: that batch or one before it has failed.
        """
        self.check(batch_ms)
        if self.jvm is None or not self.jvm.is_serial:
            return
        # 1. An output of batch n fails. 2. Spark's thread runs this output of n+1. 3. Another one reports the failure.
        # Between 1 and 3, n is still among those that wait or run.
        until_s = time.monotonic() + EVENTS_S
        while any(pending_ms < batch_ms for pending_ms in self.jvm.pending()) and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
            self.check(batch_ms)

    def check(self, batch_ms: int = sys.maxsize) -> None:
        """See that neither this batch nor one before it has failed; without a batch, that none has.

        Raises:
            BatchFailedError: one has.
        """
        self._hear_errors()
        self.statuses.check(batch_ms)

    def is_done(self, batch_ms: int) -> bool:
        """Whether a batch has succeeded, and nothing before it can fail any more.

        Raises:
            BatchFailedError: it or one before it has failed.
        """
        if not self.statuses.is_done(batch_ms, self.pending):
            return False
        # What Spark has dropped before this batch was reported before this batch could succeed.
        self.check(batch_ms)
        return True

    def _hear_errors(self) -> None:
        """Take an error that Spark has reported for the failure of the first batch that it may be of."""
        if self.jvm is None or self.statuses.has_failure or (cause := self.jvm.error()) is None:
            return
        until_s = time.monotonic() + EVENTS_S
        # One that has ended this moment has succeeded, once Spark's event has come; one that is being made will wait.
        while (suspects := self.statuses.undetermined(pending := self.jvm.pending())) and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
        self.statuses.fail(min(suspects or pending, default=self._newest_ms + 1), f"Spark has reported: {cause}")


def next_batch(
    plan: StreamPlan, state: StreamState, cluster: SourceCluster, snapshot: ClusterSnapshot
) -> tuple[ClusterSnapshot, DirectBatch]:
    """Decide on the next batch; what looks like a loss is looked at again.

    Args:
        plan: what the program decides.
        state: where the stream is.
        cluster: to look up where new partitions start.
        snapshot: the partitions as the cluster has just shown them.

    Returns:
        The snapshot that it was decided on, and the batch.

    Raises:
        OptionError: offsets are given for partitions that are not there.
        DataLossError: records that should be read are gone.
    """

    def decide(snapshot: ClusterSnapshot) -> DirectBatch:
        if not state.ranges and (strange := plan.options.offsets.keys() - snapshot.partitions.keys()):
            shown = ", ".join(map(str, sorted(strange)))
            raise OptionError(option="offsets", reason=f"names partitions that are not there: {shown}")
        starts = start_positions(plan.options, added_partitions(state.progress, snapshot))
        new = replace(
            snapshot, partitions={partition: snapshot.partitions[partition] for partition in starts.partitions}
        )
        return plan_direct(
            state.progress,
            snapshot,
            starts=starts,
            answers=cluster.lookups(starts, new),
            rates=plan.rates,
            interval_ms=plan.interval_ms,
            rate=state.feedback.rate,
            partition_rates=rates_of(plan.partition_config, snapshot.partitions),
        )

    return confirm_loss(decide, snapshot, look_again=lambda: cluster.snapshot(fresh=True, known=state.progress))
