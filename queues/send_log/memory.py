"""The send log in memory: the reference for the SQL dialects, and a store for tests.

Several transactions may be open at once. The log has them in the order of commits; the SQL stores promise that for
transactions that conflict.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from queues.clock import now_us
from queues.database.leases import Lease
from queues.errors import OwnershipLostError, TrimmedError
from queues.names import ClientName, SiteId
from queues.positions import Tick, Visibility
from queues.replica_groups import NO_GROUPS, Groups, owed_sites
from queues.send_log.outbox import NewEntry
from queues.send_log.port import (
    Bounds,
    LoggedEntry,
    LogPiece,
    LogRow,
    Retention,
    SessionKey,
    Then,
    TickLimits,
    TickRows,
    TrimResult,
    count_within,
    ignore,
    row_size,
    size_of,
)
from queues.send_log.replaced import remaining
from queues.send_log.rotation import SegmentLimits
from queues.send_log.segment_claims import Claim, is_kept

#: The only branch of the log in memory.
BRANCH = "memory"


@dataclass(frozen=True, slots=True)
class _Stored:
    row: LogRow
    destinations: frozenset[SiteId]


@dataclass(slots=True)
class MemoryTransaction:
    """An open transaction; its entries are invisible before `commit`."""

    _log: "MemoryLog"
    _client: str
    _entries: list[NewEntry] = field(default_factory=list)

    def write(self, entries: Sequence[NewEntry]) -> None:
        """Add *entries* to the transaction, in their order."""
        self._entries += entries

    def savepoint(self) -> int:
        """Return a savepoint for `rollback_to`."""
        return len(self._entries)

    def rollback_to(self, savepoint: int) -> None:
        """Forget the entries written after *savepoint*."""
        del self._entries[savepoint:]

    def commit(self) -> None:
        """Append the entries to the log, after all entries committed before."""
        self._log.append(self._client, self._entries)
        self._entries = []

    def rollback(self) -> None:
        """Forget the entries."""
        self._entries = []


class MemoryLog:
    """See `queues.send_log.port.Log`."""

    def __init__(self, limits: TickLimits | None = None) -> None:
        self._limits = limits or TickLimits()
        self._stored: list[_Stored] = []
        self._segments: list[int] = []
        self._ticks: list[Tick] = []
        self._acked: dict[SessionKey, int] = {}
        self._trimmed_seq = 0
        self._segment = 0
        self._opened_us = now_us()
        self._generation = 0
        self._ids = 0
        self._groups: Groups = NO_GROUPS
        self._guard = threading.RLock()

    def regroup(self, lease: Lease, groups: Groups, then: Then) -> None:  # noqa: ARG002 - there is no database
        """See the port."""
        with self._guard:
            self._check(lease)
            self._groups = groups

    def _owed(self, stored: _Stored) -> frozenset[SiteId]:
        return frozenset(owed_sites(stored.destinations, self._groups))

    def begin(self, client: str) -> MemoryTransaction:
        """Open a transaction of *client*."""
        return MemoryTransaction(self, client)

    def append(self, client: str, entries: Sequence[NewEntry]) -> None:
        """Append the entries of a committed transaction."""
        with self._guard:
            transaction = self._ids + 1
            for entry in entries:
                self._ids += 1
                row = LogRow(
                    self._ids, transaction, self._ids, client, entry.destinations.number, entry.item_key, now_us(),
                    entry.payload, entry.headers, entry.partition_key,
                )  # fmt: skip
                destinations = frozenset(map(SiteId, entry.destinations.text.split(",")))
                self._stored.append(_Stored(row, destinations))
                self._segments.append(self._segment)

    def acknowledge(self, owed: SessionKey, seq: int) -> None:
        """Record the acknowledged sequence of a session; before that the log does not know the session."""
        self._acked[owed] = seq

    def bounds(self) -> Bounds:
        """See the port."""
        with self._guard:
            return Bounds(self._trimmed_seq, self._ticks[-1] if self._ticks else None)

    def take_tick(
        self,
        lease: Lease,
        last: Tick | None,
        meanwhile: Callable[[TickRows], None] = ignore,  # noqa: ARG002 - the commit leaves no time in between
    ) -> TickRows | None:
        """See the port."""
        with self._guard:
            self._check(lease)
            if (self._ticks[-1] if self._ticks else None) != last:
                raise OwnershipLostError("ticks", lease.generation, lease.generation + 1)
            after = Visibility.parse(last.mark).high if last else 0
            chosen, is_large = self._fill([stored for stored in self._stored if stored.row.id > after])
            if not chosen:
                return None
            start = last.end_seq if last else 0
            tick = Tick(
                number=len(self._ticks) + 1, uid=hash((start, chosen[-1].row.id)) & (2**62 - 1), branch=BRANCH,
                start_seq=start, end_seq=start + len(chosen),
                bytes_total=(last.bytes_total if last else 0) + size_of([stored.row for stored in chosen]),
                is_large=is_large, mark=str(Visibility(high=chosen[-1].row.id)), created_us=now_us(),
                omits_replaced=True,
            )  # fmt: skip
            self._ticks.append(tick)
            sets = {stored.row.tag_set: self._owed(stored) for stored in chosen}
            more = chosen[-1] is not self._stored[-1]
            return TickRows(tick, None if is_large else [stored.row for stored in chosen], sets, more=more)

    def _fill(self, waiting: list[_Stored]) -> tuple[list[_Stored], bool]:
        """Return whole transactions within the limits; if the first exceeds them, only that one and True."""
        chosen: list[_Stored] = []
        size = 0
        while len(chosen) < len(waiting):
            transaction = waiting[len(chosen)].row.order
            whole = [stored for stored in waiting[len(chosen) :] if stored.row.order == transaction]
            weight = size_of([stored.row for stored in whole])
            fits = len(chosen) + len(whole) <= self._limits.rows and size + weight <= self._limits.payload_bytes
            if not fits:
                return (chosen, False) if chosen else (whole, True)
            chosen += whole
            size += weight
        return chosen, False

    def close(self) -> None:
        """Do nothing: the log holds no resources."""

    def ticks_after(self, seq: int, limits: TickLimits) -> list[Tick]:
        """See the port."""
        with self._guard:
            self._check_kept(seq)
            waiting = [tick for tick in self._ticks if tick.end_seq > seq]
        found: list[Tick] = []
        for tick in waiting:
            fits = not tick.is_large and tick.end_seq - waiting[0].start_seq <= limits.rows
            if found and not (fits and not found[0].is_large):
                break
            found.append(tick)
        return found

    def read(self, owed: SessionKey, ticks: Sequence[Tick]) -> list[list[LogRow]]:
        """See the port."""
        return [self._rows(owed, tick) for tick in ticks]

    def stream(self, owed: SessionKey, tick: Tick, skip: int, limits: TickLimits) -> Iterator[LogPiece]:
        """See the port; the number of items has no limit here."""
        rows = self._rows(owed, tick)
        last = {row.item_key: row.id for row in rows if row.item_key is not None}

        def read(after: int, skipped: int) -> list[LogRow]:
            return [row for row in rows if row.id > after][skipped : skipped + limits.rows]

        yield from remaining(0, skip, last, read, lambda after: [(row.id, row.item_key) for row in read(after, 0)])

    def read_all(self, ticks: Sequence[Tick], limits: TickLimits) -> Iterator[list[LoggedEntry]]:
        """See the port."""
        entries = [entry for tick in ticks for entry in self._entries(tick)]
        if not ticks[0].is_large:
            yield entries
            return
        while entries:
            self._check_kept(ticks[0].start_seq)
            taken = count_within([row_size(entry.row) for entry in entries], limits)
            yield entries[:taken]
            del entries[:taken]

    def _entries(self, tick: Tick) -> list[LoggedEntry]:
        return [
            LoggedEntry(stored.row, tuple(sorted(self._owed(stored))), tick, seq)
            for seq, stored in enumerate(self._held(tick), start=tick.start_seq + 1)
        ]

    def _rows(self, owed: SessionKey, tick: Tick) -> list[LogRow]:
        return [
            stored.row
            for stored in self._held(tick)
            if owed.destination in self._owed(stored) and stored.row.client == owed.client
        ]

    def _held(self, tick: Tick) -> list[_Stored]:
        with self._guard:
            self._check_kept(tick.start_seq)
            after = self._ticks[tick.number - 2] if tick.number > 1 else None
            low, high = Visibility.parse(after.mark).high if after else 0, Visibility.parse(tick.mark).high
            return [stored for stored in self._stored if low < stored.row.id <= high]

    def followed(self, ticks: Sequence[Tick]) -> list[TickRows]:
        """See the port."""
        return [TickRows(ticks[0], None, {})] if ticks[0].is_large else [self._followed(tick) for tick in ticks]

    def _followed(self, tick: Tick) -> TickRows:
        held = self._held(tick)
        return TickRows(tick, [stored.row for stored in held], {each.row.tag_set: self._owed(each) for each in held})

    def rotate(
        self, lease: Lease, segment_bytes: int, segment_seconds: float, retention: Retention | None = None
    ) -> bool:
        """See the port; the number of segments has no limit here."""
        limits = SegmentLimits(segment_seconds, segment_bytes).within(retention)
        with self._guard:
            self._check(lease)
            mine = [s for s, segment in zip(self._stored, self._segments, strict=True) if segment == self._segment]
            size = size_of([stored.row for stored in mine])
            if not mine or not limits.are_reached(size, now_us() - self._opened_us):
                return False
            self._segment += 1
            self._opened_us = now_us()
            return True

    def trim(self, lease: Lease, retention: Retention) -> TrimResult:
        """See the port."""
        laggards: list[SessionKey] = []
        unknown: Counter[SessionKey] = Counter()
        emptied = 0
        with self._guard:
            self._check(lease)
            while self._stored and self._segments[0] < self._segment:
                lost = self._empty_oldest(retention)
                if lost is None:
                    break
                laggards += lost[0]
                unknown.update(lost[1])
                emptied += 1
            return TrimResult(self._trimmed_seq, emptied, tuple(laggards), dropped_unknown=unknown)

    def _empty_oldest(self, retention: Retention) -> tuple[list[SessionKey], Counter[SessionKey]] | None:
        count = self._segments.count(self._segments[0])
        high = self._stored[count - 1].row.id
        upto = next((tick for tick in self._ticks if Visibility.parse(tick.mark).high >= high), None)
        if upto is None:
            return None
        lost = [owed for owed, acked in self._acked.items() if self._owes(owed, acked, upto)]
        known = set(self._acked)
        strangers = Counter(
            owed
            for stored in self._stored[:count]
            for destination in self._owed(stored)
            if (owed := SessionKey(ClientName(stored.row.client), destination)) not in known
        )
        peers = retention.peers
        claims = [Claim(owed, acked, is_unknown=False) for owed, acked in self._acked.items() if owed in lost]
        claims += [Claim(owed, 0, peers is not None and owed.destination not in peers) for owed in strangers]
        newest = self._ticks[-1]
        too_old = upto.created_us < now_us() - int(retention.seconds * 1_000_000)
        beyond = too_old or upto.bytes_total <= newest.bytes_total - retention.payload_bytes
        if not beyond and is_kept(claims, upto.created_us, retention, now_us()):
            return None
        del self._stored[:count], self._segments[:count]
        self._trimmed_seq = max(self._trimmed_seq, upto.end_seq)
        return lost, Counter({claim.owed: strangers[claim.owed] for claim in claims if claim.is_unknown})

    def _owes(self, owed: SessionKey, acked: int, upto: Tick) -> bool:
        owing = [tick for tick in self._ticks if acked < tick.end_seq <= upto.end_seq]
        return any(tick.start_seq >= self._trimmed_seq and self._rows(owed, tick) for tick in owing)

    def _check(self, lease: Lease) -> None:
        if lease.generation < self._generation:
            raise OwnershipLostError(lease.name, lease.generation, self._generation)
        self._generation = lease.generation

    def _check_kept(self, seq: int) -> None:
        if seq < self._trimmed_seq:
            raise TrimmedError(requested=seq, oldest=self._trimmed_seq)
