"""The settings, objects and lease with which a server starts its sessions."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from sqlalchemy import Engine

from discovery.threads import OnEnded
from lr_server.protocol.negotiation import InitialSync
from lr_server.session.changed_sessions import ChangedSessions
from lr_server.session.frame_sources import FrameSources
from lr_server.session.outages import Outages
from lr_server.session.outgoing import Outgoing
from lr_server.session.routes import Routes
from lr_server.session.snapshots import ShowSnapshot, as_stored
from lr_server.session.stream_threads import StreamThreads
from lr_server.session.traffic import SessionTraffic
from queues.backoff import Backoff
from queues.clock import Clock
from queues.database.leases import Lease
from queues.errors import OwnershipLostError
from queues.names import SiteId
from queues.send_log.port import SessionKey
from sink.port import RestingSink, Sink


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The limits of one session: frames in flight, heartbeat, stall and retry times.

    After `retry_limit` tries without progress the session tries no more; None for no limit. A session's thread waits at
    most `retry_patience` seconds for the next try, and `Session.retry_if_due` begins a later one.
    """

    window_frames: int
    window_bytes: int
    batch_bytes: int
    heartbeat_seconds: float
    stall_seconds: float
    slow_retry_seconds: float
    backoff: Backoff
    initial_sync: InitialSync
    retry_patience: float
    retry_limit: int | None = None


class Leadership(NamedTuple):
    """The lease of a session's range, and the branch of the log that the server knows."""

    lease: Lease
    branch: str


class Connect(Protocol):
    """Connects a session to its sink, by the way of the log or of snapshots."""

    def __call__(self, owed: SessionKey, *, for_snapshots: bool, is_slow: bool) -> Sink | RestingSink:
        """Return the sink; raise `PeerUnreachableError` or `ConfigurationError`.

        A connection by a line that *is_slow* may be silent for a minute.
        """
        ...


@dataclass(frozen=True, slots=True)
class SessionContext:
    """The objects and settings that all sessions of a server share."""

    engine: Engine
    site: SiteId
    clock: Clock
    limits: SessionLimits
    connect: Connect
    has_snapshot_way: Callable[[SessionKey], bool]
    routes: Routes
    stream_threads: StreamThreads
    on_lost: Callable[[OwnershipLostError], None]
    on_ended: OnEnded
    outgoing: Callable[[SessionKey], Outgoing]
    paths: Callable[[Outgoing], FrameSources]
    outages: Outages
    traffic: Callable[[SessionKey], SessionTraffic]
    #: Called with the newest generation of a member that the sink has been told, 0 for none.
    heard: Callable[[SiteId, int], None]
    #: The generation of a ring that this server leads; 0 where each session tells the generation of its lease.
    generation: int = 0
    #: Returns a request for a snapshot as sessions may see it.
    shown: ShowSnapshot = as_stored
    #: The sessions whose standing is to be read at the next save.
    changed: ChangedSessions = field(default_factory=ChangedSessions)
    #: Held while standings of sessions are read and saved.
    saving: threading.Lock = field(default_factory=threading.Lock)
