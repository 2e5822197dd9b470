"""The send log on SQLite. With one writer at a time, ids are in commit order, so a tick ends at an id."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing as closed
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection, Engine, Select, delete, select

from queues.database import leases
from queues.database.leases import Lease
from queues.database.tables.log import PARTITIONS, log_head, sqlite_segments
from queues.database.tables.ticks import ticks
from queues.database.transactions import reading, writing
from queues.positions import Tick, Visibility
from queues.replica_groups import Groups
from queues.send_log import logged_entries, replica_sets, segments
from queues.send_log import reads as sql_log
from queues.send_log.destination_sets import SetDictionary, Sighting, sightings
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
from queues.send_log.replaced import MAX_ITEMS, LastIds, remaining
from queues.send_log.rotation import SegmentLimits
from queues.send_log.ticks import TickDraft, insert_tick

_Row = TypeVar("_Row")
# The laggards of a trimmed segment, and the numbers of entries that unknown destinations have lost.
_Emptied = tuple[tuple[SessionKey, ...], Mapping[SessionKey, int]]

#: Tells whether a segment may go that is judged to go.
MayGo = Callable[[Connection, segments.Verdict], bool]

_COLUMNS = "transaction_id, id, id, client, tag_set, item_key, created_us, payload, headers, partition_key"
# The bytes of an entry as `size_of` counts them; the length of a text would be in characters.
_SIZE = "length(payload)" + "".join(
    f" + coalesce(length(CAST({name} AS BLOB)), 0)" for name in ("headers", "partition_key")
)
_SETS = "SELECT tag_set FROM lrq_tag_set_members WHERE client = ? AND destination = ?"


def _everywhere(columns: str, condition: str) -> str:
    """Return a query over all segments; ids are unique across segments, so the union is one queue."""
    parts = [
        f"SELECT {columns} FROM lrq_log_entries_{partition} WHERE {condition}"  # noqa: S608 - constants
        for partition in range(PARTITIONS)
    ]
    return " UNION ALL ".join(parts)


_NEXT = _everywhere(_COLUMNS + ", destinations", "id > ?") + " ORDER BY 2"
_OWED = _everywhere(_COLUMNS, f"tag_set IN ({_SETS}) AND id > ? AND id <= ?") + " ORDER BY 2"
_ALL = _everywhere(_COLUMNS, "id > ? AND id <= ?") + " ORDER BY 2"
# The items of a large tick with several entries for one session, the most repeated ones first.
_LAST_IDS = (
    "SELECT item_key, max(id) FROM ("  # noqa: S608 - constants
    + _everywhere("item_key, id", f"tag_set IN ({_SETS}) AND id > ? AND id <= ? AND item_key IS NOT NULL")
    + ") GROUP BY item_key HAVING count(*) > 1 ORDER BY count(*) DESC, max(id) LIMIT ?"
)
_KEYS = _everywhere("id, item_key", f"tag_set IN ({_SETS}) AND id > ? AND id <= ?") + " ORDER BY 1 LIMIT ?"
_SIZES = _everywhere(f"id, {_SIZE}", "id > ? AND id <= ?") + " ORDER BY 1 LIMIT ?"
_OWED_SIZE = (
    "SELECT count(*), coalesce(sum(size), 0), min(created_us) FROM (SELECT * FROM ("  # noqa: S608
    + _everywhere("length(payload) AS size, created_us", f"tag_set IN ({_SETS}) AND id > ? AND id <= ?")
    + ") LIMIT ?)"
)
_SIGHTED = (
    "SELECT client, tag_set, max(destinations), count(*), sum(size), max(id) FROM ("  # noqa: S608
    + _everywhere(f"client, tag_set, destinations, {_SIZE} AS size, id", "id >= ? AND transaction_id = ?")
    + ") GROUP BY client, tag_set"
)


class SqliteLog:
    """See `queues.send_log.port.Log`."""

    def __init__(self, engine: Engine, limits: TickLimits) -> None:
        self._engine = engine
        self._limits = limits
        self._dictionary = SetDictionary()
        # No tick is taken while the sets follow other groups.
        self._taking = threading.Lock()

    def bounds(self) -> Bounds:
        """See the port."""
        return sql_log.bounds(self._engine)

    def take_tick(
        self,
        lease: Lease,
        last: Tick | None,
        meanwhile: Callable[[TickRows], None] = ignore,  # noqa: ARG002 - the commit leaves no time in between
    ) -> TickRows | None:
        """See the port. Reading precedes the write lock, because committed rows never change."""
        with self._taking:
            return self._take(lease, last)

    def _take(self, lease: Lease, last: Tick | None) -> TickRows | None:
        after = Visibility.parse(last.mark).high if last else 0
        with reading(self._engine) as connection:
            closing = self._next(connection, after)
        if closing is None:
            return None
        try:
            with writing(self._engine) as connection:
                leases.check(connection, lease)
                return insert_tick(connection, lease, last, closing, self._dictionary, partitioned=False)
        except BaseException:
            self._dictionary.forget()
            raise

    def regroup(self, lease: Lease, groups: Groups, then: Then) -> None:
        """See the port."""
        with self._taking:
            try:
                with writing(self._engine) as connection:
                    leases.check(connection, lease)
                    then(connection, replica_sets.regroup(connection, groups))
            finally:
                self._dictionary.forget()

    def _next(self, connection: Connection, after: int) -> TickDraft | None:
        head = connection.execute(select(log_head.c.last_id)).scalar_one()
        if head <= after:
            return None
        rows, inline, complete = self._fill(connection, after)
        if not rows:
            return None
        if not complete:
            whole = _whole_transactions(rows)
            if whole == 0:
                return _giant(connection, rows[0])
            del rows[whole:], inline[whole:]
        seen = sightings((row.client, row.tag_set, text) for row, text in zip(rows, inline, strict=True))
        size = size_of(rows)
        return TickDraft(Visibility(high=rows[-1].id), rows, seen, len(rows), size, more=not complete)

    def _fill(self, connection: Connection, after: int) -> tuple[list[LogRow], list[str | None], bool]:
        """Read rows until the limits or the end of the queue; return True at the end of the queue."""
        rows: list[LogRow] = []
        inline: list[str | None] = []
        size = 0
        streaming = connection.execution_options(stream_results=True, max_row_buffer=256)
        with closed(streaming.exec_driver_sql(_NEXT, (after,) * PARTITIONS)) as result:
            for found in result:
                row = LogRow(*found[:10])
                size += row_size(row)
                if rows and (len(rows) >= self._limits.rows or size > self._limits.payload_bytes):
                    # The caller removes the transaction of this last row, so that a tick has whole transactions.
                    rows.append(row)
                    inline.append(found[10])
                    return rows, inline, False
                rows.append(row)
                inline.append(found[10])
        return rows, inline, True

    def close(self) -> None:
        """Do nothing: the log holds no connection."""

    def ticks_after(self, seq: int, limits: TickLimits) -> list[Tick]:
        """See the port."""
        return sql_log.ticks_after(self._engine, seq, limits)

    def read(self, owed: SessionKey, ticks: Sequence[Tick]) -> list[list[LogRow]]:
        """See the port."""
        highs = [Visibility.parse(tick.mark).high for tick in ticks]
        with sql_log.still_kept(self._engine, ticks[0]) as connection:
            bounds = (owed.client, owed.destination, _high_before(connection, ticks[0]), highs[-1])
            found = [LogRow(*row) for row in connection.exec_driver_sql(_OWED, bounds * PARTITIONS)]
        return _by_tick(found, [row.id for row in found], highs)

    def stream(self, owed: SessionKey, tick: Tick, skip: int, limits: TickLimits) -> Iterator[LogPiece]:
        """See the port. Each piece is a separate read, so a slow sink holds no transaction open."""
        high = Visibility.parse(tick.mark).high
        with sql_log.still_kept(self._engine, tick) as connection:
            start = _high_before(connection, tick)
            last = _last_ids(connection, owed, start, high) if tick.omits_replaced else {}

        def read(after: int, skipped: int) -> list[LogRow]:
            bounds = (*owed, after, high) * PARTITIONS
            with sql_log.still_kept(self._engine, tick) as connection:
                return sql_log.fill(connection, f"{_OWED} LIMIT ? OFFSET ?", (*bounds, limits.rows, skipped), limits)

        def skim(after: int) -> Sequence[tuple[int, str | None]]:
            with sql_log.still_kept(self._engine, tick) as connection:
                found = connection.exec_driver_sql(_KEYS, ((*owed, after, high) * PARTITIONS) + (limits.rows,))
                return [(entry_id, item_key) for entry_id, item_key in found]

        yield from remaining(start, skip, last, read, skim)

    def read_all(self, ticks: Sequence[Tick], limits: TickLimits) -> Iterator[list[LoggedEntry]]:
        """See the port."""
        if ticks[0].is_large:
            piece = partial(_piece, tick=ticks[0], limits=limits)
            yield from logged_entries.large_entries(self._engine, ticks[0], piece)
        else:
            yield logged_entries.usual_entries(self._engine, ticks, partial(all_rows, ticks=ticks))

    def followed(self, ticks: Sequence[Tick]) -> list[TickRows]:
        """See the port."""
        return logged_entries.tick_rows(self._engine, ticks, partial(all_rows, ticks=ticks))

    def rotate(
        self, lease: Lease, segment_bytes: int, segment_seconds: float, retention: Retention | None = None
    ) -> bool:
        """See the port."""
        limits = SegmentLimits(segment_seconds, segment_bytes).within(retention)
        with writing(self._engine) as connection:
            leases.check(connection, lease)
            segment = connection.execute(select(log_head.c.segment)).scalar_one()
            following = [(segment + step) % PARTITIONS for step in range(1, PARTITIONS)]
            due = segments.segment_is_due(connection, limits)
            if not due or _is_empty(connection, segment % PARTITIONS) or not _is_empty(connection, following[0]):
                return False
            if retention is not None:
                closed = [_newest_first(each) for each in following if not _is_empty(connection, each)]
                if not segments.has_room(connection, closed, retention):
                    return False
            segments.open_segment(connection, segment + 1)
            return True

    def trim(self, lease: Lease, retention: Retention) -> TrimResult:
        """See the port."""
        return trim(self._engine, lease, retention, lambda *_: True)


def trim(engine: Engine, lease: Lease, retention: Retention, may_go: MayGo) -> TrimResult:
    """Trim as `SqliteLog.trim` does, up to the first segment to which *may_go* objects."""
    emptied = 0
    laggards: list[SessionKey] = []
    unknown: Counter[SessionKey] = Counter()
    while True:
        with writing(engine) as connection:
            leases.check(connection, lease)
            one = _trim_one(connection, retention, may_go)
            if one is None:
                seq = sql_log.trimmed_seq(connection)
                return TrimResult(seq, emptied, tuple(laggards), dropped_unknown=unknown)
            emptied += 1
            laggards += one[0]
            unknown.update(one[1])


def _high_before(connection: Connection, tick: Tick) -> int:
    before = sql_log.mark_before(connection, tick)
    return before.high if before else 0


def _last_ids(connection: Connection, owed: SessionKey, start: int, high: int) -> LastIds:
    found = connection.exec_driver_sql(_LAST_IDS, ((*owed, start, high) * PARTITIONS) + (MAX_ITEMS,))
    return dict(map(tuple, found))


def _by_tick(rows: Iterable[_Row], ids: Iterable[int], highs: Sequence[int]) -> list[list[_Row]]:
    """Divide *rows* among the ticks that end at the ids *highs*; *ids* are the rows' ids, in order."""
    groups: list[list[_Row]] = [[] for _ in highs]
    index = 0
    for row, number in zip(rows, ids, strict=True):
        while number > highs[index]:
            index += 1
        groups[index].append(row)
    return groups


def all_rows(connection: Connection, ticks: Sequence[Tick]) -> list[list[LogRow]]:
    """Return the rows of each of *ticks* (neighbours, in order); raise `TrimmedError` without the tick before."""
    highs = [Visibility.parse(tick.mark).high for tick in ticks]
    found = _between(connection, _high_before(connection, ticks[0]), highs[-1])
    return _by_tick(found, [row.id for row in found], highs)


def _piece(connection: Connection, after: int, tick: Tick, limits: TickLimits) -> list[LogRow]:
    after = max(after, _high_before(connection, tick))
    # Reading the sizes first avoids reading payloads beyond the limits.
    bounds = (after, Visibility.parse(tick.mark).high) * PARTITIONS
    sizes = connection.exec_driver_sql(_SIZES, (*bounds, limits.rows)).all()
    taken = count_within([size for _, size in sizes], limits)
    return _between(connection, after, sizes[taken - 1][0]) if taken else []


def _between(connection: Connection, after: int, upto: int) -> list[LogRow]:
    return [LogRow(*row) for row in connection.exec_driver_sql(_ALL, (after, upto) * PARTITIONS)]


def _whole_transactions(rows: Sequence[LogRow]) -> int:
    """Count the rows before the transaction of the last row."""
    last = rows[-1].transaction
    count = len(rows)
    while count and rows[count - 1].transaction == last:
        count -= 1
    return count


def _giant(connection: Connection, first: LogRow) -> TickDraft:
    found = connection.exec_driver_sql(_SIGHTED, (first.id, first.transaction) * PARTITIONS).all()
    seen = [Sighting(number, client, text, rows) for client, number, text, rows, _, _ in found]
    high = max(row[5] for row in found)
    return TickDraft(
        Visibility(high=high), None, seen, sum(row[3] for row in found), sum(row[4] for row in found), more=True
    )


def _is_empty(connection: Connection, partition: int) -> bool:
    found = connection.exec_driver_sql(f"SELECT 1 FROM lrq_log_entries_{partition} LIMIT 1")  # noqa: S608 - a number
    return found.first() is None


def _trim_one(connection: Connection, retention: Retention, may_go: MayGo) -> _Emptied | None:
    """Trim the oldest segment with rows; None if there is none or it must be kept."""
    newest = current(connection)
    for step in range(1, PARTITIONS):
        partition = (newest + step) % PARTITIONS
        if not _is_empty(connection, partition):
            return _empty(connection, partition, retention, may_go)
    return None


def current(connection: Connection) -> int:
    """Return the partition of the current segment."""
    return int(connection.execute(select(log_head.c.slot)).scalar_one())


def keep(connection: Connection) -> None:
    """Do nothing: the transaction has the write lock, so no other one trims."""


def written(partition: int) -> Select[int]:
    """Return a query for the times of the entries of a segment, oldest entry first."""
    table = sqlite_segments[partition]
    return select(table.c.created_us).order_by(table.c.id)


def _newest_first(partition: int) -> Select[int]:
    return written(partition).order_by(None).order_by(sqlite_segments[partition].c.id.desc())


def verdict(connection: Connection, partition: int, retention: Retention) -> segments.Verdict | None:
    """Decide about one segment with rows; None while ticks or sessions need the segment."""
    high = connection.exec_driver_sql(f"SELECT max(id) FROM lrq_log_entries_{partition}").scalar_one()  # noqa: S608
    upto = segments.full_tick_covering(connection, lambda mark: mark.high >= high)
    if upto is None:
        return None
    sets = connection.exec_driver_sql(f"SELECT DISTINCT tag_set FROM lrq_log_entries_{partition}").scalars().all()  # noqa: S608
    return segments.judge(connection, upto, sets, lambda *bounds: _owes(connection, *bounds), retention)


def _empty(connection: Connection, partition: int, retention: Retention, may_go: MayGo) -> _Emptied | None:
    found = verdict(connection, partition, retention)
    if found is None or not may_go(connection, found):
        return None
    unknown = segments.let_go(connection, found, lambda *bounds: _count_owed(connection, *bounds))
    forget_ticks(connection, found.upto)
    # A DELETE without a condition frees all pages of the table at once.
    connection.exec_driver_sql(f"DELETE FROM lrq_log_entries_{partition}")  # noqa: S608 - a number
    return found.laggards, unknown


def forget_ticks(connection: Connection, trimmed: Tick) -> None:
    """Remove the rows of old ticks before the last *trimmed* one, but those at acknowledged positions."""
    # The last trimmed tick is always kept, because reading the next tick begins at its end.
    is_old = ticks.c.number < trimmed.number - segments.KEPT_TICKS
    connection.execute(delete(ticks).where(is_old, ticks.c.number.not_in(segments.acknowledged(connection))))


def _owes(connection: Connection, owed: SessionKey, after: Visibility | None, upto: Visibility) -> bool:
    bounds = (owed.client, owed.destination, after.high if after else 0, upto.high)
    return connection.exec_driver_sql(f"SELECT 1 FROM ({_OWED}) LIMIT 1", bounds * PARTITIONS).first() is not None  # noqa: S608


def _count_owed(connection: Connection, owed: SessionKey, after: Visibility | None, upto: Visibility) -> int:
    bounds = (owed.client, owed.destination, after.high if after else 0, upto.high)
    found = connection.exec_driver_sql(f"SELECT count(*) FROM ({_OWED})", bounds * PARTITIONS)  # noqa: S608
    return int(found.scalar_one())


def owed_size(
    connection: Connection, owed: SessionKey, after: Visibility | None, upto: Visibility, limit: int
) -> tuple[int, int, int | None]:
    """See `queues.send_log.opening.OwedSize`."""
    bounds = (owed.client, owed.destination, after.high if after else 0, upto.high) * PARTITIONS
    number, size, oldest = connection.exec_driver_sql(_OWED_SIZE, (*bounds, limit)).one()
    return number, size, oldest
