"""The histories of a source and a sink that negotiation compares. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

from queues.errors import ProtocolError
from queues.positions import ORIGIN, Position


class TickKey(NamedTuple):
    """A tick as both sides know it; `uid` is random, so diverged histories share no key by accident."""

    branch: str
    seq: int
    uid: int


class Branch(NamedTuple):
    """One unbroken history: the entries after `start_seq`, up to the start of the next branch."""

    branch: str
    start_seq: int


@dataclass(frozen=True, slots=True)
class OfferedSnapshot:
    """The newest snapshot request of this session, unless it is applied, cancelled or given up.

    `base` and `rows` are valid once `ready` is True. `is_first`: the server requested the snapshot itself, because the
    sink had nothing yet.
    """

    sync_id: str
    ready: bool = False
    base: Position = ORIGIN
    rows: int = 0
    is_first: bool = False


@dataclass(frozen=True, slots=True)
class StagedSnapshot:
    """An incomplete snapshot at the sink: its first `rows` rows are durable."""

    sync_id: str
    rows: int


@dataclass(frozen=True, slots=True)
class SourceHistory:
    """The source's side of one session, read in one transaction.

    Invariant: `lost_seq <= trimmed_seq <= newest_seq`.

    Attributes:
        branches: All branches, oldest first, at least one; the last one is current.
        newest_seq: The end of the newest tick.
        trimmed_seq: All entries up to here, inclusive, are trimmed, for every session.
        lost_seq: The end of the newest trimmed tick with entries for this session; `trimmed_seq` if unknown.
        known: The sink's `headers` that are ticks of this source, with the same uid.
        snapshot: The snapshot on offer, None if there is none.
        is_whole: The log surely holds every entry that was ever written for this session.
        is_provided: Snapshots of the client can be expected: a provider runs, ran just now, or has completed one.
        is_member: The site is one of several replicas, which never differ.
        knows_cut: The cut of the sink's position, if it has one, belongs to a snapshot of this history.
        lacked_base: The base of the newest snapshot that the sink has applied, if it has lost that since; otherwise -1.
    """

    branches: tuple[Branch, ...]
    newest_seq: int
    trimmed_seq: int = 0
    lost_seq: int = 0
    known: frozenset[TickKey] = frozenset()
    snapshot: OfferedSnapshot | None = None
    is_whole: bool = False
    is_provided: bool = False
    is_member: bool = False
    knows_cut: bool = True
    lacked_base: int = -1


@dataclass(frozen=True, slots=True)
class SinkHistory:
    """The sink's side of one session: its durable state.

    Invariant: `0 <= boundary_seq <= received.seq`.

    Attributes:
        received: The received position, possibly in the middle of a tick.
        boundary_seq: The newest tick end at or below `received`.
        applied_seq: The subscriber has applied everything up to here; only the application can undo applied entries.
        headers: The tick ends to which the sink can go back, and the tick that it has in part. Without the header of
            that tick the sink goes back to the tick's beginning. No header is older than the last snapshot, or than
            the tick that passed the snapshot's cut.
        staged: The snapshot that is arriving, None if there is none.
        sync_id: The last completed snapshot, "" if there is none.
        undoes: Whether the application can undo applied entries.
    """

    received: Position = ORIGIN
    boundary_seq: int = 0
    applied_seq: int = 0
    headers: tuple[TickKey, ...] = ()
    staged: StagedSnapshot | None = None
    sync_id: str = ""
    undoes: bool = False

    def __post_init__(self) -> None:
        """Raise `ProtocolError` if the invariant is broken: the numbers come from a peer."""
        if not 0 <= self.boundary_seq <= self.received.seq:
            raise ProtocolError(
                f"the sink contradicts itself: the last complete tick ends at {self.boundary_seq}, "
                f"beyond the received entries up to {self.received.seq}"
            )

    @property
    def is_empty(self) -> bool:
        """Whether the sink has neither log entries nor a complete snapshot."""
        return self.received.seq == 0 and not self.sync_id
