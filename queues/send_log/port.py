"""The `Log` port: the send log of a source, as its server uses it (docs/design.md, "The tick")."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile
from operator import attrgetter
from typing import NamedTuple, Protocol

from sqlalchemy import Connection

from queues.database.leases import Lease
from queues.entry_headers import text_size
from queues.names import ClientName, SiteId
from queues.positions import Tick, Visibility
from queues.replica_groups import Groups
from queues.send_log.trim_blockers import TrimBlocker


class LogRow(NamedTuple):
    """One stored entry. `order` is the commit sequence on PostgreSQL and the id in other stores.

    `headers` is text of `queues.entry_headers`. On PostgreSQL a transaction may hold several source transactions, one
    after the other: requests of producers. Then `request` numbers them from 0, which is None.
    """

    transaction: int
    order: int
    id: int
    client: str
    tag_set: int
    item_key: str | None
    committed_us: int
    payload: bytes
    headers: str | None = None
    partition_key: str | None = None
    request: int | None = None

    def is_in(self, cut: Visibility) -> bool:
        """Return whether a snapshot with this *cut* contains the entry."""
        # By id on SQLite: there an entry of the view `lrq_transmit` may have joined a transaction from before the cut.
        return cut.covers(self.id if cut.window is None else self.transaction, self.order)


def row_size(row: LogRow) -> int:
    """Return the bytes of one row that count for limits, as in `size_of`."""
    size = len(row.payload)
    if row.headers is not None:
        size += text_size(row.headers)
    return size if row.partition_key is None else size + text_size(row.partition_key)


def size_of(rows: Sequence[LogRow]) -> int:
    """Return the bytes of *rows* that count for limits: payloads, headers and partition keys."""
    # Three runs in C take less time than one loop in Python.
    size = sum(map(len, map(_PAYLOAD, rows)))
    for carried in (_HEADERS, _PARTITION_KEY):
        size += sum(map(text_size, filter(None, map(carried, rows))))
    return size


_PAYLOAD: Callable[[LogRow], bytes] = attrgetter("payload")
_HEADERS: Callable[[LogRow], str | None] = attrgetter("headers")
_PARTITION_KEY: Callable[[LogRow], str | None] = attrgetter("partition_key")


class LogPiece(NamedTuple):
    """The next rows of a large tick for one session; `replaced` entries were left out before or among them."""

    rows: Sequence[LogRow]
    replaced: int = 0


class LoggedEntry(NamedTuple):
    """One entry of `tick` with all its destinations; `seq` numbers the entries of all clients without gaps."""

    row: LogRow
    destinations: tuple[SiteId, ...]
    tick: Tick
    seq: int


class SessionKey(NamedTuple):
    """A session of this source, by the client and the destination of its entries."""

    client: ClientName
    destination: SiteId


#: Measures the entries for a session after the first visibility, up to the second; the number limits the count.
#: Returns their number, their payload bytes, and the commit time of the oldest.
OwedSize = Callable[[SessionKey, Visibility | None, Visibility, int], tuple[int, int, int | None]]


def keys_of(rows: Iterable[Sequence[str]]) -> list[SessionKey]:
    """Return the sessions in rows of a client and a destination. Pure."""
    return [SessionKey(ClientName(client), SiteId(destination)) for client, destination in rows]


@dataclass(frozen=True, slots=True)
class TickLimits:
    """The limits of one tick, or of one read of the log; a single transaction may exceed both.

    `payload_bytes` limits the `size_of` all rows.
    """

    rows: int = 5_000
    payload_bytes: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TickRows:
    """A tick and its rows, in order.

    `rows` is None if the tick is one transaction above the limits; `Log.stream` reads such a tick piece by piece.
    `sets` holds the destinations of every tag set in the tick. `more` tells whether the next tick may have entries
    already.
    """

    tick: Tick
    rows: Sequence[LogRow] | None
    sets: dict[int, frozenset[SiteId]]
    more: bool = False


@dataclass(frozen=True, slots=True)
class Bounds:
    """The kept entries: from after `trimmed_seq` to the end of the tick `newest` (None: no tick yet)."""

    trimmed_seq: int
    newest: Tick | None


@dataclass(frozen=True, slots=True)
class Retention:
    """The age and the size up to which entries are kept for sessions that have not acknowledged them.

    Entries that only unknown destinations lack are kept for `unknown_seconds`. Unknown is each site outside `peers`;
    with None, no site is unknown. Entries that every session has acknowledged are kept for `acknowledged_seconds`.
    """

    seconds: float = 7 * 86_400.0
    payload_bytes: int = 10 * 1024**3
    unknown_seconds: float = 3_600.0
    peers: frozenset[SiteId] | None = None
    acknowledged_seconds: float = 0.0

    def longer(self, seconds: float) -> "Retention":
        """Return this retention with each time longer by *seconds*; a time of 0 stays, because nothing is kept."""
        return replace(
            self,
            seconds=self.seconds + seconds,
            unknown_seconds=self.unknown_seconds + seconds,
            acknowledged_seconds=self.acknowledged_seconds and self.acknowledged_seconds + seconds,
        )


@dataclass(frozen=True, slots=True)
class TrimResult:
    """The result of one run of trim: the trimmed sequence, and the `laggards`, which now need a full snapshot.

    Unordered entries have no place in the order of commits, so no tick holds them. The run found `found_unordered` of
    them, and trimmed `dropped_unordered` with segments beyond retention. See `queues.send_log.unordered`.

    `dropped_unknown` counts the trimmed entries that unknown destinations lack. `blockers` are told only if the run
    could not empty a table in use.
    """

    seq: int
    emptied_segments: int = 0
    laggards: tuple[SessionKey, ...] = field(default=())
    found_unordered: int = 0
    dropped_unordered: int = 0
    dropped_unknown: Mapping[SessionKey, int] = field(default_factory=dict)
    blockers: tuple[TrimBlocker, ...] = ()


class Regrouped(NamedTuple):
    """The sessions with other entries than before, whose numbers of entries are others too; `is_change`: of groups."""

    sessions: frozenset[SessionKey] = frozenset()
    is_change: bool = False


#: A further change in the transaction of `Log.regroup`.
Then = Callable[[Connection, Regrouped], None]


def ignore(group: TickRows) -> None:
    """Do nothing with a tick that is not durable yet."""


def count_within(sizes: Sequence[int], limits: TickLimits) -> int:
    """Return how many of the next rows fit *limits*, at least one; *sizes* are as in `size_of`."""
    totals = accumulate(sizes[: limits.rows])
    fitting = sum(1 for _ in takewhile(lambda total: total <= limits.payload_bytes, totals))
    return max(fitting, min(len(sizes), 1))


class Log(Protocol):
    """The send log of a source. Only the owner of the lease takes ticks; any process may read.

    A tick never changes: every read gives the same rows in the same order, until the tick is trimmed. All rows of a
    transaction are in one tick, and transactions never interleave.
    """

    def bounds(self) -> Bounds:
        """Return the bounds of the kept entries."""
        ...

    def take_tick(
        self, lease: Lease, last: Tick | None, meanwhile: Callable[[TickRows], None] = ignore
    ) -> TickRows | None:
        """Close the entries committed since *last*, the newest tick, in a new tick within the limits.

        Return None without new entries. On return the tick and its entries are durable. Raises `OwnershipLostError` if
        another process holds the lease. Raises `StoreUnavailableError` if *last* is no longer the newest tick. Without
        new entries there may be no error.

        While the disk writes the tick, *meanwhile* may be called once with the object that is returned later. Nothing
        of it may leave this process yet: the tick may still fail.
        """
        ...

    def regroup(self, lease: Lease, groups: Groups, then: Then) -> None:
        """Let all entries, old ones too, follow *groups* of replicas, in one transaction between two ticks.

        The transaction calls *then*; a log without a database does not. Raises `OwnershipLostError`.
        """
        ...

    def close(self) -> None:
        """Close the connection that takes ticks; the next tick opens another, and garbage collection closes too."""
        ...

    def ticks_after(self, seq: int, limits: TickLimits) -> list[Tick]:
        """Return the oldest ticks that end after *seq*, within *limits* but at least one if there is any.

        A large tick is always alone; read it with `stream`. `read` takes all other ticks of an answer together.
        Raises `TrimmedError` if entries after *seq* are trimmed.
        """
        ...

    def read(self, owed: SessionKey, ticks: Sequence[Tick]) -> list[list[LogRow]]:
        """Return the rows for the session *owed*, for each of *ticks* (neighbours, in order).

        Rows of other sessions are not read. Raises `TrimmedError`.
        """
        ...

    def stream(self, owed: SessionKey, tick: Tick, skip: int, limits: TickLimits) -> Iterator[LogPiece]:
        """Yield the session's rows of one large tick in pieces within *limits*, without the first *skip* rows.

        Of the most repeated items, only the last entry is among the rows: see `queues.send_log.replaced`.
        """
        ...

    def read_all(self, ticks: Sequence[Tick], limits: TickLimits) -> Iterator[list[LoggedEntry]]:
        """Yield the entries of *ticks* (one answer of `ticks_after`) for all destinations, in the order of the log.

        Usual ticks are one piece; a large tick has pieces within *limits*. Each piece is a separate read, so a slow
        reader holds no transaction open. Raises `TrimmedError`.
        """
        ...

    def followed(self, ticks: Sequence[Tick]) -> list[TickRows]:
        """Return *ticks* (one answer of `ticks_after`) with their rows, as `take_tick` returned them.

        A large tick has neither rows nor sets. `more` is always False. Raises `TrimmedError`.
        """
        ...

    def rotate(
        self, lease: Lease, segment_bytes: int, segment_seconds: float, retention: Retention | None = None
    ) -> bool:
        """Begin a new segment if the current one is older or larger and the next is empty; return whether.

        With *retention*, segments are short enough for it, and enough partitions stay free: see
        `queues.send_log.rotation`.
        """
        ...

    def trim(self, lease: Lease, retention: Retention) -> TrimResult:
        """Trim the oldest segments that all sessions have acknowledged, or that are beyond *retention*.

        Beyond retention, sessions that have not acknowledged a segment lose its entries: the same transaction records
        that. A segment with unordered entries is trimmed only beyond retention.

        A segment that no session lacks is trimmed after `Retention.acknowledged_seconds`.

        A segment that only unknown destinations lack is trimmed after `Retention.unknown_seconds`. The same transaction
        counts the dropped entries.
        """
        ...
