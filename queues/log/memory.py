"""The log-entry queue in memory: the reference that the SQL dialects are compared with, and a store for tests.

Several transactions may be open at once. They are ordered by their commits, which is what the SQL stores promise for
all transactions that conflict.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from queues.clock import now_us
from queues.errors import OwnershipLostError, TrimmedError
from queues.leases import Lease
from queues.log.outbox import NewEntry
from queues.log.port import Bounds, Group, Limits, LogRow, Owed, Retention, Trimmed
from queues.names import SiteId
from queues.positions import Mark, Tick

#: The one history that it has.
BRANCH = "memory"


@dataclass(frozen=True, slots=True)
class _Stored:
    row: LogRow
    destinations: frozenset[SiteId]


@dataclass(slots=True)
class MemoryTransaction:
    """An open transaction; nothing of it is seen before `commit`."""

    _log: "MemoryLog"
    _client: str
    _entries: list[NewEntry] = field(default_factory=list)

    def write(self, entries: Sequence[NewEntry]) -> None:
        """Queue *entries* in their order."""
        self._entries += entries

    def savepoint(self) -> int:
        """Return what `rollback_to` goes back to."""
        return len(self._entries)

    def rollback_to(self, savepoint: int) -> None:
        """Forget what came after the savepoint."""
        del self._entries[savepoint:]

    def commit(self) -> None:
        """Let everybody see it, after all that was committed before."""
        self._log.append(self._client, self._entries)
        self._entries = []

    def rollback(self) -> None:
        """Forget it."""
        self._entries = []


class MemoryLog:
    """See `queues.log.port.Log`."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._stored: list[_Stored] = []
        self._segments: list[int] = []
        self._ticks: list[Tick] = []
        self._acked: dict[Owed, int] = {}
        self._trimmed_seq = 0
        self._segment = 0
        self._opened_us = now_us()
        self._generation = 0
        self._ids = 0
        self._guard = threading.RLock()

    def begin(self, client: str) -> MemoryTransaction:
        """Open a transaction of *client*."""
        return MemoryTransaction(self, client)

    def append(self, client: str, entries: Sequence[NewEntry]) -> None:
        """Store a committed transaction."""
        with self._guard:
            transaction = self._ids + 1
            for entry in entries:
                self._ids += 1
                row = LogRow(
                    self._ids, transaction, self._ids, client, entry.destinations.number, entry.item_key, now_us(),
                    entry.payload,
                )  # fmt: skip
                self._stored.append(_Stored(row, frozenset(map(SiteId, entry.destinations.text.split(",")))))
                self._segments.append(self._segment)

    def acknowledge(self, owed: Owed, seq: int) -> None:
        """Note what a session has durably; a session that was never noted is a stranger."""
        self._acked[owed] = seq

    def bounds(self) -> Bounds:
        """See the port."""
        with self._guard:
            return Bounds(self._trimmed_seq, self._ticks[-1] if self._ticks else None)

    def take_tick(self, lease: Lease, last: Tick | None) -> Group | None:
        """See the port."""
        with self._guard:
            self._check(lease)
            if (self._ticks[-1] if self._ticks else None) != last:
                raise OwnershipLostError("ticks", lease.generation, lease.generation + 1)
            after = Mark.parse(last.mark).high if last else 0
            chosen, is_large = self._fill([stored for stored in self._stored if stored.row.id > after])
            if not chosen:
                return None
            start = last.end_seq if last else 0
            tick = Tick(
                number=len(self._ticks) + 1, uid=hash((start, chosen[-1].row.id)) & (2**62 - 1), branch=BRANCH,
                start_seq=start, end_seq=start + len(chosen),
                bytes_total=(last.bytes_total if last else 0) + sum(len(stored.row.payload) for stored in chosen),
                is_large=is_large, mark=str(Mark(high=chosen[-1].row.id)), created_us=now_us(),
            )  # fmt: skip
            self._ticks.append(tick)
            sets = {stored.row.tag_set: stored.destinations for stored in chosen}
            more = chosen[-1] is not self._stored[-1]
            return Group(tick, None if is_large else [stored.row for stored in chosen], sets, more=more)

    def _fill(self, waiting: list[_Stored]) -> tuple[list[_Stored], bool]:
        """Return whole transactions within the limits, or the first one alone and that it is large."""
        chosen: list[_Stored] = []
        size = 0
        while len(chosen) < len(waiting):
            transaction = waiting[len(chosen)].row.order
            whole = [stored for stored in waiting[len(chosen) :] if stored.row.order == transaction]
            weight = sum(len(stored.row.payload) for stored in whole)
            fits = len(chosen) + len(whole) <= self._limits.rows and size + weight <= self._limits.payload_bytes
            if not fits:
                return (chosen, False) if chosen else (whole, True)
            chosen += whole
            size += weight
        return chosen, False

    def close(self) -> None:
        """See the port. It holds nothing."""

    def ticks_after(self, seq: int, limits: Limits) -> list[Tick]:
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

    def read(self, owed: Owed, ticks: Sequence[Tick]) -> list[list[LogRow]]:
        """See the port."""
        return [self._rows(owed, tick) for tick in ticks]

    def stream(self, owed: Owed, tick: Tick, skip: int, limits: Limits) -> Iterator[list[LogRow]]:
        """See the port."""
        rows = self._rows(owed, tick)[skip:]
        for begin in range(0, len(rows), limits.rows):
            yield rows[begin : begin + limits.rows]

    def _rows(self, owed: Owed, tick: Tick) -> list[LogRow]:
        with self._guard:
            self._check_kept(tick.start_seq)
            after = self._ticks[tick.number - 2] if tick.number > 1 else None
            low, high = Mark.parse(after.mark).high if after else 0, Mark.parse(tick.mark).high
            return [
                stored.row
                for stored in self._stored
                if low < stored.row.id <= high
                and owed.destination in stored.destinations
                and stored.row.client == owed.client
            ]

    def rotate(self, lease: Lease, segment_bytes: int, segment_seconds: float) -> bool:
        """See the port; the number of segments has no limit here."""
        with self._guard:
            self._check(lease)
            mine = [s for s, segment in zip(self._stored, self._segments, strict=True) if segment == self._segment]
            size = sum(len(stored.row.payload) for stored in mine)
            old = self._opened_us + int(segment_seconds * 1_000_000) <= now_us()
            if not mine or not (old or size >= segment_bytes):
                return False
            self._segment += 1
            self._opened_us = now_us()
            return True

    def trim(self, lease: Lease, retention: Retention) -> Trimmed:
        """See the port."""
        laggards: list[Owed] = []
        emptied = 0
        with self._guard:
            self._check(lease)
            while self._stored and self._segments[0] < self._segment:
                lost = self._empty_oldest(retention)
                if lost is None:
                    break
                laggards += lost
                emptied += 1
            return Trimmed(self._trimmed_seq, emptied, tuple(laggards))

    def _empty_oldest(self, retention: Retention) -> list[Owed] | None:
        count = self._segments.count(self._segments[0])
        high = self._stored[count - 1].row.id
        upto = next((tick for tick in self._ticks if Mark.parse(tick.mark).high >= high), None)
        if upto is None:
            return None
        lost = [owed for owed, acked in self._acked.items() if self._owes(owed, acked, upto)]
        known = set(self._acked)
        strangers = any(
            Owed(stored.row.client, destination) not in known  # type: ignore[arg-type]
            for stored in self._stored[:count]
            for destination in stored.destinations
        )
        newest = self._ticks[-1]
        too_old = upto.created_us < now_us() - int(retention.seconds * 1_000_000)
        beyond = too_old or upto.bytes_total <= newest.bytes_total - retention.payload_bytes
        if (lost or strangers) and not beyond:
            return None
        del self._stored[:count], self._segments[:count]
        self._trimmed_seq = max(self._trimmed_seq, upto.end_seq)
        return lost

    def _owes(self, owed: Owed, acked: int, upto: Tick) -> bool:
        owing = [tick for tick in self._ticks if acked < tick.end_seq <= upto.end_seq]
        return any(tick.start_seq >= self._trimmed_seq and self._rows(owed, tick) for tick in owing)

    def _check(self, lease: Lease) -> None:
        if lease.generation < self._generation:
            raise OwnershipLostError(lease.name, lease.generation, self._generation)
        self._generation = lease.generation

    def _check_kept(self, seq: int) -> None:
        if seq < self._trimmed_seq:
            raise TrimmedError(requested=seq, oldest=self._trimmed_seq)
