"""The one tree of errors.

::

    DirectKafkaError
    ├── OptionError                 an option or a line of the pipeline file is wrong
    ├── AlreadyRunningError         a pipeline is started while it runs
    ├── EnvironmentFaultError       Java, the Python workers or a package is missing
    ├── KafkaError
    │   ├── BrokerUnreachableError  nobody answered at the bootstrap addresses
    │   ├── BrokerAccessError       TLS or the login failed: a certificate, a password
    │   ├── BrokerResponseError     a broker answered with an error code
    │   ├── TopicNotFoundError
    │   ├── FetchTimeoutError       no answer, or no progress, within the limit
    │   └── MalformedBatchError     bytes that are not a record batch
    ├── DataLossError               records of the plan are no longer in Kafka
    ├── TransformError              the user's SQL or Python failed
    ├── RangeNotReadError           a task ended before the end of its range
    ├── WorkerLostError             a Python worker or an executor died under a task
    │   └── RowFileError            a file with a task's rows cannot be read
    └── StoreError
        ├── StoreUnavailableError   the store cannot be reached; worth another try
        ├── StoreAccessError        a wrong password, a missing right
        ├── StoreRequestError       the store refuses a statement for another reason
        ├── CommitUnknownError      no answer to a commit: neither success nor failure
        ├── FencedError             a newer driver owns the pipeline
        ├── OffsetMismatchError     the ledger's ends are not this batch's starts
        ├── LineageError            the ledger belongs to another checkpoint or job
        ├── RowCountError           rows in the store differ from what the tasks reported
        ├── SchemaMismatchError     the table and the DataFrame do not fit
        └── RowRejectedError        a row that the store cannot hold

An error is a keyword-only dataclass: its fields are the numbers, its ``template`` is the message. That makes every
error picklable, and lets :mod:`directkafka.errors.transport` bring one from an executor to the driver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, dataclass_transform


@dataclass_transform(kw_only_default=True, eq_default=False)
@dataclass(kw_only=True, eq=False)
class DirectKafkaError(Exception):
    """Base of every error that directkafka raises on purpose.

    Subclasses are dataclasses without a decorator. They declare fields and a ``template`` over them: what happened,
    where, the numbers and what to do.
    """

    template: ClassVar[str] = "directkafka failed"

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        dataclass(kw_only=True, eq=False)(cls)

    def __post_init__(self) -> None:
        """Give the message to ``Exception``, so that logging and ``repr`` show it."""
        super().__init__(str(self))

    def __str__(self) -> str:
        return self.template.format(**{field.name: getattr(self, field.name) for field in fields(self)})

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **{field.name: getattr(self, field.name) for field in fields(self)}), ()


class OptionError(DirectKafkaError):
    """An option, a setting or a line of the pipeline file is missing, unknown or has a wrong value.

    Attributes:
        option: the name as the user wrote it.
        reason: what is wrong and what to write instead, without a final full stop.
        where: the file or call it stands in, if any.
        also: the messages of the other mistakes that were found with this one.
    """

    option: str
    reason: str
    where: str = ""
    also: tuple[str, ...] = ()

    def __str__(self) -> str:
        option = f"option {self.option!r}" + (f" in {self.where}" if self.where else "")
        return "\n".join((f"{option}: {self.reason}.", *self.also))


class AlreadyRunningError(DirectKafkaError):
    """A pipeline was started while it runs."""

    pipeline: str
    template = "pipeline {pipeline!r} is running already in this process. Call its stop() first."


class EnvironmentFaultError(DirectKafkaError):
    """Something outside the program is missing: Java, a package on the executors, Spark, brokers of today."""

    what: str
    remedy: str
    template = "{what}. {remedy}"


class KafkaError(DirectKafkaError):
    """Base of what goes wrong between this process and the brokers."""


class BrokerUnreachableError(KafkaError):
    """No broker answered at the bootstrap addresses within the limit."""

    addresses: tuple[str, ...]
    timeout_ms: int
    cause: str
    template = (
        "no Kafka broker answered at {addresses} within {timeout_ms} ms ({cause}). Check kafka.bootstrap.servers, "
        "that the brokers run, and kafka.security.protocol (a TLS listener hangs up on a plaintext client)."
    )


class BrokerAccessError(KafkaError):
    """A broker was reached, but TLS or the login failed, for the cause it tells; never tried again, never a secret."""

    address: str
    cause: str
    remedy: str
    template = "the Kafka broker at {address} cannot be used: {cause}. {remedy}."


class BrokerResponseError(KafkaError):
    """A broker answered a request with an error code.

    Attributes:
        api: the request's name, for example ``ListOffsets``.
        code, name: Kafka's number and name of the error.
        retriable: whether Kafka calls it retriable.
        subject: what the request was about, for example ``topic flights, partition 3``.
    """

    api: str
    code: int
    name: str
    retriable: bool
    subject: str
    remedy: str = "The broker's log may say more"
    template = "the broker answered {api} for {subject} with error {code} ({name}). {remedy}."


class TopicNotFoundError(KafkaError):
    """A topic that the options name does not exist, or may not be described by this user."""

    topics: tuple[str, ...]
    addresses: tuple[str, ...]
    template = (
        "no topic {topics} at {addresses}. Create it, or correct 'subscribe' or 'assign'; a topic that this user "
        "has no DESCRIBE right on looks the same."
    )


class FetchTimeoutError(KafkaError):
    """A fetch brought no answer, or no progress, within the limit."""

    topic: str
    partition: int
    offset: int
    until_offset: int
    timeout_ms: int
    cause: str
    template = (
        "cannot fetch topic {topic}, partition {partition} at offset {offset} (range ends before "
        "{until_offset}) in {timeout_ms} ms: {cause}. The range is not lost: a retry reads it again."
    )


class MalformedBatchError(KafkaError):
    """Bytes from a broker that are not a record batch as Kafka's format (magic 2) defines it.

    Attributes:
        offset: base offset of the batch as its header says, or the position that was asked for.
        position: byte position in the fetch response's records.
    """

    topic: str
    partition: int
    offset: int
    position: int
    reason: str
    template = (
        "malformed record batch in topic {topic}, partition {partition} at offset {offset} (byte {position} "
        "of the response): {reason}. Nothing of it was read. Compare with another client; if the broker's log "
        "segment is damaged, restore the replica."
    )


class SparkCondition:
    """An error that is named after one of Spark's conditions, which stands before its message.

    Attributes:
        condition: for example ``START_OFFSET_RESET``, of :class:`~directkafka.errors.data_loss.StartOffsetResetError`.
        condition_class: the class that Spark counts it to, with a full stop behind it; empty where there is none.
    """

    condition: ClassVar[str]
    condition_class: ClassVar[str] = ""

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        cls.condition = "_".join(re.findall("[A-Z][a-z]*", cls.__name__.removesuffix("Error"))).upper()

    def __str__(self) -> str:
        return f"[{self.condition_class}{self.condition}] {super().__str__()}"


class DataLossError(SparkCondition, DirectKafkaError):
    """Records that should be read are no longer in Kafka, or offsets no longer mean what they meant.

    Attributes:
        condition: Spark's sub-class of ``KAFKA_DATA_LOSS``, for example ``COULD_NOT_READ_OFFSET_RANGE``.
        lost_from, lost_until: the half-open range that cannot be read; equal when nothing is known to be lost.
        detail: what was found.
    """

    condition_class = "KAFKA_DATA_LOSS."
    topic: str
    partition: int
    lost_from: int
    lost_until: int
    detail: str
    template = (
        "topic {topic}, partition {partition}, offsets [{lost_from}, {lost_until}): {detail}. Some data may have been "
        "lost because it is no longer available in Kafka. To go on without it, set the source's failOnDataLoss to "
        "false; an RDD or a direct stream is given offsets that are still there."
    )


class TransformError(DirectKafkaError):
    """The user's SQL or Python function failed, or gave something that is no DataFrame."""

    source: str
    cause: str
    template = "the transform {source} failed: {cause}"


class RangeNotReadError(DirectKafkaError):
    """The batch's job ended although a range was not read to its end; nothing was committed."""

    ranges: tuple[str, ...]
    template = (
        "the batch ended before {ranges} was read to the end. A transform that stops early (LIMIT, a filter that "
        "Spark proves empty) would drop records without a trace; remove it. Nothing was committed."
    )


class WorkerLostError(DirectKafkaError):
    """A Python worker or an executor died while it ran a task, and Spark's own retries did not help."""

    cause: str
    template = (
        "a Python worker or an executor was lost while it ran a task: {cause}. Nothing was committed; the batch is "
        "done again. If it goes on, look for the kernel's out-of-memory killer in the executors' logs."
    )


class RowFileError(WorkerLostError):
    """A file by which a task gave its rows to the driver cannot be read; the batch is done again."""

    path: str
    template = (
        "the file {path}, which has rows of a task, cannot be read: {cause}. The batch is done again. If it goes on, "
        "look for what removes files from the temporary folder."
    )


class StoreError(DirectKafkaError):
    """Base of what goes wrong between this process and a store."""

    store: str
    template = "the store {store} failed"


class StoreUnavailableError(StoreError):
    """The store cannot be reached now; the same step may succeed later."""

    cause: str
    template = "the store {store} cannot be reached: {cause}. Nothing was committed; it is tried again."


class StoreAccessError(StoreError):
    """The store knows this user and refuses it, or does not know it; trying again does not help.

    Attributes:
        cause: the store's own words, without secrets.
        remedy: what to run or to ask for, as a sentence.
    """

    cause: str
    remedy: str
    template = "the store {store} refuses this user: {cause}. {remedy}"


class StoreRequestError(StoreError):
    """The store refuses a statement with its own code (Postgres: SQLSTATE); it is neither the rows nor the rights."""

    code: str
    cause: str
    template = "the store {store} refuses a statement with error {code}: {cause}. Nothing was committed."


class CommitUnknownError(StoreError):
    """The answer to a commit did not come: the ledger must be read before anything else is decided."""

    pipeline: str
    batch_id: int
    cause: str
    template = (
        "no answer to the commit of batch {batch_id} of pipeline {pipeline!r} at {store} ({cause}), and the "
        "ledger could not be read since. It is either committed or not; a restart reads the ledger and goes on."
    )


class FencedError(StoreError):
    """A newer driver owns this pipeline, or it was reset or dropped; this driver must stop (exit code 3).

    It must not be restarted by itself: after a reset somebody starts it again.
    """

    pipeline: str
    held: int
    found: int
    fate: str = "Nothing of this driver's batch was committed."
    template = (
        "pipeline {pipeline!r} at {store} is owned by a newer driver, or was reset or dropped: this one holds "
        "generation {held}, the ledger has {found}. {fate} Start it again only after a reset; "
        "two jobs need two pipeline names."
    )


class OffsetMismatchError(StoreError):
    """The ledger's ends and this batch's starts differ: going on would lose or double records."""

    pipeline: str
    batch_id: int
    expected: str
    found: str
    template = (
        "pipeline {pipeline!r} at {store}: batch {batch_id} expects the ledger at {expected}, found {found}. "
        "Nothing was committed. Another program may have written the ledger; compare both sides and restart."
    )


class LineageError(StoreError):
    """The ledger's entry belongs to another lineage (another checkpoint, another job of the same name)."""

    pipeline: str
    expected: str
    found: str
    remedy: str
    template = "pipeline {pipeline!r} at {store}: expected {expected}, the ledger has {found}. {remedy}"


class RowCountError(StoreError):
    """The store holds other numbers of rows than the tasks reported; the batch was rolled back."""

    sink: str
    reported: int
    found: int
    template = (
        "{sink} at {store}: the tasks reported {reported} rows, the store has {found}. The batch was rolled "
        "back (staging tables are emptied when a server recovers from a crash); it is written again."
    )


class SchemaMismatchError(StoreError):
    """The table and the DataFrame do not fit, or the table lacks what the mode needs."""

    sink: str
    detail: str
    template = "{sink} at {store}: {detail}"


class RowRejectedError(StoreError):
    """A row that the store cannot hold."""

    sink: str
    detail: str
    template = "{sink} at {store} refuses a row: {detail}. Nothing of the batch was committed."
