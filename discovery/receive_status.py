"""The status of a receive queue, with its shards and the failures of its listener."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from queues import errors
from queues.clock import iso
from queues.names import ClientName, SiteId
from queues.receive.consumer_marks import IN_LOG, IN_SNAPSHOT
from queues.receive.failures import Failure

#: The classes of lrq's errors, whose sentences hold no payload.
_OWN_ERRORS: Final = frozenset(
    name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, errors.LrqError)
)


class ReceivePhase(StrEnum):
    """The part of a receive queue that its subscriber applies."""

    LOG = IN_LOG
    SNAPSHOT = IN_SNAPSHOT
    NOT_SUBSCRIBED = "not subscribed"


@dataclass(frozen=True, slots=True)
class StagingStatus:
    """A snapshot of which the first `rows` rows have arrived."""

    sync_id: str
    rows: int

    def as_json(self) -> dict[str, Any]:
        """Return the value of `staging`."""
        return {"sync_id": self.sync_id, "rows": self.rows}


@dataclass(frozen=True, slots=True)
class FailureStatus:
    """A listener that has failed `tries` times in a row, at the entry `seq` (in a snapshot: the row).

    `error` is the class and the first line of the last error, which may hold a part of a payload. `error_class` and
    `place` hold none. The first failure was at `first_us` and the last one at `last_us`; 0 is an unknown time.
    """

    tries: int
    error: str
    seq: int = 0
    error_class: str = ""
    place: str = ""
    first_us: int = 0
    last_us: int = 0

    def without_message(self) -> "FailureStatus":
        """Return the failure with its class and place in the place of its message; lrq's own sentences stay."""
        if self.error_class in _OWN_ERRORS:
            return self
        words = f"{self.error_class} ({self.place})" if self.place else self.error_class
        return replace(self, error=words or "its message is hidden")

    @classmethod
    def of(cls, failure: Failure) -> "FailureStatus":
        """Return the status of a stored failure."""
        return cls(
            failure.tries,
            failure.error,
            failure.seq,
            failure.error_class,
            failure.place,
            failure.first_us,
            failure.last_us,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the value of `failure`."""
        return {
            "tries": self.tries,
            "error": self.error,
            "sequence": self.seq,
            "error_class": self.error_class,
            "place": self.place,
            "first_at": iso(self.first_us) if self.first_us else None,
            "last_at": iso(self.last_us) if self.last_us else None,
        }


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """One of several shards of a queue: it has delivered its part of everything up to `applied_seq`.

    `owner` is the living owner of its lease, or empty. `applied_total` counts its entries.
    """

    shard: int
    applied_seq: int
    applied_total: int
    owner: str
    failure: FailureStatus | None

    def as_json(self) -> dict[str, Any]:
        """Return an item of `shards`."""
        return {
            "shard": self.shard,
            "applied_seq": self.applied_seq,
            "applied_total": self.applied_total,
            "owner": self.owner,
            "failure": self.failure and self.failure.as_json(),
        }


@dataclass(frozen=True, slots=True)
class ReceiveQueueStatus:
    """A receive queue: received up to `received_seq` and applied up to `applied_seq`, of the source's `source_seq`.

    `outstanding` entries are stored and not applied, counted up to `queues.counts.COUNTED`; there are `more` beyond.
    `oldest_seconds` is the age of the oldest of them. The totals count entries since the queue began. `subscribed`: a
    subscriber of the client works now. `snapshot_waits`: a complete snapshot is not applied as a whole yet.
    `received_total` and `applied_total` count log entries and the rows of complete snapshots; `applied_total` has the
    parked ones too. `shards` is empty for a queue that is applied as a whole. Otherwise `applied_seq` is the lowest
    of all shards, and `failure` is that of the first failing shard.
    """

    name: str
    client: ClientName
    source: SiteId
    received_seq: int
    source_seq: int
    applied_seq: int
    phase: ReceivePhase
    outstanding: int
    more: bool
    oldest_seconds: float
    received_total: int
    duplicates_total: int
    applied_total: int
    parked: int
    staging: StagingStatus | None
    sync_id: str
    failure: FailureStatus | None
    subscribed: bool = False
    snapshot_waits: bool = False
    shards: tuple[ShardStatus, ...] = ()

    def without_messages(self) -> "ReceiveQueueStatus":
        """Return the queue without the messages of its listener's errors."""
        shards = tuple(replace(each, failure=each.failure and each.failure.without_message()) for each in self.shards)
        return replace(self, failure=self.failure and self.failure.without_message(), shards=shards)

    def as_json(self) -> dict[str, Any]:
        """Return an item of `receive_queues`."""
        return {
            "name": self.name,
            "client": self.client,
            "source": self.source,
            "received_seq": self.received_seq,
            "source_seq": self.source_seq,
            "applied_seq": self.applied_seq,
            "phase": self.phase.value,
            "outstanding": self.outstanding,
            "more": self.more,
            "oldest_seconds": self.oldest_seconds,
            "received_total": self.received_total,
            "duplicates_total": self.duplicates_total,
            "applied_total": self.applied_total,
            "parked": self.parked,
            "staging": self.staging and self.staging.as_json(),
            "sync_id": self.sync_id,
            "failure": self.failure and self.failure.as_json(),
            "subscribed": self.subscribed,
            "snapshot_waits": self.snapshot_waits,
            "shards": [shard.as_json() for shard in self.shards],
        }
