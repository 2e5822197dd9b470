"""What a source and a sink know of one session when they negotiate. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

from queues.errors import ProtocolError
from queues.positions import ORIGIN, Position


class TickKey(NamedTuple):
    """A tick as both sides know it; `uid` is random, so that histories that diverged never share one by accident."""

    branch: str
    seq: int
    uid: int


class Branch(NamedTuple):
    """One unbroken history; it holds what comes after `start_seq`, up to the start of the next branch."""

    branch: str
    start_seq: int


@dataclass(frozen=True, slots=True)
class OfferedSnapshot:
    """The snapshot request that counts for this session, while it is neither applied, cancelled nor given up.

    `base` and `rows` mean something once it is `ready`.
    """

    sync_id: str
    ready: bool = False
    base: Position = ORIGIN
    rows: int = 0


@dataclass(frozen=True, slots=True)
class StagedSnapshot:
    """The first `rows` rows of a snapshot, durable at the sink but not complete."""

    sync_id: str
    rows: int


@dataclass(frozen=True, slots=True)
class SourceHistory:
    """What the source can offer one session; all of it read in one transaction.

    Attributes:
        branches: oldest first, at least one; the last one is current.
        newest_seq: the end of the newest tick.
        trimmed_seq: entries up to and with it are gone, whoever was owed them.
        lost_seq: the end of the newest trimmed tick that held entries for this session; `trimmed_seq` where that
            cannot be told. Invariant: `lost_seq <= trimmed_seq <= newest_seq`.
        known: those of the sink's `headers` that are ticks of this source, with the same uid.
        snapshot: what is offered, None for nothing.
    """

    branches: tuple[Branch, ...]
    newest_seq: int
    trimmed_seq: int = 0
    lost_seq: int = 0
    known: frozenset[TickKey] = frozenset()
    snapshot: OfferedSnapshot | None = None


@dataclass(frozen=True, slots=True)
class SinkHistory:
    """What the sink has durably received of one session.

    Attributes:
        received: how far, possibly in the middle of a tick.
        boundary_seq: the newest tick end at or below `received`. Invariant: `0 <= boundary_seq <= received.seq`.
        applied_seq: what its subscriber has consumed, and nobody but the application can undo.
        headers: the tick ends it could go back to, and the tick it is in the middle of (without that one it goes back
            to where the tick began); none from before its last snapshot, or from before that one's cut was passed.
        staged: the snapshot it is receiving, None for none.
        sync_id: the last snapshot that it completed, "" for none.
        undoes: the application undoes what it has applied, if need be.
    """

    received: Position = ORIGIN
    boundary_seq: int = 0
    applied_seq: int = 0
    headers: tuple[TickKey, ...] = ()
    staged: StagedSnapshot | None = None
    sync_id: str = ""
    undoes: bool = False

    def __post_init__(self) -> None:
        """Raise `ProtocolError` where the invariant does not hold: these numbers come from a peer."""
        if not 0 <= self.boundary_seq <= self.received.seq:
            raise ProtocolError(
                f"the sink contradicts itself: it has received up to {self.received.seq}, "
                f"but calls {self.boundary_seq} the last complete tick"
            )

    @property
    def is_empty(self) -> bool:
        """It has neither log entries nor a complete snapshot."""
        return self.received.seq == 0 and not self.sync_id
