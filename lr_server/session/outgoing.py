"""The next ticks for one session: from the live feed, or from the database while the session is behind."""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lr_server.feed.feed import Behind, LiveFeed, Ready
from lr_server.feed.routed_tick import RoutedTick, without_rows
from lr_server.feed.router import RoutedRows, after_cut, encoded, packed_row
from queues.blocks import encode_entries
from queues.names import SiteId
from queues.positions import Position, Tick, Visibility
from queues.receive.marks import ENTRY_BYTES
from queues.send_log.port import Log, SessionKey, TickLimits
from queues.wire.replication_pb2 import Batch, Block, Frame, SessionId, TickGroup, TickHeader
from queues.wire.replication_pb2 import Position as WirePosition
from sink.rests import Bell, Rest

_ONE: Final = TickLimits(1)


@dataclass(frozen=True, slots=True)
class TickPart:
    """A tick, or a part of a large one, with the rows of one session; `end` is the sink's position afterwards.

    `replaced` entries are left out, because a later entry of the same tick replaces them. `since_us` is the time of the
    first entry, in microseconds since 1970.
    """

    group: TickGroup
    end: Position
    replaced: int = 0
    since_us: int = 0

    @property
    def is_quiet(self) -> bool:
        """Whether a later part can replace this one: it has no rows, and completes no tick that was begun."""
        return not self.group.HasField("block") and not self.group.first_index

    @property
    def size(self) -> int:
        """The approximate bytes in memory; a compressed block has fewer bytes on the wire."""
        return self.group.block.plain_size + 128

    @property
    def stored_size(self) -> int:
        """The most bytes that the entries count in the sink's receive queue; 0 without entries."""
        block = self.group.block
        return block.plain_size + ENTRY_BYTES * block.rows

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.group.block.rows


@dataclass(frozen=True, slots=True)
class Found:
    """The ticks after a position; `is_live` if they come from the live feed."""

    pieces: Iterable[TickPart]
    is_live: bool


class Outgoing:
    """Read the log for one session. The same position gives the same rows with the same numbers, live or not."""

    def __init__(
        self,
        owed: SessionKey,
        source: Log,
        feed: LiveFeed,
        limits: TickLimits,
        *,
        part_bytes: int,
        regrouped: Callable[[], int] = int,
    ) -> None:
        """Read up to *limits* at a time; a larger tick comes in parts of *part_bytes*, at least one row each.

        Ticks up to the sequence that *regrouped* returns come from the database only.
        """
        self._owed = owed
        self._log = source
        self._feed = feed
        self._limits = limits
        self._regrouped = regrouped
        self._part = TickLimits(limits.rows, part_bytes)

    @property
    def destination(self) -> SiteId:
        """The site that the ticks are for."""
        return self._owed.destination

    def after(
        self,
        position: Position,
        read_after: int,
        timeout: float,
        wanted: Callable[[], bool] = lambda: True,
        *,
        bell: Bell,
        rests: bool = False,
    ) -> Generator[Rest, None, Found]:
        """Return the ticks after *position*; empty and live if none comes within *timeout* seconds.

        Yields the wait for a tick, if any; *bell* is set when it is over. A session that *rests* on the live feed waits
        for a tick with rows for it. See `LiveFeed.after`.
        Reading begins after *read_after*: no entry between both is for this session. A log that ends there gives its
        newest tick, without rows: the sink must know that it lacks nothing. Waits as long as *wanted* returns True;
        call `leave` after each change of its result. Raises `TrimmedError`.
        """
        seq = max(position.seq, read_after)
        if seq < self._regrouped():
            self.leave()
            return Found(self._from_database(position, seq), is_live=False)
        bell.clear()
        found = self._feed.after(self._owed, seq, wanted, ring=bell.set, rests=rests)
        if isinstance(found, Ready) and not found.ticks and wanted():
            yield Rest(timeout)
            found = self._feed.after(self._owed, seq, wanted)
        if isinstance(found, Behind) or any(not tick.is_held for tick in found.ticks):
            return Found(self._from_database(position, seq), is_live=False)
        ticks = found.ticks or self._skipped(position, seq)
        return Found([self._live(tick, position) for tick in ticks], is_live=True)

    def _skipped(self, position: Position, seq: int) -> tuple[RoutedTick, ...]:
        """Return the newest tick if it ends at *seq*, beyond *position*."""
        newest = self._feed.newest
        if newest is None or not position.seq < newest.end_seq == seq:
            return ()
        return (without_rows(newest),)

    def leave(self) -> None:
        """Leave the live feed, which no longer waits for this session; a waiting `after` returns."""
        self._feed.leave(self._owed)

    def has_rows(self, boundary_seq: int, seq: int) -> bool:
        """Return whether the rows after *boundary_seq* up to *seq* of a large tick are for this session.

        True also for positions that are in no large tick. Raises `TrimmedError`.
        """
        tick = next(iter(self._log.ticks_after(seq - 1, _ONE)), None)
        if tick is None or not tick.is_large or tick.start_seq != boundary_seq:
            return True
        pieces = self._log.stream(self._owed, tick, seq - boundary_seq - 1, _ONE)
        return any(piece.rows for piece in pieces)

    def _live(self, live: RoutedTick, position: Position) -> TickPart:
        tick = live.tick
        cut = _cut(position)
        rows = live.routed(self._owed) if cut is None else live.routed_after(self._owed, cut)
        return _piece(tick, rows, position)

    def _from_database(self, position: Position, seq: int) -> Iterator[TickPart]:
        ticks = self._log.ticks_after(seq, self._limits)
        if ticks and ticks[0].is_large:
            yield from self._in_parts(ticks[0], position)
            return
        for tick, rows in zip(ticks, self._log.read(self._owed, ticks) if ticks else (), strict=True):
            cut = _cut(position)
            yield _piece(tick, encoded(rows if cut is None else after_cut(rows, cut)), position)

    def _in_parts(self, tick: Tick, position: Position) -> Iterator[TickPart]:
        """Yield a large tick in parts."""
        sent = max(position.seq - tick.start_seq, 0)
        cut = _cut(position)
        # On SQLite a cut may divide a transaction. The rows of the cut have no numbers at the sink.
        is_divided = cut is not None and cut.window is None
        skip, known = (0, sent) if is_divided else (sent, 0)
        for rows, replaced in self._log.stream(self._owed, tick, skip, self._part):
            left = rows if cut is None else after_cut(rows, cut)
            kept, known = left[known:], max(known - len(left), 0)
            if kept:
                entries = [packed_row(row, 0) for row in kept]
                yield _part(tick, encode_entries(entries), sent, position, replaced, kept[0].committed_us)
                sent += len(kept)
        header = tick_header(tick)
        group = TickGroup(header=header, first_index=sent, complete=True)
        yield TickPart(group, Position(tick.branch, tick.end_seq, _cut_after(position, tick)))


def _cut(position: Position) -> Visibility | None:
    return Visibility.parse(position.cut) if position.cut else None


def tick_header(tick: Tick) -> TickHeader:
    """Return the fields of a tick that are sent."""
    return TickHeader(
        branch=tick.branch, start_seq=tick.start_seq, end_seq=tick.end_seq, uid=tick.uid, mark=tick.mark,
        created_us=tick.created_us,
    )  # fmt: skip


def _piece(tick: Tick, rows: RoutedRows, position: Position) -> TickPart:
    group = TickGroup(header=tick_header(tick), complete=True)
    if rows.block is not None:
        group.block.CopyFrom(rows.block)
    return TickPart(
        group, Position(tick.branch, tick.end_seq, _cut_after(position, tick)), rows.replaced, rows.since_us
    )


def _part(tick: Tick, block: Block, first_index: int, position: Position, replaced: int, since_us: int) -> TickPart:
    group = TickGroup(header=tick_header(tick), block=block, first_index=first_index, complete=False)
    end = tick.start_seq + first_index + block.rows
    return TickPart(group, Position(tick.branch, end, position.cut), replaced, since_us)


def _cut_after(position: Position, tick: Tick) -> str:
    """Return the cut that still counts after the tick: "" once the tick covers all rows of the cut."""
    return (
        "" if not position.cut or passed(Visibility.parse(position.cut), Visibility.parse(tick.mark)) else position.cut
    )


def passed(cut: Visibility, mark: Visibility) -> bool:
    """Return whether the tick's visibility *mark* covers every row that the cut covers."""
    if cut.window is None or mark.window is None:
        return mark.high >= cut.high
    if mark.upto is not None:
        return False
    return mark.window.xmin >= cut.window.xmax or (
        mark.window.xmax >= cut.window.xmax and all(not cut.window.sees(xid) for xid in mark.window.running)
    )


def log_frame(session: SessionId, start: Position, pieces: list[TickPart], newest: Tick | None) -> Frame:
    """Put *pieces*, which follow *start*, into one batch, without the quiet ones before the last.

    A batch without pieces only asks the sink for an acknowledgement.
    """
    end = pieces[-1].end if pieces else start
    groups = [piece.group for piece in pieces if not piece.is_quiet or piece is pieces[-1]]
    head = Batch(
        start=WirePosition(branch=start.branch, seq=start.seq, cut=start.cut),
        cut_passed=bool(start.cut) and not end.cut,
        source_seq=newest.end_seq if newest else end.seq,
        source_us=newest.created_us if newest else 0,
    )
    made = Frame(session=session, batch=head)
    for group in groups:
        # A constructor would copy every block once for each level of the frame, at many times the cost.
        made.batch.groups.add().CopyFrom(group)
    return made
