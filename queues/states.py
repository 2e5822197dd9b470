"""The states of sessions and snapshots, as the tables store them and `lrq status` shows them. Pure."""

from enum import StrEnum
from typing import Final


class SessionState(StrEnum):
    """The progress of a session with its sink.

    The usual path is idle -> negotiating -> log-entry sync. A session that the sink cannot resume takes a detour:
    rolling back, or snapshot sync -> wait for apply. `lr_server.protocol.machine` holds all transitions.
    """

    IDLE = "idle"
    NEGOTIATING = "negotiating"
    #: Disconnected; the session waits for its next attempt.
    BACKING_OFF = "backing off"
    ROLLING_BACK = "rolling back"
    SNAPSHOT_SYNC = "snapshot sync"
    WAIT_FOR_APPLY = "wait for apply"
    LOG_ENTRY_SYNC = "log-entry sync"
    #: The link has ended: the session sends the remaining entries, then the end of the stream.
    DRAINING = "draining"
    #: An operator must act; until then the session retries slowly.
    FAILED = "failed"
    #: The session's server ended it.
    STOPPED = "stopped"
    #: The link has ended: the sink has every entry and the end of the stream.
    FINISHED = "finished"
    #: Inactive: the settings no longer contain the session's site or client, so no server runs the session.
    INACTIVE = "inactive"

    @classmethod
    def _missing_(cls, value: object) -> "SessionState | None":
        # Earlier versions stored another word; their rows are not rewritten.
        return cls.INACTIVE if value == _EARLIER_INACTIVE else None


_EARLIER_INACTIVE: Final = "left out"
#: Both words that the row of an inactive session may hold, for SQL.
STORED_INACTIVE: Final = (SessionState.INACTIVE.value, _EARLIER_INACTIVE)


class LinkWish(StrEnum):
    """The wish of an operator for a link, the replication of one client to one destination.

    The path is running -> draining -> ended. A running link has no row.
    """

    RUNNING = "running"
    #: New entries are refused, and the session sends all earlier ones.
    DRAINING = "draining"
    #: The sink has all entries and the end of the stream, or an operator has forgotten the link.
    ENDED = "ended"
    #: The link of a site that is no peer was forgotten: no entry is kept, and none is refused.
    RELEASED = "released"


class SnapshotState(StrEnum):
    """The progress of a snapshot sync.

    The path is requested -> building -> ready -> applied; each of the first three can also become cancelled or failed.
    A failed attempt goes from building back to requested and keeps its error.
    """

    REQUESTED = "requested"
    BUILDING = "building"
    READY = "ready"
    APPLIED = "applied"
    CANCELLED = "cancelled"
    FAILED = "failed"


#: The error of an attempt that ended with the stop of its process, which is no failure of the provider.
PROVIDER_STOPPED: Final = "the transmitter was closed"
