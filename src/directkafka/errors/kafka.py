"""Errors of writing records to Kafka: leaves of the tree in :mod:`directkafka.errors`.

::

    KafkaError
    ├── RecordTooLargeError         a row that no request may carry
    ├── RecordRejectedError         a row that is no record: a header without key
    ├── BatchTooLargeError          a record batch that is larger than its topic takes
    ├── DeliveryTimeoutError        no acknowledgement of written records within the limit
    ├── ProducerFencedError         a newer producer has taken this one's place
    ├── ProducerStateError          the broker and this producer disagree on what was written
    ├── SecondAttemptError          a task was run again inside one transaction
    ├── TransactionFencedError      another producer owns the transactional id now
    ├── TransactionStateError       the coordinator's transaction is in another state
    └── TransactionTooSlowError     the rows of a batch took longer than a transaction may

A refusal that needs nothing but Kafka's code and a remedy is a :class:`~directkafka.errors.BrokerResponseError`, and
``BatchTooLargeError`` is one with numbers.
"""

from __future__ import annotations

from directkafka.errors import BrokerResponseError, KafkaError


class RecordTooLargeError(KafkaError):
    """A row that is larger than a request may be, even in a record batch of its own; nothing of its rows was sent.

    Attributes:
        row, rows: number of the row, from 0, among the rows that were handed over with it.
        size_bytes: of the record batch that would hold this row alone, before compression.
        size_bytes_max: the limit, which the setting gives.
    """

    topic: str
    partition: int
    row: int
    rows: int
    size_bytes: int
    size_bytes_max: int
    setting: str = "kafka.max.request.size"
    template = (
        "row {row} of {rows} for topic {topic}, partition {partition} takes {size_bytes} bytes, more than the "
        "{size_bytes_max} of {setting}. Raise it, together with the topic's max.message.bytes, or leave the row out."
    )


class RecordRejectedError(KafkaError):
    """A row that cannot be a record of Kafka; nothing of its rows was sent.

    Attributes:
        row, rows: number of the row, from 0, among the rows that were handed over with it.
    """

    topic: str
    partition: int
    row: int
    rows: int
    reason: str
    template = "row {row} of {rows} for topic {topic}, partition {partition} cannot be written: {reason}."


class BatchTooLargeError(BrokerResponseError):
    """A record batch that the broker does not take for its size: 10 (MESSAGE_TOO_LARGE), 18 (RECORD_LIST_TOO_LARGE).

    Attributes:
        topic: where it was to go.
        records: how many it holds; one of a single record cannot be made smaller.
        size_bytes: its size as it was sent.
        raw_bytes: its size before compression.
    """

    topic: str
    records: int
    size_bytes: int
    raw_bytes: int


class DeliveryTimeoutError(KafkaError):
    """Records were not acknowledged within ``delivery.timeout.ms``; they may be written, and may be not.

    Attributes:
        records: of the first batch that was not acknowledged.
        tries: how often it was sent.
        cause: why the last try failed, or what it waited for.
    """

    topic: str
    partition: int
    records: int
    tries: int
    timeout_ms: int
    cause: str
    template = (
        "{records} records for topic {topic}, partition {partition} were not acknowledged within {timeout_ms} ms "
        "(kafka.delivery.timeout.ms), sent {tries} times: {cause}. It is not known whether they were written."
    )


class ProducerFencedError(KafkaError):
    """A newer producer has this one's transactional id, or a newer epoch of its producer id; this one must stop.

    Attributes:
        code, name: what the broker answered (INVALID_PRODUCER_EPOCH 47, PRODUCER_FENCED 90).
    """

    topic: str
    partition: int
    producer_id: int
    epoch: int
    code: int
    name: str
    template = (
        "the broker refuses producer {producer_id} of epoch {epoch} at topic {topic}, partition {partition} with "
        "error {code} ({name}): a newer one has taken its place. Nothing more of this one is written."
    )


class ProducerStateError(KafkaError):
    """The broker does not take a batch because what it knows of this producer, or of its transaction, is not this.

    Attributes:
        base_sequence: sequence number of the batch's first record.
        code, name: what the broker answered, for example OUT_OF_ORDER_SEQUENCE_NUMBER (45) when an earlier batch is
            missing, INVALID_TXN_STATE (48) when the partition is in no open transaction, UNKNOWN_PRODUCER_ID (59).
    """

    topic: str
    partition: int
    producer_id: int
    epoch: int
    base_sequence: int
    code: int
    name: str
    template = (
        "the broker refuses sequence {base_sequence} of producer {producer_id}, epoch {epoch} at topic {topic}, "
        "partition {partition} with error {code} ({name}). What was written since is to be aborted or written again "
        "by a new producer."
    )


class TransactionFencedError(KafkaError):
    """The coordinator knows another owner of the transactional id, or gave up the transaction after its timeout.

    Attributes:
        api: the request's name.
        code, name: what the coordinator answered (INVALID_PRODUCER_EPOCH 47, INVALID_PRODUCER_ID_MAPPING 49,
            PRODUCER_FENCED 90). It does not say which of the two happened: the ledger does.
    """

    api: str
    transactional_id: str
    producer_id: int
    epoch: int
    code: int
    name: str
    template = (
        "the coordinator refuses {api} of transactional id {transactional_id!r}, producer {producer_id}, epoch {epoch} "
        "with error {code} ({name}): another producer owns it now, or the transaction took longer than its timeout."
    )


class TransactionStateError(KafkaError):
    """The coordinator's transaction is in another state than the request is for, for example ended already.

    Attributes:
        api, code, name: as for :class:`TransactionFencedError`; INVALID_TXN_STATE is 48.
    """

    api: str
    transactional_id: str
    producer_id: int
    epoch: int
    code: int
    name: str
    template = (
        "the coordinator refuses {api} of transactional id {transactional_id!r}, producer {producer_id}, epoch {epoch} "
        "with error {code} ({name}): its transaction is in another state. Nothing of it can be committed any more."
    )


class TransactionTooSlowError(KafkaError):
    """The rows of a batch took so long that the broker was about to give the transaction up; it was aborted.

    Attributes:
        elapsed_ms: since the transaction began.
        budget_ms: how long it may take: a share of ``timeout_ms``.
        timeout_ms: ``transaction.timeout.ms``, after which the broker aborts by itself.
        remedy: what can be done about it, as sentences.
    """

    transactional_id: str
    elapsed_ms: int
    budget_ms: int
    timeout_ms: int
    remedy: str = "Halve maxOffsetsPerTrigger, or raise the timeout, up to the brokers' transaction.max.timeout.ms."
    template = (
        "the transaction of {transactional_id!r} was open for {elapsed_ms} ms, and has {budget_ms} ms of the "
        "{timeout_ms} ms of kafka.transaction.timeout.ms. It was aborted, and nothing of the batch is to be "
        "seen. {remedy}"
    )


class SecondAttemptError(KafkaError):
    """A task was run again, or twice at once, in one transaction; it raised before anything of it could count.

    Attributes:
        transaction: of which.
        task: which one: ``write/0`` writes share 0, ``route/0`` deals the rows of partition 0 to the shares.
    """

    transaction: str
    task: str
    template = (
        "task {task} of transaction {transaction} was claimed by another attempt before: what that one wrote or dealt "
        "cannot be told from what this one would. Nothing of the batch is committed; it is done again in a new "
        "transaction."
    )
