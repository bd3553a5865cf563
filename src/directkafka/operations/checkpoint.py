"""Reader of the Kafka offsets of each batch and source in a checkpoint of Structured Streaming, without Spark."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from directkafka.errors import EnvironmentFaultError, OptionError
from directkafka.options.texts import fault_of_text
from directkafka.pipeline.structured.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRange:
    """The offset range of one partition in one batch.

    Attributes:
        batch: the batch's number.
        is_committed: whether Spark has noted that its sink is done with it.
        planned_at_ms: when Spark planned it, in milliseconds since 1970.
        source: number or name of the query's source.
        topic, partition: which partition.
        from_offset: first offset; None for the oldest batch that is kept, and for a partition that the batch before did
            not have.
        until_offset: where it ends, exclusive.
    """

    batch: int
    is_committed: bool
    planned_at_ms: int
    source: str
    topic: str
    partition: int
    from_offset: int | None
    until_offset: int

    def as_record(self) -> dict[str, Any]:
        """For printing."""
        record = asdict(self)
        planned_at = datetime.fromtimestamp(record.pop("planned_at_ms") / 1000, UTC).isoformat(timespec="seconds")
        return {
            "batch": record.pop("batch"),
            "committed": record.pop("is_committed"),
            "planned_at": planned_at,
            **record,
        }


def look_at_checkpoint(checkpoint: Checkpoint, *, every_batch: bool = False) -> list[PlannedRange]:
    """The offsets of the newest batch, or of each that the checkpoint keeps; by batch, source and partition.

    Args:
        checkpoint: which.
        every_batch: whether older batches are shown, too.

    Raises:
        EnvironmentFaultError: it is no checkpoint, or cannot be read.
    """
    if checkpoint.lineage() is None:
        raise EnvironmentFaultError(
            what=f"{checkpoint.location} is no checkpoint of Structured Streaming: it has no file 'metadata'",
            remedy="Name the folder that the query has as checkpointLocation.",
        )
    batches = checkpoint.planned_batches()
    done = checkpoint.last_done()
    planned_ranges = []
    for batch in batches if every_batch else batches[-1:]:
        logged, before = checkpoint.logged(batch), checkpoint.logged(batch - 1)
        if logged is None:
            continue
        for source, offsets in sorted(logged.sources.items()):
            starts = before.sources.get(source, {}) if before else {}
            planned_ranges += [
                PlannedRange(
                    batch=batch,
                    is_committed=done is not None and batch <= done,
                    planned_at_ms=logged.planned_at_ms,
                    source=source,
                    topic=partition.topic,
                    partition=partition.partition,
                    from_offset=starts.get(partition),
                    until_offset=until_offset,
                )
                for partition, until_offset in sorted(offsets.items())
            ]
    return planned_ranges


class ArrowFiles:
    """A folder of this machine, or one that Arrow reaches by its URI (``s3://``, ``gs://``, ``hdfs://``).

    Args:
        location: path or URI.

    Raises:
        OptionError: the location is malformed, or Arrow cannot open it.
    """

    def __init__(self, location: str) -> None:
        if fault := fault_of_text(location):
            raise OptionError(option="PATH", reason=fault)
        #: Without keys, as messages show it.
        self.location, self._secrets = _without_secrets(location)
        try:
            # Hadoop's own form of an S3 address has another scheme.
            uri = location.replace("s3a://", "s3://", 1) if location.startswith("s3a://") else location
            self._files, self._root = fs.FileSystem.from_uri(uri if "://" in uri else str(Path(uri).resolve()))
        except (ValueError, OSError, pa.ArrowException) as error:
            raise OptionError(
                option="PATH", reason=f"Arrow cannot reach {self.location}: {self._shown(error)}"
            ) from error

    def names(self, folder: str) -> list[str]:
        """Names in a folder of the checkpoint, sorted; none where there is no such folder."""
        selector = fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True)
        try:
            return sorted(info.base_name for info in self._files.get_file_info(selector))
        except OSError as error:
            raise self._unreadable(error) from error

    def read(self, name: str) -> str | None:
        """A file's text; None where there is none."""
        try:
            with self._files.open_input_stream(f"{self._root}/{name}") as stream:
                return str(stream.read().decode("utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from error

    def _shown(self, error: Exception) -> str:
        """What an error says, without what the address has of a login."""
        text = str(error)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _unreadable(self, error: Exception) -> EnvironmentFaultError:
        return EnvironmentFaultError(
            what=f"the checkpoint {self.location} cannot be read: {self._shown(error)}",
            remedy="Check the path, and your rights on it.",
        )


#: Schemes whose addresses have a bucket in place of a host and port.
_WITHOUT_PORTS: Final = frozenset({"s3", "gs", "gcs"})


def _without_secrets(location: str) -> tuple[str, tuple[str, ...]]:
    """An address without user, password and query, and the texts that were taken out."""
    scheme, mark, rest = location.partition("://")
    if not mark:
        return location, ()
    login, host, slash, path = _parts(scheme, rest)
    path, _, query = path.partition("?")
    secrets = [login, *login.split(":"), query]
    return f"{scheme}://{host}{slash}{path}", tuple(sorted({*filter(None, secrets)}, key=len, reverse=True))


def _parts(scheme: str, rest: str) -> tuple[str, str, str, str]:
    """Login, host, slash and path of what follows the scheme."""
    authority, slash, path = rest.partition("/")
    login, _, host = authority.rpartition("@")
    _, colon, port = host.partition(":")
    has_port = port.isdecimal() and scheme not in _WITHOUT_PORTS
    if not login and colon and not has_port and "@" in path:
        # A key with a slash in it, which should have been written as %2F.
        login, _, behind = rest.rpartition("@")
        host, slash, path = behind.partition("/")
    return login, host, slash, path
