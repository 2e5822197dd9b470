"""The status of the links of a source: sessions with their lag, ended links, and groups of replicas."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from queues.clock import iso
from queues.names import ClientName, SiteId
from queues.states import LinkWish, SessionState

#: A session that is behind without progress for this time, in seconds, is stalled. Received entries are due then too.
STALL_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Lag:
    """The entries of one session after a position: `bytes` are bytes of payload, `seconds` the age of the oldest.

    Above `queues.counts.COUNTED` entries, or where the log is trimmed, the numbers are upper bounds: `is_most`. Then
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
    while unknown. `applied_lag` counts from there. `unapplied`: the destination is connected, and has entries that are
    due for too long. `server` leads the session under `generation`; an empty text stands for none. `window_percent` of
    the window is in use, in steps of ten: 100 means that the session waits for the destination's answers before it
    sends more.
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
    window_percent: int = 0

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
            "window_percent": self.window_percent,
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
