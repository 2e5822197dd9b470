"""Read the entries of ticks for all destinations: the part of the `Log` port that both SQL dialects share."""

from collections.abc import Callable, Iterator, Sequence

from sqlalchemy import Connection, Engine

from queues.names import SiteId
from queues.positions import Tick
from queues.send_log.destination_sets import recorded
from queues.send_log.port import LoggedEntry, LogRow, TickRows
from queues.send_log.reads import still_kept

#: Reads the rows of neighbouring ticks: for each tick its rows in order.
TickReader = Callable[[Connection], Sequence[Sequence[LogRow]]]
#: Reads the next rows of a large tick after an id; an empty list at the end of the tick.
PieceReader = Callable[[Connection, int], Sequence[LogRow]]


def usual_entries(engine: Engine, ticks: Sequence[Tick], read: TickReader) -> list[LoggedEntry]:
    """Read the entries of all *ticks* at once with *read*; raise `TrimmedError` if they are trimmed."""
    with still_kept(engine, ticks[0]) as connection:
        groups = read(connection)
        destinations = _destinations(connection, [row for group in groups for row in group])
    return [
        LoggedEntry(row, destinations[row.tag_set], tick, seq)
        for tick, group in zip(ticks, groups, strict=True)
        for seq, row in enumerate(group, start=tick.start_seq + 1)
    ]


def tick_rows(engine: Engine, ticks: Sequence[Tick], read: TickReader) -> list[TickRows]:
    """Read the rows of *ticks* at once with *read*, as their sequencer had them; see `Log.followed`."""
    if ticks[0].is_large:
        return [TickRows(ticks[0], None, {})]
    with still_kept(engine, ticks[0]) as connection:
        groups = read(connection)
        known = recorded(connection, {row.tag_set for group in groups for row in group})
    sets = {number: frozenset(found.destinations) for number, found in known.items()}
    return [
        TickRows(tick, group, {number: sets[number] for number in {row.tag_set for row in group}})
        for tick, group in zip(ticks, groups, strict=True)
    ]


def large_entries(engine: Engine, tick: Tick, read: PieceReader) -> Iterator[list[LoggedEntry]]:
    """Yield the entries of one large tick piece by piece; raise `TrimmedError` if they are trimmed."""
    after, seq = 0, tick.start_seq
    while True:
        with still_kept(engine, tick) as connection:
            piece = read(connection, after)
            destinations = _destinations(connection, piece)
        if not piece:
            return
        yield [
            LoggedEntry(row, destinations[row.tag_set], tick, number) for number, row in enumerate(piece, start=seq + 1)
        ]
        after, seq = piece[-1].id, seq + len(piece)


def _destinations(connection: Connection, rows: Sequence[LogRow]) -> dict[int, tuple[SiteId, ...]]:
    found = recorded(connection, {row.tag_set for row in rows})
    return {number: known.destinations for number, known in found.items()}
