"""The log-entry queue on SQLite: one writer at a time, so ids are in commit order and a tick is `max(id)`."""

from collections.abc import Iterator, Sequence
from contextlib import closing as closed

from sqlalchemy import Connection, Engine, delete, select

from queues import leases
from queues.leases import Lease
from queues.log import segments
from queues.log import sql as sql_log
from queues.log.closing import Closing, insert_tick
from queues.log.port import Bounds, Group, Limits, LogRow, Owed, Retention, Trimmed
from queues.log.set_dictionary import SetDictionary, Sighting, sightings
from queues.positions import Mark, Tick
from queues.tables import SLOTS, log_head, ticks
from queues.transactions import reading, writing

_COLUMNS = "transaction_id, id, id, client, tag_set, item_key, created_us, payload"
_SETS = "SELECT tag_set FROM lrq_tag_set_members WHERE client = ? AND destination = ?"


def _everywhere(columns: str, condition: str) -> str:
    """Select from all segments; ids are unique over them, so their union is one queue."""
    parts = [
        f"SELECT {columns} FROM lrq_log_entries_{slot} WHERE {condition}"  # noqa: S608 - constants
        for slot in range(SLOTS)
    ]
    return " UNION ALL ".join(parts)


_NEXT = _everywhere(_COLUMNS + ", destinations", "id > ?") + " ORDER BY 2"
_OWED = _everywhere(_COLUMNS, f"tag_set IN ({_SETS}) AND id > ? AND id <= ?") + " ORDER BY 2"
_SIGHTED = (
    "SELECT client, tag_set, max(destinations), count(*), sum(length(payload)), max(id) FROM ("  # noqa: S608
    + _everywhere("client, tag_set, destinations, payload, id", "id >= ? AND transaction_id = ?")
    + ") GROUP BY client, tag_set"
)


class SqliteLog:
    """See `queues.log.port.Log`."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        self._engine = engine
        self._limits = limits
        self._dictionary = SetDictionary()

    def bounds(self) -> Bounds:
        """See the port."""
        return sql_log.bounds(self._engine)

    def take_tick(self, lease: Lease, last: Tick | None) -> Group | None:
        """See the port. Rows are read before the write lock is taken: what is committed does not change."""
        after = Mark.parse(last.mark).high if last else 0
        with reading(self._engine) as connection:
            closing = self._next(connection, after)
        if closing is None:
            return None
        try:
            with writing(self._engine) as connection:
                leases.check(connection, lease)
                return insert_tick(connection, lease, last, closing, self._dictionary)
        except BaseException:
            self._dictionary.forget()
            raise

    def _next(self, connection: Connection, after: int) -> Closing | None:
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
        size = sum(len(row.payload) for row in rows)
        return Closing(Mark(high=rows[-1].id), rows, seen, len(rows), size, more=not complete)

    def _fill(self, connection: Connection, after: int) -> tuple[list[LogRow], list[str | None], bool]:
        """Read on until the limits are reached; tell whether the end of the queue was."""
        rows: list[LogRow] = []
        inline: list[str | None] = []
        size = 0
        streaming = connection.execution_options(stream_results=True, max_row_buffer=256)
        with closed(streaming.exec_driver_sql(_NEXT, (after,) * SLOTS)) as result:
            for found in result:
                row = LogRow(*found[:8])
                size += len(row.payload)
                if rows and (len(rows) >= self._limits.rows or size > self._limits.payload_bytes):
                    # One row more than fits, so that the cut below falls between transactions.
                    rows.append(row)
                    inline.append(found[8])
                    return rows, inline, False
                rows.append(row)
                inline.append(found[8])
        return rows, inline, True

    def close(self) -> None:
        """See the port. It holds nothing."""

    def ticks_after(self, seq: int, limits: Limits) -> list[Tick]:
        """See the port."""
        return sql_log.ticks_after(self._engine, seq, limits)

    def read(self, owed: Owed, ticks: Sequence[Tick]) -> list[list[LogRow]]:
        """See the port."""
        highs = [Mark.parse(tick.mark).high for tick in ticks]
        with sql_log.still_kept(self._engine, ticks[0]) as connection:
            before = sql_log.mark_before(connection, ticks[0])
            bounds = (owed.client, owed.destination, before.high if before else 0, highs[-1])
            found = [LogRow(*row) for row in connection.exec_driver_sql(_OWED, bounds * SLOTS)]
        groups: list[list[LogRow]] = [[] for _ in ticks]
        index = 0
        for row in found:
            while row.id > highs[index]:
                index += 1
            groups[index].append(row)
        return groups

    def stream(self, owed: Owed, tick: Tick, skip: int, limits: Limits) -> Iterator[list[LogRow]]:
        """See the port. Each piece is a read of its own, so a slow sink holds no read transaction."""
        high = Mark.parse(tick.mark).high
        with sql_log.still_kept(self._engine, tick) as connection:
            before = sql_log.mark_before(connection, tick)
        after = before.high if before else 0
        while True:
            with sql_log.still_kept(self._engine, tick) as connection:
                statement = f"{_OWED} LIMIT ? OFFSET ?"
                bounds = (owed.client, owed.destination, after, high) * SLOTS
                piece = sql_log.fill(connection, statement, (*bounds, limits.rows, skip), limits)
            if not piece:
                return
            after, skip = piece[-1].id, 0
            yield piece

    def rotate(self, lease: Lease, segment_bytes: int, segment_seconds: float) -> bool:
        """See the port."""
        with writing(self._engine) as connection:
            leases.check(connection, lease)
            segment = connection.execute(select(log_head.c.segment)).scalar_one()
            due = segments.segment_is_due(connection, segment_bytes, segment_seconds)
            if not due or _is_empty(connection, segment % SLOTS) or not _is_empty(connection, (segment + 1) % SLOTS):
                return False
            segments.open_segment(connection, segment + 1)
            return True

    def trim(self, lease: Lease, retention: Retention) -> Trimmed:
        """See the port."""
        emptied = 0
        laggards: list[Owed] = []
        while True:
            with writing(self._engine) as connection:
                leases.check(connection, lease)
                one = _trim_one(connection, retention)
                if one is None:
                    return Trimmed(sql_log.trimmed_seq(connection), emptied, tuple(laggards))
                emptied += 1
                laggards += one


def _whole_transactions(rows: Sequence[LogRow]) -> int:
    """Count the rows before the transaction of the last one."""
    last = rows[-1].transaction
    count = len(rows)
    while count and rows[count - 1].transaction == last:
        count -= 1
    return count


def _giant(connection: Connection, first: LogRow) -> Closing:
    found = connection.exec_driver_sql(_SIGHTED, (first.id, first.transaction) * SLOTS).all()
    seen = [Sighting(number, client, text, rows) for client, number, text, rows, _, _ in found]
    high = max(row[5] for row in found)
    return Closing(Mark(high=high), None, seen, sum(row[3] for row in found), sum(row[4] for row in found), more=True)


def _is_empty(connection: Connection, slot: int) -> bool:
    found = connection.exec_driver_sql(f"SELECT 1 FROM lrq_log_entries_{slot} LIMIT 1")  # noqa: S608 - a number
    return found.first() is None


def _trim_one(connection: Connection, retention: Retention) -> tuple[Owed, ...] | None:
    """Empty the oldest segment that has rows, if that is allowed; return the laggards, or None."""
    current = connection.execute(select(log_head.c.slot)).scalar_one()
    for step in range(1, SLOTS):
        slot = (current + step) % SLOTS
        if not _is_empty(connection, slot):
            return _empty(connection, slot, retention)
    return None


def verdict(connection: Connection, slot: int, retention: Retention) -> segments.Verdict | None:
    """Decide about one segment that has rows; None while it must be kept."""
    high = connection.exec_driver_sql(f"SELECT max(id) FROM lrq_log_entries_{slot}").scalar_one()  # noqa: S608
    upto = segments.full_tick_covering(connection, lambda mark: mark.high >= high)
    if upto is None:
        return None
    sets = connection.exec_driver_sql(f"SELECT DISTINCT tag_set FROM lrq_log_entries_{slot}").scalars().all()  # noqa: S608
    return segments.judge(connection, upto, sets, lambda *bounds: _owes(connection, *bounds), retention)


def _empty(connection: Connection, slot: int, retention: Retention) -> tuple[Owed, ...] | None:
    found = verdict(connection, slot, retention)
    if found is None:
        return None
    segments.let_go(connection, found)
    _forget_ticks(connection, found.upto)
    # Without a condition SQLite frees the pages of the whole table at once.
    connection.exec_driver_sql(f"DELETE FROM lrq_log_entries_{slot}")  # noqa: S608 - a number
    return found.laggards


def _forget_ticks(connection: Connection, trimmed: Tick) -> None:
    # The last one that is trimmed stays, because the next one is read from where it ends.
    is_old = ticks.c.number < trimmed.number - segments.KEPT_TICKS
    connection.execute(delete(ticks).where(is_old, ticks.c.number.not_in(segments.acknowledged(connection))))


def _owes(connection: Connection, owed: Owed, after: Mark | None, upto: Mark) -> bool:
    bounds = (owed.client, owed.destination, after.high if after else 0, upto.high)
    return connection.exec_driver_sql(f"SELECT 1 FROM ({_OWED}) LIMIT 1", bounds * SLOTS).first() is not None  # noqa: S608
