"""The log-entry queue of a source, as its server reads it: the `Log` port (DESIGN 2, 3 and 8)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from queues.leases import Lease
from queues.names import ClientName, SiteId
from queues.positions import Tick


class LogRow(NamedTuple):
    """One stored entry. `order` is the commit sequence on PostgreSQL and the id elsewhere."""

    transaction: int
    order: int
    id: int
    client: str
    tag_set: int
    item_key: str | None
    committed_us: int
    payload: bytes


class Owed(NamedTuple):
    """Whose entries are meant: those of one client that one destination is owed."""

    client: ClientName
    destination: SiteId


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one tick, or one read of the log, may hold; a single transaction may exceed both."""

    rows: int = 5_000
    payload_bytes: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Group:
    """A tick and its rows, in order.

    `rows` is None when one transaction is above the limits: it is then read piece by piece, with `Log.stream`.
    `sets` holds the destinations of every tag set that occurs in it; `more` tells that its limits may have left
    something for the next tick.
    """

    tick: Tick
    rows: Sequence[LogRow] | None
    sets: dict[int, frozenset[SiteId]]
    more: bool = False


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is still kept: the entries after `trimmed_seq`, up to and with `newest` (None: no tick yet)."""

    trimmed_seq: int
    newest: Tick | None


@dataclass(frozen=True, slots=True)
class Retention:
    """How long entries are kept for those who have not acknowledged them."""

    seconds: float = 7 * 86_400.0
    payload_bytes: int = 10 * 1024**3


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What one run of trim did: `laggards` lost their claim and need a full snapshot."""

    seq: int
    emptied_segments: int = 0
    laggards: tuple[Owed, ...] = field(default=())


class Log(Protocol):
    """A source's log-entry queue. One process, the owner of the lease, takes ticks; anybody may read.

    What a tick holds never changes: reading it again gives the same rows in the same order, until it is trimmed.
    A transaction is always whole in one tick, and transactions never interleave.
    """

    def bounds(self) -> Bounds:
        """Return what is kept."""
        ...

    def take_tick(self, lease: Lease, last: Tick | None) -> Group | None:
        """Close what was committed since *last* (the newest tick) in a new tick, up to its limits; None: nothing was.

        The tick is durable on return, and so is all it holds. Where there is something to close, raises
        `OwnershipLostError` when the lease is another's by now, `StoreUnavailableError` when *last* is not the newest
        tick any more.
        """
        ...

    def close(self) -> None:
        """Give back what taking ticks holds; it may go on afterwards. Who forgets the log needs no such call."""
        ...

    def ticks_after(self, seq: int, limits: Limits) -> list[Tick]:
        """Return the oldest ticks that end after *seq*, within *limits*, but one if there is any.

        A large tick comes alone: `stream` it. Those of any other answer can be `read` together.
        Raises `TrimmedError` when entries after *seq* are gone.
        """
        ...

    def read(self, owed: Owed, ticks: Sequence[Tick]) -> list[list[LogRow]]:
        """Return the rows of each of *ticks* (neighbours, in order) that are *owed*.

        Does not read what others are owed. Raises `TrimmedError`.
        """
        ...

    def stream(self, owed: Owed, tick: Tick, skip: int, limits: Limits) -> Iterator[list[LogRow]]:
        """Yield the rows of one large tick in pieces within *limits*, without the first *skip* ones."""
        ...

    def rotate(self, lease: Lease, segment_bytes: int, segment_seconds: float) -> bool:
        """Begin a new segment if the current one is older or larger and the next one is empty; tell whether."""
        ...

    def trim(self, lease: Lease, retention: Retention) -> Trimmed:
        """Empty the oldest segments that everyone has acknowledged, or that are beyond *retention*.

        In the second case the sessions that had not acknowledged them lose their claim in the same transaction.
        """
        ...
