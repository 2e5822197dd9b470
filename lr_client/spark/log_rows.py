"""All entries in the ticks of a source's log, whoever they are for, in the order of the log."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, Select, func, or_, select, union_all

from queues.browse.set_listing import StoredSet, recorded
from queues.log import sql as sql_log
from queues.log.opening import open_log
from queues.log.port import Limits
from queues.positions import Mark, Snapshot, Tick, first_covering
from queues.receive.upcoming import Limits as PageLimits
from queues.receive.upcoming import Size, rows_within
from queues.tables import log_commits, log_entries, sqlite_segments

#: Bounds of what is read at a time; a larger entry comes alone.
PAGE: Final = Limits(rows=2_000, payload_bytes=4 * 1024 * 1024)
_PIECE: Final = PageLimits(PAGE.rows, PAGE.payload_bytes)
#: Sees no transaction.
_NOTHING: Final = Snapshot(1, 1, frozenset())
_COLUMNS: Final = ("id", "client", "tag_set", "item_key", "partition_key", "payload")


class LogEntry(NamedTuple):
    """One entry; `sequence` is its own among those of all clients and destinations."""

    payload: bytes
    item_key: str | None
    partition_key: str | None
    client: str
    destinations: tuple[str, ...]
    tick: int
    sequence: int
    transaction: int
    commit_time: int
    branch: str


def log_pages(engine: Engine, after: int, upto: int) -> Iterator[list[LogEntry]]:
    """Read the entries of the ticks that end after *after* and not after *upto*, in pieces.

    Each piece is a read of its own, so that a slow reader holds up nobody. Raises `TrimmedError` when they are gone.
    """
    log = open_log(engine)
    while after < upto:
        ticks = [tick for tick in log.ticks_after(after, PAGE) if tick.end_seq <= upto]
        if not ticks:
            return
        if ticks[0].is_large:
            yield from _large(engine, ticks[0])
        else:
            yield _usual(engine, ticks)
        after = ticks[-1].end_seq


def _usual(engine: Engine, ticks: Sequence[Tick]) -> list[LogEntry]:
    """Read neighbouring ticks, in as few statements as their marks allow."""
    found: list[tuple[int, Tick, Any]] = []
    with sql_log.still_kept(engine, ticks[0]) as connection:
        for run, before, marks in _runs(sql_log.mark_before(connection, ticks[0]), ticks):
            sequences = [tick.start_seq for tick in run]
            stored = _stored(before, marks[-1]).subquery()
            for row in connection.execute(select(stored).order_by(stored.c.place, stored.c.id)):
                index = first_covering(marks, row.id if marks[0].window is None else row.transaction, row.place)
                if index is not None:
                    sequences[index] += 1
                    found.append((sequences[index], run[index], row))
        sets = recorded(connection, {row.tag_set for _, _, row in found})
    # Transactions of neighbouring ticks may have taken their places in the order of commit the other way round.
    found.sort(key=lambda numbered: numbered[0])
    return [_entry(sequence, tick, row, sets) for sequence, tick, row in found]


def _large(engine: Engine, tick: Tick) -> Iterator[list[LogEntry]]:
    """Read a tick that is one large transaction."""
    after, sequence = 0, tick.start_seq
    while True:
        with sql_log.still_kept(engine, tick) as connection:
            before = sql_log.mark_before(connection, tick)
            piece = _piece(connection, _stored(before, Mark.parse(tick.mark)), after)
            sets = recorded(connection, {row.tag_set for row in piece})
        if not piece:
            return
        yield [_entry(number, tick, row, sets) for number, row in enumerate(piece, start=sequence + 1)]
        after, sequence = piece[-1].id, sequence + len(piece)


def _piece(connection: Connection, wanted: Select[Any], after: int) -> Sequence[Any]:
    stored = wanted.subquery()
    # Sizes first: payloads that do not fit are never read.
    following = select(stored.c.id, func.length(stored.c.payload)).where(stored.c.id > after).order_by(stored.c.id)
    sizes = [Size(number, number, size) for number, size in connection.execute(following.limit(PAGE.rows + 1))]
    taken = rows_within(sizes, _PIECE) if sizes else 0
    if not taken:
        return []
    within = stored.c.id.between(sizes[0].seq, sizes[taken - 1].seq)
    return connection.execute(select(stored).where(within).order_by(stored.c.id)).all()


def _entry(sequence: int, tick: Tick, row: Any, sets: Mapping[int, StoredSet]) -> LogEntry:  # noqa: ANN401 - a row
    return LogEntry(
        payload=row.payload,
        item_key=row.item_key,
        partition_key=row.partition_key,
        client=row.client,
        destinations=sets[row.tag_set].destinations,
        tick=tick.number,
        sequence=sequence,
        transaction=row.transaction,
        commit_time=row.committed_us,
        branch=tick.branch,
    )


# --- what ticks hold, in SQL ------------------------------------------------------------------------------------


def _runs(before: Mark | None, ticks: Sequence[Tick]) -> Iterator[tuple[Sequence[Tick], Mark | None, Sequence[Mark]]]:
    """Cut ticks into runs that one pair of marks bounds: those that share a window alone, the others together."""
    marks = [Mark.parse(tick.mark) for tick in ticks]
    earlier = [before, *marks]
    in_part = [
        mark.upto is not None or (was is not None and was.upto is not None)
        for was, mark in zip(earlier, marks, strict=False)
    ]
    begin = 0
    for end in range(1, len(ticks) + 1):
        if end == len(ticks) or in_part[end - 1] or in_part[end]:
            yield ticks[begin:end], earlier[begin], marks[begin:end]
            begin = end


def _stored(before: Mark | None, last: Mark) -> Select[Any]:
    """Select what *last* covers and *before* does not; both are of one run. `place` is the order of commit."""
    return _by_id(before, last) if last.window is None else _by_transaction(before or Mark(window=_NOTHING), last)


def _by_id(before: Mark | None, last: Mark) -> Select[Any]:
    low = before.high if before else 0
    parts = [
        select(
            table.c.transaction_id.label("transaction"),
            table.c.id.label("place"),
            table.c.created_us.label("committed_us"),
            *(table.c[name] for name in _COLUMNS),
        ).where(table.c.id > low, table.c.id <= last.high)
        for table in sqlite_segments
    ]
    return select(union_all(*parts).subquery())


def _by_transaction(before: Mark, last: Mark) -> Select[Any]:
    in_part = before.upto is not None and before.window == last.window
    low = (before.base if in_part else before.window) or _NOTHING
    high, xid = last.window or _NOTHING, log_entries.c.xid
    bounds = [
        xid < high.xmax,
        xid.not_in(sorted(high.running)),
        or_(xid >= low.xmax, xid.in_(sorted(low.running))),
    ]
    if in_part:
        bounds.append(log_commits.c.commit_seq > before.upto)
    if last.upto is not None:
        bounds.append(log_commits.c.commit_seq <= last.upto)
    return (
        select(
            log_entries.c.xid.label("transaction"),
            log_commits.c.commit_seq.label("place"),
            log_commits.c.committed_us,
            *(log_entries.c[name] for name in _COLUMNS),
        )
        .join_from(log_entries, log_commits, log_commits.c.xid == log_entries.c.xid)
        .where(*bounds)
    )
