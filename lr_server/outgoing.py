"""What one session is owed next, as frames: from the live feed, or from the database when it is behind."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lr_server.feed import Behind, LiveFeed, LiveGroup
from lr_server.router import after_cut, entry_rows
from queues.blocks import EntryRow, encode_entries
from queues.log.port import Limits, Log, LogRow, Owed
from queues.positions import Mark, Position, Tick
from queues.wire.replication_pb2 import Batch, Block, TickGroup, TickHeader
from queues.wire.replication_pb2 import Position as WirePosition


@dataclass(frozen=True, slots=True)
class Piece:
    """A tick, or a part of a large one, as the session sees it; `end` is where it brings the sink to."""

    group: TickGroup
    end: Position

    @property
    def is_quiet(self) -> bool:
        """Whether a later piece says all that it says: it has no rows, and completes no tick that was begun."""
        return not self.group.HasField("block") and not self.group.first_index

    @property
    def size(self) -> int:
        """Bytes in memory, nearly; on the wire they may be fewer."""
        return self.group.block.plain_size + 128


@dataclass(frozen=True, slots=True)
class Found:
    """What follows a position, and whether it comes from the live feed."""

    pieces: Iterable[Piece]
    is_live: bool


class Outgoing:
    """Reads for one session. The same position gives the same rows with the same numbers, live or not."""

    def __init__(self, owed: Owed, source: Log, feed: LiveFeed, limits: Limits, *, part_bytes: int) -> None:
        """Read as much at a time as *limits* say; a tick above them in parts of *part_bytes*, and one row at least."""
        self._owed = owed
        self._log = source
        self._feed = feed
        self._limits = limits
        self._part = Limits(limits.rows, part_bytes)

    def after(
        self, position: Position, read_after: int, timeout: float, wanted: Callable[[], bool] = lambda: True
    ) -> Found:
        """Return what follows *position*; empty and live when nothing does within *timeout* seconds.

        *read_after* is where to begin reading: nothing is this session's between both. Waits while it is *wanted*; who
        changes that calls `leave` afterwards. Raises `TrimmedError`.
        """
        seq = max(position.seq, read_after)
        found = self._feed.after(self._owed, seq, timeout, wanted)
        if isinstance(found, Behind) or any(not group.is_held for group in found.groups):
            return Found(self._from_database(position, seq), is_live=False)
        return Found([self._live(group, position) for group in found.groups], is_live=True)

    def leave(self) -> None:
        """Hold up the live feed no longer, because nothing is read for now; let one who waits in `after` return."""
        self._feed.leave(self._owed)

    def _live(self, group: LiveGroup, position: Position) -> Piece:
        tick = group.tick
        cut = _cut(position)
        block = group.block(self._owed) if cut is None else group.block_after(self._owed, cut)
        return _piece(tick, block, position)

    def _from_database(self, position: Position, seq: int) -> Iterator[Piece]:
        ticks = self._log.ticks_after(seq, self._limits)
        if ticks and ticks[0].is_large:
            yield from self._in_parts(ticks[0], position)
            return
        for tick, rows in zip(ticks, self._log.read(self._owed, ticks) if ticks else (), strict=True):
            yield _piece(tick, _encoded(rows, _cut(position)), position)

    def _in_parts(self, tick: Tick, position: Position) -> Iterator[Piece]:
        """Every entry of a large tick is sent, so that its parts can be numbered one after the other."""
        skip = max(position.seq - tick.start_seq, 0)
        cut = _cut(position)
        sent = skip
        for rows in self._log.stream(self._owed, tick, skip, self._part):
            kept = after_cut(rows, cut) if cut is not None else rows
            if kept:
                entries = [EntryRow(row.payload, 0, row.committed_us, row.item_key) for row in kept]
                yield _part(tick, encode_entries(entries), sent, position)
                sent += len(kept)
        header = tick_header(tick)
        group = TickGroup(header=header, first_index=sent, complete=True)
        yield Piece(group, Position(tick.branch, tick.end_seq, _cut_after(position, tick)))


def _cut(position: Position) -> Mark | None:
    return Mark.parse(position.cut) if position.cut else None


def _encoded(rows: list[LogRow], cut: Mark | None) -> Block | None:
    kept = rows if cut is None else after_cut(rows, cut)
    return encode_entries(entry_rows(kept)) if kept else None


def tick_header(tick: Tick) -> TickHeader:
    """Return what travels of a tick."""
    return TickHeader(
        branch=tick.branch, start_seq=tick.start_seq, end_seq=tick.end_seq, uid=tick.uid, mark=tick.mark,
        created_us=tick.created_us,
    )  # fmt: skip


def _piece(tick: Tick, block: Block | None, position: Position) -> Piece:
    group = TickGroup(header=tick_header(tick), block=block, complete=True)
    return Piece(group, Position(tick.branch, tick.end_seq, _cut_after(position, tick)))


def _part(tick: Tick, block: Block, first_index: int, position: Position) -> Piece:
    group = TickGroup(header=tick_header(tick), block=block, first_index=first_index, complete=False)
    end = tick.start_seq + first_index + block.rows
    return Piece(group, Position(tick.branch, end, position.cut))


def _cut_after(position: Position, tick: Tick) -> str:
    """Return what is left of the cut behind the tick: nothing, once all that it covers is in ticks."""
    return "" if not position.cut or passed(Mark.parse(position.cut), Mark.parse(tick.mark)) else position.cut


def passed(cut: Mark, mark: Mark) -> bool:
    """Tell whether every row that the cut covers is covered by the tick's mark too."""
    if cut.window is None or mark.window is None:
        return mark.high >= cut.high
    if mark.upto is not None:
        return False
    return mark.window.xmin >= cut.window.xmax or (
        mark.window.xmax >= cut.window.xmax and all(not cut.window.sees(xid) for xid in mark.window.running)
    )


def batch(start: Position, pieces: list[Piece], newest: Tick | None) -> Batch:
    """Put *pieces*, which follow *start*, into one batch; quiet ticks are left out but for the last."""
    last = pieces[-1]
    groups = [piece.group for piece in pieces if not piece.is_quiet or piece is last]
    return Batch(
        **{"from": WirePosition(branch=start.branch, seq=start.seq, cut=start.cut)},
        groups=groups,
        cut_passed=bool(start.cut) and not last.end.cut,
        source_seq=newest.end_seq if newest else last.end.seq,
        source_us=newest.created_us if newest else 0,
    )
