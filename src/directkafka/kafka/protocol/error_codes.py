"""Kafka's error codes: number, name, retriability and meaning; and what each means to a transaction's coordinator.

The one place in which a code stands as a number; all else decides by names. Sources: ``Errors.java`` of Kafka 4.3
(numbers and names); its exceptions (a code is retriable whose exception is a ``RetriableException``); and
``TransactionManager`` of its Java client, for what it does at each code of a coordinator.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final, Self

from directkafka.errors import BrokerResponseError

_RETRIABLE, _FINAL = True, False


class ErrorCode(IntEnum):
    """An error code of a broker's answer.

    Attributes:
        is_retriable: whether Kafka says that the same request may succeed later.
        meaning: what has happened.
    """

    is_retriable: bool
    meaning: str

    def __new__(cls, code: int, is_retriable: bool, meaning: str) -> Self:
        """A row of the table."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.is_retriable = is_retriable
        member.meaning = meaning
        return member

    UNKNOWN_SERVER_ERROR = -1, _FINAL, "the broker met an error that it has no code for"
    NONE = 0, _FINAL, "no error"
    OFFSET_OUT_OF_RANGE = 1, _FINAL, "the log has no such offset"
    CORRUPT_MESSAGE = 2, _RETRIABLE, "a record's checksum or size is wrong"
    UNKNOWN_TOPIC_OR_PARTITION = 3, _RETRIABLE, "the broker has no such partition, or this user may not see it"
    INVALID_FETCH_SIZE = 4, _FINAL, "the fetch's size is invalid"
    LEADER_NOT_AVAILABLE = 5, _RETRIABLE, "a leader is being elected"
    NOT_LEADER_OR_FOLLOWER = 6, _RETRIABLE, "another broker leads the partition"
    REQUEST_TIMED_OUT = 7, _RETRIABLE, "the request took longer than its own limit"
    BROKER_NOT_AVAILABLE = 8, _FINAL, "the broker is not up"
    REPLICA_NOT_AVAILABLE = 9, _RETRIABLE, "this broker has no replica of the partition"
    MESSAGE_TOO_LARGE = 10, _FINAL, "a record batch is larger than the topic takes"
    STALE_CONTROLLER_EPOCH = 11, _FINAL, "the controller moved"
    OFFSET_METADATA_TOO_LARGE = 12, _FINAL, "an offset's metadata is too large"
    NETWORK_EXCEPTION = 13, _RETRIABLE, "the connection broke before the answer"
    COORDINATOR_LOAD_IN_PROGRESS = 14, _RETRIABLE, "the coordinator is still reading its log"
    COORDINATOR_NOT_AVAILABLE = 15, _RETRIABLE, "there is no coordinator now"
    NOT_COORDINATOR = 16, _RETRIABLE, "another broker is the coordinator"
    INVALID_TOPIC_EXCEPTION = 17, _FINAL, "Kafka allows no such topic name"
    RECORD_LIST_TOO_LARGE = 18, _FINAL, "a record batch is larger than a segment"
    NOT_ENOUGH_REPLICAS = 19, _RETRIABLE, "fewer replicas are in sync than the topic asks for"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, _RETRIABLE, "written, but to fewer replicas than the topic asks for"
    INVALID_REQUIRED_ACKS = 21, _FINAL, "no such kind of acknowledgement"
    ILLEGAL_GENERATION = 22, _FINAL, "the group is in another generation"
    INCONSISTENT_GROUP_PROTOCOL = 23, _FINAL, "the group's members have no protocol in common"
    INVALID_GROUP_ID = 24, _FINAL, "no such group id is allowed"
    UNKNOWN_MEMBER_ID = 25, _FINAL, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, _FINAL, "the session's timeout is outside the brokers' limits"
    REBALANCE_IN_PROGRESS = 27, _FINAL, "the group's members are being given their partitions"
    INVALID_COMMIT_OFFSET_SIZE = 28, _FINAL, "the committed offsets are too large"
    TOPIC_AUTHORIZATION_FAILED = 29, _FINAL, "this user may not do that with the topic"
    GROUP_AUTHORIZATION_FAILED = 30, _FINAL, "this user may not do that with the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, _FINAL, "this user may not do that with the cluster"
    INVALID_TIMESTAMP = 32, _FINAL, "a record's timestamp is outside the topic's limits"
    UNSUPPORTED_SASL_MECHANISM = 33, _FINAL, "the listener takes no such login"
    ILLEGAL_SASL_STATE = 34, _FINAL, "the listener expects no login now"
    UNSUPPORTED_VERSION = 35, _FINAL, "the broker does not speak this version of the request"
    TOPIC_ALREADY_EXISTS = 36, _FINAL, "the topic is there already"
    INVALID_PARTITIONS = 37, _FINAL, "no such number of partitions is possible"
    INVALID_REPLICATION_FACTOR = 38, _FINAL, "no such number of replicas is possible"
    INVALID_REPLICA_ASSIGNMENT = 39, _FINAL, "no such placement of replicas is possible"
    INVALID_CONFIG = 40, _FINAL, "a setting is invalid"
    NOT_CONTROLLER = 41, _RETRIABLE, "another broker is the controller"
    INVALID_REQUEST = 42, _FINAL, "the broker cannot understand the request"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, _FINAL, "the topic's records are in a format too old for it"
    POLICY_VIOLATION = 44, _FINAL, "a policy of the brokers forbids it"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, _FINAL, "a record batch is not the next one of its producer"
    DUPLICATE_SEQUENCE_NUMBER = 46, _FINAL, "the record batch was written before"
    INVALID_PRODUCER_EPOCH = 47, _FINAL, "a newer producer has taken the id over"
    INVALID_TXN_STATE = 48, _FINAL, "the transaction is in another state"
    INVALID_PRODUCER_ID_MAPPING = 49, _FINAL, "the producer id is not, or no longer, that of the transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, _FINAL, "the transaction's timeout is longer than the brokers allow"
    CONCURRENT_TRANSACTIONS = 51, _RETRIABLE, "the transaction before is still being ended"
    TRANSACTION_COORDINATOR_FENCED = 52, _FINAL, "another broker is the transaction's coordinator now"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, _FINAL, "this user may not use the transactional id"
    SECURITY_DISABLED = 54, _FINAL, "the brokers have no security"
    OPERATION_NOT_ATTEMPTED = 55, _FINAL, "not tried, because another part of the request failed"
    KAFKA_STORAGE_ERROR = 56, _RETRIABLE, "the broker's disk failed"
    LOG_DIR_NOT_FOUND = 57, _FINAL, "the broker has no such folder of logs"
    SASL_AUTHENTICATION_FAILED = 58, _FINAL, "the login was refused"
    UNKNOWN_PRODUCER_ID = 59, _FINAL, "the broker has forgotten the producer id"
    REASSIGNMENT_IN_PROGRESS = 60, _FINAL, "replicas are being moved"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, _FINAL, "the brokers give no delegation tokens"
    DELEGATION_TOKEN_NOT_FOUND = 62, _FINAL, "no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, _FINAL, "the delegation token is somebody else's"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, _FINAL, "no delegation tokens on such a connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, _FINAL, "this user may not do that with the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, _FINAL, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, _FINAL, "no such kind of principal"
    NON_EMPTY_GROUP = 68, _FINAL, "the group has members"
    GROUP_ID_NOT_FOUND = 69, _FINAL, "no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, _RETRIABLE, "no such fetch session"
    INVALID_FETCH_SESSION_EPOCH = 71, _RETRIABLE, "the fetch session is at another request"
    LISTENER_NOT_FOUND = 72, _RETRIABLE, "the leader has no listener of this name"
    TOPIC_DELETION_DISABLED = 73, _FINAL, "the brokers delete no topics"
    FENCED_LEADER_EPOCH = 74, _RETRIABLE, "the leader epoch is older than the leader's"
    UNKNOWN_LEADER_EPOCH = 75, _RETRIABLE, "the leader epoch is newer than the leader's"
    UNSUPPORTED_COMPRESSION_TYPE = 76, _FINAL, "the brokers, or this version of the request, have no such codec"
    STALE_BROKER_EPOCH = 77, _FINAL, "the broker has registered anew"
    OFFSET_NOT_AVAILABLE = 78, _RETRIABLE, "a new leader does not yet know the end of its log"
    MEMBER_ID_REQUIRED = 79, _FINAL, "the group gives the member its id first"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, _RETRIABLE, "the preferred leader is away"
    GROUP_MAX_SIZE_REACHED = 81, _FINAL, "the group is full"
    FENCED_INSTANCE_ID = 82, _FINAL, "another member has the group.instance.id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, _RETRIABLE, "no replica may become the leader"
    ELECTION_NOT_NEEDED = 84, _RETRIABLE, "there is a leader already"
    NO_REASSIGNMENT_IN_PROGRESS = 85, _FINAL, "no replicas are being moved"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, _FINAL, "the group reads the topic"
    INVALID_RECORD = 87, _FINAL, "the broker refuses a record"
    UNSTABLE_OFFSET_COMMIT = 88, _RETRIABLE, "a transaction's offsets are not settled yet"
    THROTTLING_QUOTA_EXCEEDED = 89, _RETRIABLE, "a quota is used up"
    PRODUCER_FENCED = 90, _FINAL, "a newer producer has taken the transactional id over"
    RESOURCE_NOT_FOUND = 91, _FINAL, "no such resource"
    DUPLICATE_RESOURCE = 92, _FINAL, "a resource is named twice"
    UNACCEPTABLE_CREDENTIAL = 93, _FINAL, "no such credential is allowed"
    INCONSISTENT_VOTER_SET = 94, _FINAL, "the set of voters differs"
    INVALID_UPDATE_VERSION = 95, _FINAL, "no such version of a feature"
    FEATURE_UPDATE_FAILED = 96, _FINAL, "a feature could not be changed"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, _FINAL, "the forwarded principal cannot be read"
    SNAPSHOT_NOT_FOUND = 98, _FINAL, "no such snapshot"
    POSITION_OUT_OF_RANGE = 99, _FINAL, "the snapshot has no such position"
    UNKNOWN_TOPIC_ID = 100, _RETRIABLE, "the broker has no such topic id"
    DUPLICATE_BROKER_REGISTRATION = 101, _FINAL, "the broker's id is in use"
    BROKER_ID_NOT_REGISTERED = 102, _FINAL, "the broker's id is not registered"
    INCONSISTENT_TOPIC_ID = 103, _RETRIABLE, "the log belongs to another topic id"
    INCONSISTENT_CLUSTER_ID = 104, _FINAL, "this is another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, _FINAL, "no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, _RETRIABLE, "the fetch session mixes topic names and ids"
    INELIGIBLE_REPLICA = 107, _FINAL, "a replica may not be in sync"
    NEW_LEADER_ELECTED = 108, _FINAL, "another leader was elected meanwhile"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, _FINAL, "the offset is in remote storage now"
    FENCED_MEMBER_EPOCH = 110, _FINAL, "the member's epoch is over"
    UNRELEASED_INSTANCE_ID = 111, _FINAL, "the member before has not left yet"
    UNSUPPORTED_ASSIGNOR = 112, _FINAL, "the group has no such assignor"
    STALE_MEMBER_EPOCH = 113, _FINAL, "the member's epoch is old"
    MISMATCHED_ENDPOINT_TYPE = 114, _FINAL, "the endpoint is of another type"
    UNSUPPORTED_ENDPOINT_TYPE = 115, _FINAL, "no such type of endpoint"
    UNKNOWN_CONTROLLER_ID = 116, _FINAL, "no such controller"
    UNKNOWN_SUBSCRIPTION_ID = 117, _FINAL, "no such telemetry subscription"
    TELEMETRY_TOO_LARGE = 118, _FINAL, "the telemetry is too large"
    INVALID_REGISTRATION = 119, _FINAL, "a broker's registration is invalid"
    TRANSACTION_ABORTABLE = 120, _FINAL, "the transaction must be aborted; its producer may go on"
    INVALID_RECORD_STATE = 121, _FINAL, "the record's acquisition is in another state"
    SHARE_SESSION_NOT_FOUND = 122, _RETRIABLE, "no such share session"
    INVALID_SHARE_SESSION_EPOCH = 123, _RETRIABLE, "the share session is at another request"
    FENCED_STATE_EPOCH = 124, _FINAL, "the share group's state epoch is old"
    INVALID_VOTER_KEY = 125, _FINAL, "the voter's key differs"
    DUPLICATE_VOTER = 126, _FINAL, "the voter is there already"
    VOTER_NOT_FOUND = 127, _FINAL, "no such voter"
    INVALID_REGULAR_EXPRESSION = 128, _FINAL, "the regular expression is invalid"
    REBOOTSTRAP_REQUIRED = 129, _FINAL, "the client's metadata is too old to go on with"
    STREAMS_INVALID_TOPOLOGY = 130, _FINAL, "the topology is invalid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, _FINAL, "the topology's epoch is invalid"
    STREAMS_TOPOLOGY_FENCED = 132, _FINAL, "the topology's epoch is old"
    SHARE_SESSION_LIMIT_REACHED = 133, _RETRIABLE, "the broker has as many share sessions as it takes"


#: Another broker leads the partition now, or nobody does, or its topic is another one: what was known of the cluster is
#: old. Kafka's ``InvalidMetadataException``, and ``UNKNOWN_LEADER_EPOCH``: the broker itself is behind.
STALE_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


_BY_NUMBER: Final[dict[int, ErrorCode]] = {code.value: code for code in ErrorCode}


def error_name(code: int) -> str:
    """Kafka's name of an error code, for example ``NOT_LEADER_OR_FOLLOWER`` for 6; a newer broker's is ``UNKNOWN``."""
    return _BY_NUMBER[code].name if code in _BY_NUMBER else "UNKNOWN"


def is_retriable(code: int) -> bool:
    """Whether Kafka calls this error code retriable; a newer broker's is not."""
    return code in _BY_NUMBER and _BY_NUMBER[code].is_retriable


def broker_error(api: str, code: int, subject: str, *, remedy: str | None = None) -> BrokerResponseError:
    """The error for a code that a broker answered with, to be raised by the caller.

    Args:
        api: the request's name.
        code: the error code.
        subject: what was asked about.
        remedy: what to do; the error's own by default.
    """
    return BrokerResponseError(
        api=api, code=code, name=error_name(code), retriable=is_retriable(code), subject=subject,
        remedy=remedy or BrokerResponseError.remedy,
    )  # fmt: skip


class ErrorClass(Enum):
    """What an error code says about the request that it answers."""

    DONE = "done"
    AGAIN = "not yet; the same request may succeed"
    MOVED = "not this broker; the coordinator is to be found anew"
    FENCED = "another producer owns the transactional id, or the broker gave the transaction up"
    STATE = "the transaction is in another state than the request is for"
    REFUSED = "no, and it will stay no"


_ERROR_CLASSES: Final[dict[int, ErrorClass]] = {
    # What an EndTxn gets (Kafka 4.3) that comes while the coordinator is ending the transaction for another producer's
    # InitProducerId: it prepares a second transition while one is pending, which throws. Asked again, it says which.
    # All requests here may be sent twice.
    ErrorCode.UNKNOWN_SERVER_ERROR: ErrorClass.AGAIN,
    ErrorCode.NONE: ErrorClass.DONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorClass.AGAIN,  # metadata on its way; a topic that is gone ends the time
    ErrorCode.LEADER_NOT_AVAILABLE: ErrorClass.AGAIN,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorClass.AGAIN,
    ErrorCode.REQUEST_TIMED_OUT: ErrorClass.AGAIN,  # the coordinator's own log was slow; perhaps done
    ErrorCode.NETWORK_EXCEPTION: ErrorClass.MOVED,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorClass.AGAIN,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorClass.MOVED,
    ErrorCode.NOT_COORDINATOR: ErrorClass.MOVED,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorClass.AGAIN,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorClass.AGAIN,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorClass.AGAIN,  # the one before is being ended
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorClass.FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: ErrorClass.FENCED,  # a newer producer id, or an expired transactional id
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: ErrorClass.FENCED,
    ErrorCode.PRODUCER_FENCED: ErrorClass.FENCED,
    ErrorCode.INVALID_TXN_STATE: ErrorClass.STATE,
    ErrorCode.TRANSACTION_ABORTABLE: ErrorClass.STATE,
}


def error_class_of(code: int) -> ErrorClass:
    """What a coordinator's error code means; one that is not in the table is a refusal, of the timeout for example."""
    return _ERROR_CLASSES.get(code, ErrorClass.REFUSED)
