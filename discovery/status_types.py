"""The status of a site as values: a reader of the database makes them, and `as_json` gives their JSON.

Times end in `_us` (microseconds since 1970, UTC) or `_seconds`; the JSON has ISO 8601 in place of the former. A `seq`
is a sequence number of the source's log.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from discovery.replay_status import ReplayStatus
from discovery.ring_status import RingStatus
from queues import errors
from queues.clock import iso
from queues.database.standby_facts import StandbyFacts
from queues.leadership import NO_TOPOLOGY, TopologyFacts
from queues.names import ClientName, SiteId
from queues.receive.consumer_marks import IN_LOG, IN_SNAPSHOT
from queues.receive.failures import Failure
from queues.send_log.port import SessionKey
from queues.send_log.unordered import Unordered
from queues.states import LinkWish, SessionState, SnapshotState

#: A session that is behind without progress for this time, in seconds, is stalled. Received entries are due then too.
STALL_SECONDS: Final = 60.0
#: After this number of failures in a row, a snapshot counts as failed; the provider tries again all the same.
FAILING_ATTEMPTS: Final = 3
#: The classes of lrq's errors, whose sentences hold no payload.
_OWN_ERRORS: Final = frozenset(
    name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, errors.LrqError)
)
#: The lease that makes a server the owner of its site.
SERVER_LEASE: Final = "server"


@dataclass(frozen=True, slots=True)
class OwnerStatus:
    """The last process that took a lease; `alive` while the lease has not expired."""

    lease: str
    owner: str
    generation: int
    alive: bool

    def as_json(self) -> dict[str, Any]:
        """Return an item of `owners`."""
        return {"lease": self.lease, "owner": self.owner, "generation": self.generation, "alive": self.alive}


@dataclass(frozen=True, slots=True)
class OrderingStatus:
    """The entries that no site gets, because they have no place in the order of commits (PostgreSQL only).

    `unordered` holds the counts of the last run of trim; on the tables in `untriggered` the ordering trigger is off.
    """

    unordered: tuple[Unordered, ...] = ()
    untriggered: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the last two items of `log`, which `lrq trim --json` has too."""
        return {"unordered": [asdict(each) for each in self.unordered], "untriggered": list(self.untriggered)}


@dataclass(frozen=True, slots=True)
class UnknownStatus:
    """The entries for a destination that is no peer: `entries` wait, the oldest one for `oldest_seconds`.

    There are `more` than can be counted. `dropped` entries were trimmed. `is_peer`: the site has become a peer since.
    """

    client: ClientName
    destination: SiteId
    entries: int
    more: bool
    oldest_seconds: float
    dropped: int
    is_peer: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return an item of `unknown_destinations`, which `lrq trim --json` has too."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LogStatus:
    """The log-entry queue: `seq` ends its newest tick, and entries up to `trimmed_seq` are gone.

    `waiting` counts committed entries in no tick yet, up to `queues.counts.COUNTED`. `last_tick_us` is None without a
    tick.
    """

    branch: str
    seq: int
    trimmed_seq: int
    last_tick_us: int | None
    waiting: int
    ordering: OrderingStatus = OrderingStatus()
    unknown: tuple[UnknownStatus, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the value of `log`."""
        return {
            "branch": self.branch,
            "seq": self.seq,
            "trimmed_seq": self.trimmed_seq,
            "last_tick_at": None if self.last_tick_us is None else iso(self.last_tick_us),
            "waiting": self.waiting,
            **self.ordering.as_json(),
            "unknown_destinations": [each.as_json() for each in self.unknown],
        }


@dataclass(frozen=True, slots=True)
class Lag:
    """The entries of one session after a position: `bytes` are bytes of payload, `seconds` the age of the oldest.

    Above `queues.counts.COUNTED` entries, or after a loss by trimming, the numbers are upper bounds: `is_most`. Then
    entries for other sites count too.
    """

    entries: int = 0
    bytes: int = 0
    seconds: float = 0.0
    is_most: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the value of `lag` or `applied_lag`."""
        return {"entries": self.entries, "bytes": self.bytes, "seconds": self.seconds, "is_most": self.is_most}


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """A session: the sink has the log up to `acked_seq` durably; a `stalled` session is behind and does not move.

    `replaced` counts entries that were not sent, because a later entry of the same item was sent in their place.
    `unprovided`: the session waits for a snapshot, and no provider of its client runs.
    The subscriber at the destination has applied the log up to `applied_seq`, as far as the source has heard; None
    while unknown. `applied_lag` counts from there. `unapplied`: the destination has entries that are due for too long.
    `server` leads the session under `generation`; an empty text stands for none.
    """

    client: ClientName
    destination: SiteId
    state: SessionState
    reason: str
    branch: str
    acked_seq: int
    lag: Lag
    stalled: bool
    updated_us: int
    replaced: int = 0
    unprovided: bool = False
    applied_seq: int | None = None
    applied_lag: Lag = Lag()
    unapplied: bool = False
    server: str = ""
    generation: int = 0

    @property
    def state_text(self) -> str:
        """The state with its reason, for people."""
        return f"{self.state}, {self.reason}" if self.reason else self.state.value

    def as_json(self) -> dict[str, Any]:
        """Return an item of `sessions`."""
        return {
            "client": self.client,
            "destination": self.destination,
            "state": self.state.value,
            "reason": self.reason,
            "branch": self.branch,
            "acked_seq": self.acked_seq,
            "applied_seq": self.applied_seq,
            "lag": self.lag.as_json(),
            "applied_lag": self.applied_lag.as_json(),
            "stalled": self.stalled,
            "replaced": self.replaced,
            "unprovided": self.unprovided,
            "unapplied": self.unapplied,
            "server": self.server or None,
            "generation": self.generation,
            "updated_at": iso(self.updated_us),
        }


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """The wish of an operator for a link of this source; a running link is not listed.

    Asked at `asked_us`; `ended_us` is 0 before the end of the link.
    """

    client: ClientName
    destination: SiteId
    wish: LinkWish
    asked_us: int
    ended_us: int

    def as_json(self) -> dict[str, Any]:
        """Return an item of `links`."""
        return {
            "client": self.client,
            "destination": self.destination,
            "wish": self.wish.value,
            "asked_at": iso(self.asked_us),
            "ended_at": iso(self.ended_us) if self.ended_us else None,
        }


@dataclass(frozen=True, slots=True)
class ReplicasStatus:
    """A group of replicas that this source sends to: its members in order, and the one that serves.

    Each choice of `active` has a higher `generation` than the one before.
    """

    name: SiteId
    members: tuple[SiteId, ...]
    active: str
    generation: int

    def as_json(self) -> dict[str, Any]:
        """Return an item of `replicas`."""
        return {**asdict(self), "members": list(self.members)}


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """A request for a snapshot: `share` is between 0 and 1; None, here and below, for an unknown number.

    `cut_seconds` is the age of the cut that the database holds for the build. `bytes` are bytes of payload.
    """

    sync_id: str
    client: ClientName
    destination: SiteId
    state: SnapshotState
    reason: str
    attempt: int
    rows: int
    bytes: int
    progress: str
    expected_rows: int
    sent_rows: int
    share: float | None
    rows_per_second: float | None
    seconds_left: float | None
    cut_seconds: float | None
    error: str
    requested_us: int
    updated_us: int

    @property
    def failed_attempts(self) -> int:
        """The attempts of an unfinished snapshot that have failed until now."""
        if not self.error or self.state not in (SnapshotState.REQUESTED, SnapshotState.BUILDING):
            return 0
        return self.attempt - (self.state is SnapshotState.BUILDING)

    @property
    def told_state(self) -> SnapshotState:
        """The state as monitors see it: failed after `FAILING_ATTEMPTS` failures, though the provider tries again."""
        return SnapshotState.FAILED if self.failed_attempts >= FAILING_ATTEMPTS else self.state

    @property
    def is_failing(self) -> bool:
        """Whether the snapshot has failed, or its last attempt has."""
        is_waiting = self.state is SnapshotState.REQUESTED and bool(self.error)
        return is_waiting or self.told_state is SnapshotState.FAILED

    def as_json(self) -> dict[str, Any]:
        """Return an item of `snapshots`."""
        return {
            "sync_id": self.sync_id,
            "client": self.client,
            "destination": self.destination,
            "state": self.state.value,
            "reason": self.reason,
            "attempt": self.attempt,
            "failed_attempts": self.failed_attempts,
            "rows": self.rows,
            "bytes": self.bytes,
            "progress": self.progress,
            "expected_rows": self.expected_rows,
            "sent_rows": self.sent_rows,
            "share": self.share,
            "rows_per_second": self.rows_per_second,
            "seconds_left": self.seconds_left,
            "cut_seconds": self.cut_seconds,
            "error": self.error,
            "requested_at": iso(self.requested_us),
            "updated_at": iso(self.updated_us),
        }


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


@dataclass(frozen=True, slots=True)
class IngestStatus:
    """The work for producers at one server since its start.

    `requests` and their `messages` have passed the checks, and `groups` were stored. `refusals` counts by kind.
    `waiting` requests are not stored yet, and `streams` are open.
    """

    requests: int = 0
    messages: int = 0
    refusals: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0
    streams: int = 0
    groups: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the value of `ingest`."""
        return {
            "requests": self.requests,
            "messages": self.messages,
            "refusals": dict(self.refusals),
            "waiting": self.waiting,
            "streams": self.streams,
            "groups": self.groups,
        }


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The server that answers: `owner` while it takes the site's ticks; it leads so many `ranges` of sessions.

    `reason` explains both. `endpoints` and `metrics` are the addresses where it listens; `troubles` has a sentence for
    each failing part. `ingest` is None at a server that serves no producers, and `ring` at one without a member.
    `topology` tells the place of its peers.
    """

    owner: bool
    reason: str
    endpoints: tuple[str, ...] = ()
    metrics: str = ""
    name: str = ""
    ranges: int = 0
    troubles: Mapping[str, str] = field(default_factory=dict)
    ingest: IngestStatus | None = None
    topology: TopologyFacts = NO_TOPOLOGY
    ring: RingStatus | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the value of `server`."""
        return {
            "owner": self.owner,
            "reason": self.reason,
            "endpoints": list(self.endpoints),
            "metrics": self.metrics,
            "troubles": dict(self.troubles),
            "name": self.name,
            "ranges": self.ranges,
            "topology": self.topology._asdict(),
            **({"ingest": self.ingest.as_json()} if self.ingest is not None else {}),
            **({"ring": self.ring.as_json()} if self.ring is not None else {}),
        }


@dataclass(frozen=True, slots=True)
class SiteServer:
    """One of the servers that share the work of the site, since `since_us`; it leads so many `ranges` of sessions.

    `alive`: its row has not expired. `sequencer`: the server takes the ticks of the site, and trims. `endpoints` are
    those at which the other servers reach it. `topology` tells the place of its peers; an older lrq tells none.
    """

    name: str
    endpoints: tuple[str, ...]
    alive: bool
    since_us: int
    ranges: int
    sequencer: bool
    topology: TopologyFacts = NO_TOPOLOGY

    def as_json(self) -> dict[str, Any]:
        """Return an item of `servers`."""
        return {
            "name": self.name,
            "endpoints": list(self.endpoints),
            "alive": self.alive,
            "since": iso(self.since_us),
            "ranges": self.ranges,
            "sequencer": self.sequencer,
            "topology": self.topology._asdict(),
        }


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """A site at the time `at_us`; `snapshots` are the newest requests, newest first.

    `quiet` are the peers to which a client has sent nothing yet, so there is no session. `links` are those with a wish
    of an operator. `server` is None in a status that no server gives. `servers` are the running ones, and for a while
    those that have ended. `standbys` is None for a database without standby servers. `replicas` are the groups that the
    site sends to. `replays` are the orders that wait, and those that have ended in the last hour, newest first.
    `ring_rank` is the rank of the member of a ring that keeps this database; None without a ring.
    """

    site: str
    at_us: int
    owners: tuple[OwnerStatus, ...]
    log: LogStatus
    sessions: tuple[SessionStatus, ...] = ()
    snapshots: tuple[SnapshotStatus, ...] = ()
    receive_queues: tuple[ReceiveQueueStatus, ...] = ()
    server: ServerStatus | None = None
    quiet: tuple[SessionKey, ...] = ()
    servers: tuple[SiteServer, ...] = ()
    standbys: StandbyFacts | None = None
    links: tuple[LinkStatus, ...] = ()
    replicas: tuple[ReplicasStatus, ...] = ()
    replays: tuple[ReplayStatus, ...] = ()
    ring_rank: int | None = None

    @property
    def is_other_member(self) -> bool:
        """Whether the database belongs to a member of a ring that does not lead."""
        return self.ring_rank is not None and not self.living

    @property
    def living(self) -> tuple[SiteServer, ...]:
        """The servers that are alive."""
        return tuple(each for each in self.servers if each.alive)

    @property
    def server_owner(self) -> OwnerStatus | None:
        """The last server that took the ticks of the site."""
        return next((each for each in self.owners if each.lease == SERVER_LEASE), None)

    def without_messages(self) -> "SiteStatus":
        """Return the status without the messages of listeners' errors, which may hold parts of payloads."""
        return replace(self, receive_queues=tuple(each.without_messages() for each in self.receive_queues))

    def as_json(self) -> dict[str, Any]:
        """Return the JSON of `lrq status --json`; with `server` also that part."""
        found: dict[str, Any] = {
            "site": self.site,
            "at": iso(self.at_us),
            "owners": [each.as_json() for each in self.owners],
            "servers": [each.as_json() for each in self.servers],
            "log": self.log.as_json(),
            "sessions": [each.as_json() for each in self.sessions],
            "links": [each.as_json() for each in self.links],
            "replicas": [each.as_json() for each in self.replicas],
            "snapshots": [each.as_json() for each in self.snapshots],
            "receive_queues": [each.as_json() for each in self.receive_queues],
            "replays": [each.as_json() for each in self.replays],
            "quiet": [each._asdict() for each in self.quiet],
            "standbys": self.standbys and self.standbys._asdict(),
            "ring_rank": self.ring_rank,
        }
        return found if self.server is None else found | {"server": self.server.as_json()}
