"""The log-entry queue on PostgreSQL: a tick is the difference of two snapshots, in order of commit (DESIGN 2)."""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, Engine, exc

from queues import leases
from queues.dialects.postgresql import fetch
from queues.leases import Lease
from queues.log import segments
from queues.log import sql as sql_log
from queues.log.port import Bounds, Group, Limits, LogRow, Owed, Retention, Trimmed
from queues.log.set_dictionary import SetDictionary, Sighting, sightings
from queues.log.sql import Closing
from queues.positions import Mark, Snapshot, Tick, first_covering
from queues.tables import SLOTS
from queues.transactions import mapped_errors, writing

#: Sees no transaction: what the first tick begins from.
_NOTHING = Snapshot(1, 1, frozenset())

# The transactions of a window, oldest first. `after` continues a window that earlier ticks closed in part; there the
# rows committed since (not visible in `hi`) wait for the next window.
# Few transactions of a log of any size: what the planner guesses without statistics would read all of it, and compile
# that first.
_NOW = """
    SELECT pg_current_snapshot()::text, set_config('jit', 'off', true), set_config('enable_hashjoin', 'off', true),
      set_config('enable_mergejoin', 'off', true), set_config('enable_seqscan', 'off', true)
"""
_COMMITS = """
    SELECT xid, commit_seq, committed_us FROM lrq_log_commits
    WHERE (xid >= %(lo)s OR xid = ANY(%(lo_running)s)) AND xid < %(hi)s AND xid <> ALL(%(hi_running)s)
    AND commit_seq > %(after)s
    ORDER BY commit_seq LIMIT %(commits)s
"""
# Beyond the limits only the sizes come along, not the payloads.
_NEXT = f"""
    WITH c AS MATERIALIZED ({_COMMITS}),
    e AS (
      SELECT e.xid, c.commit_seq, e.id, e.client, e.tag_set, e.item_key, c.committed_us, e.payload, e.destinations,
        sum(octet_length(e.payload)) OVER (ORDER BY c.commit_seq, e.id ROWS UNBOUNDED PRECEDING) AS size
      FROM c JOIN lrq_log_entries e USING (xid) ORDER BY c.commit_seq, e.id LIMIT %(rows)s
    )
    SELECT xid, commit_seq, id, client, tag_set, item_key, committed_us,
      CASE WHEN size <= %(bytes)s THEN payload END, destinations, (SELECT count(*) FROM c)
    FROM e ORDER BY commit_seq, id
"""  # noqa: S608 - constants
_SIGHTED = """
    SELECT client, tag_set, max(destinations), count(*), sum(octet_length(payload))
    FROM lrq_log_entries WHERE xid = %s GROUP BY client, tag_set
"""
_OWED = """
    SELECT e.xid, c.commit_seq, e.id, e.client, e.tag_set, e.item_key, c.committed_us, e.payload
    FROM lrq_log_entries e JOIN lrq_log_commits c USING (xid)
    WHERE e.tag_set = ANY(ARRAY(
      SELECT tag_set FROM lrq_tag_set_members WHERE client = %(client)s AND destination = %(destination)s))
    AND (e.xid >= %(lo)s OR e.xid = ANY(%(lo_running)s)) AND e.xid < %(hi)s AND e.xid <> ALL(%(hi_running)s)
    AND c.commit_seq > %(after)s AND c.commit_seq <= %(upto)s
"""
_UNCOVERED = "SELECT 1 FROM lrq_log_entries_{slot} WHERE xid >= %s OR xid = ANY(%s) LIMIT 1"
_END = 2**63 - 1
_FEWEST_COMMITS = 256


class PostgresqlLog:
    """See `queues.log.port.Log`."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        self._engine = engine
        self._repeatable = engine.execution_options(isolation_level="REPEATABLE READ")
        self._limits = limits
        self._dictionary = SetDictionary()
        # All entries of so many transactions are sorted to take a tick: about twice as many as the last one held.
        self._commits = _FEWEST_COMMITS

    def bounds(self) -> Bounds:
        """See the port."""
        return sql_log.bounds(self._engine)

    def take_tick(self, lease: Lease, last: Tick | None) -> Group | None:
        """See the port. The snapshot, the rows and the tick are one transaction's."""
        try:
            with mapped_errors(), self._repeatable.connect() as connection, connection.begin():
                closing = self._next(connection, Mark.parse(last.mark) if last else Mark(window=_NOTHING))
                if closing is None:
                    return None
                return sql_log.insert_tick(connection, lease, last, closing, self._dictionary)
        except BaseException:
            self._dictionary.forget()
            raise

    def _next(self, connection: Connection, last: Mark) -> Closing | None:
        now = Snapshot.parse(str(connection.exec_driver_sql(_NOW).scalar_one()))
        if last.upto is not None:
            closing = self._close(connection, last.base or _NOTHING, last.window or now, after=last.upto)
            # An empty rest is no tick of its own: it ends with the next window.
            return closing or self._close(connection, last.window or now, now, after=0)
        return self._close(connection, last.window or _NOTHING, now, after=0)

    def _close(self, connection: Connection, lo: Snapshot, hi: Snapshot, *, after: int) -> Closing | None:
        window = _window(lo, hi) | {"after": after}
        limits = {"commits": self._commits, "rows": self._limits.rows + 1, "bytes": self._limits.payload_bytes}
        # In the binary format payloads come as they are, not in hexadecimal digits.
        found = fetch(connection, _NEXT, window | limits)
        if not found:
            return None
        fitting = _fitting(found, self._limits.rows)
        if fitting == 0:
            return _giant(connection, found[0], lo, hi)
        complete = fitting == len(found) and found[0][9] < self._commits
        if not complete:
            taken = len({row[0] for row in found[:fitting]})
            self._commits = min(max(2 * taken, _FEWEST_COMMITS), self._limits.rows + 1)
        rows = [LogRow(*row[:8]) for row in found[:fitting]]
        seen = sightings((row[3], row[4], row[8]) for row in found[:fitting])
        mark = Mark(window=hi) if complete else Mark(window=hi, base=lo, upto=rows[-1].order)
        return Closing(mark, rows, seen, len(rows), sum(len(row.payload) for row in rows), more=not complete)

    def ticks_after(self, seq: int, limits: Limits) -> list[Tick]:
        """See the port."""
        return sql_log.ticks_after(self._engine, seq, limits)

    def read(self, owed: Owed, ticks: Sequence[Tick]) -> list[list[LogRow]]:
        """See the port."""
        groups: list[list[LogRow]] = [[] for _ in ticks]
        marks = [Mark.parse(tick.mark) for tick in ticks]
        with sql_log.still_kept(self._engine, ticks[0]) as connection:
            before = sql_log.mark_before(connection, ticks[0]) or Mark(window=_NOTHING)
            for begin, end in _runs(before, marks):
                previous = marks[begin - 1] if begin else before
                for row in connection.exec_driver_sql(_OWED, _owed(owed, previous, marks[end - 1])):
                    index = first_covering(marks[begin:end], row[0], row[1])
                    if index is not None:
                        groups[begin + index].append(LogRow(*row))
        for group in groups:
            group.sort(key=_in_order)
        return groups

    def stream(self, owed: Owed, tick: Tick, skip: int, limits: Limits) -> Iterator[list[LogRow]]:
        """See the port. Each piece is a read of its own, so a slow sink holds no snapshot."""
        mark = Mark.parse(tick.mark)
        with sql_log.still_kept(self._engine, tick) as connection:
            before = sql_log.mark_before(connection, tick) or Mark(window=_NOTHING)
        statement = f"{_OWED} AND e.id > %(after_id)s ORDER BY e.id LIMIT %(piece)s OFFSET %(skip)s"
        after = 0
        while True:
            with sql_log.still_kept(self._engine, tick) as connection:
                values = _owed(owed, before, mark) | {"after_id": after, "piece": limits.rows, "skip": skip}
                piece = sql_log.fill(connection, statement, values, limits)
            if not piece:
                return
            after, skip = piece[-1].id, 0
            yield piece

    def rotate(self, lease: Lease, segment_bytes: int, segment_seconds: float) -> bool:
        """See the port. The sequence is the state, so that clients read it without a lock."""
        with writing(self._engine) as connection:
            leases.check(connection, lease)
            current = connection.exec_driver_sql("SELECT last_value FROM lrq_log_segment").scalar_one()
            due = segments.segment_is_due(connection, segment_bytes, segment_seconds)
            if not due or _is_empty(connection, current % SLOTS) or not _is_empty(connection, (current + 1) % SLOTS):
                return False
            segment = connection.exec_driver_sql("SELECT nextval('lrq_log_segment')").scalar_one()
            segments.open_segment(connection, segment)
            return True

    def trim(self, lease: Lease, retention: Retention) -> Trimmed:
        """See the port. A segment that somebody still has open is left for the next run."""
        emptied = 0
        laggards: list[Owed] = []
        while True:
            try:
                with writing(self._engine) as connection:
                    leases.check(connection, lease)
                    one = _trim_one(connection, retention)
            except _BusyError:
                one = None
            if one is None:
                return Trimmed(self.bounds().trimmed_seq, emptied, tuple(laggards))
            emptied += 1
            laggards += one


class _BusyError(Exception):
    """Somebody holds a lock on the segment."""


def _in_order(row: LogRow) -> tuple[int, int]:
    return row.order, row.id


def _window(lo: Snapshot, hi: Snapshot) -> dict[str, object]:
    return {
        "lo": lo.xmax,
        "lo_running": sorted(lo.running),
        "hi": hi.xmax,
        "hi_running": sorted(hi.running),
    }


def _owed(owed: Owed, previous: Mark, last: Mark) -> dict[str, object]:
    """Bound what `last` covers and `previous` does not; both are of one run."""
    in_part = previous.upto is not None and previous.window == last.window
    lo = (previous.base if in_part else previous.window) or _NOTHING
    return _window(lo, last.window or _NOTHING) | {
        "client": owed.client,
        "destination": owed.destination,
        "after": previous.upto if in_part else 0,
        "upto": _END if last.upto is None else last.upto,
    }


def _runs(before: Mark, marks: Sequence[Mark]) -> Iterator[tuple[int, int]]:
    """Cut ticks into runs that one pair of bounds describes: parts of one window, or whole windows."""
    begin = 0
    previous = before
    for index, mark in enumerate(marks):
        in_part = mark.upto is not None or (previous.upto is not None and previous.window == mark.window)
        last = index + 1 == len(marks)
        next_in_part = not last and marks[index + 1].upto is not None
        if last or (in_part and mark.upto is None) or (not in_part and next_in_part):
            yield begin, index + 1
            begin = index + 1
        previous = mark


def _fitting(found: Sequence[Sequence[object]], limit: int) -> int:
    """Count the leading rows of whole transactions that are within the limits."""
    within = next((i for i, row in enumerate(found) if i >= limit or row[7] is None), len(found))
    if within == len(found):
        return within
    cut_in = found[within][0]
    while within and found[within - 1][0] == cut_in:
        within -= 1
    return within


def _giant(connection: Connection, first: Sequence[object], lo: Snapshot, hi: Snapshot) -> Closing:
    xid, order = first[0], first[1]
    found = connection.exec_driver_sql(_SIGHTED, (xid,)).all()
    seen = [Sighting(number, client, inline, rows) for client, number, inline, rows, _ in found]
    mark = Mark(window=hi, base=lo, upto=int(str(order)))
    return Closing(mark, None, seen, sum(row[3] for row in found), int(sum(row[4] for row in found)), more=True)


# --- segments -------------------------------------------------------------------------------------------------


def _is_empty(connection: Connection, slot: int) -> bool:
    found = connection.exec_driver_sql(f"SELECT 1 FROM lrq_log_entries_{slot} LIMIT 1")  # noqa: S608 - a number
    return found.first() is None


def _trim_one(connection: Connection, retention: Retention) -> tuple[Owed, ...] | None:
    """Empty the oldest segment that has rows, if that is allowed; return the laggards, or None."""
    current = connection.exec_driver_sql("SELECT last_value FROM lrq_log_segment").scalar_one()
    for step in range(1, SLOTS):
        slot = (current + step) % SLOTS
        if not _is_empty(connection, slot):
            return _empty(connection, slot, retention)
    return None


def _empty(connection: Connection, slot: int, retention: Retention) -> tuple[Owed, ...] | None:
    """Empty one segment if all it holds may go.

    With the lock held no transaction can have an uncommitted row in it, so what is seen now is all there is.
    """
    if verdict(connection, slot, retention) is None:
        return None
    names = f"lrq_log_entries_{slot}, lrq_log_commits_{slot}"
    try:
        with connection.begin_nested():
            connection.exec_driver_sql(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE NOWAIT")
    except exc.OperationalError as error:
        raise _BusyError from error
    found = verdict(connection, slot, retention)
    if found is None:
        return None
    segments.let_go(connection, found)
    connection.exec_driver_sql(f"TRUNCATE {names}")
    return found.laggards


def verdict(connection: Connection, slot: int, retention: Retention) -> segments.Verdict | None:
    """Decide about one segment that has rows; None while it must be kept."""
    upto = segments.full_tick_covering(connection, lambda mark: _covers_all(connection, slot, mark))
    if upto is None:
        return None
    sets = connection.exec_driver_sql(f"SELECT DISTINCT tag_set FROM lrq_log_entries_{slot}").scalars().all()  # noqa: S608
    return segments.judge(connection, upto, sets, lambda *bounds: _owes(connection, *bounds), retention)


def _covers_all(connection: Connection, slot: int, mark: Mark) -> bool:
    window = mark.window or _NOTHING
    uncovered = connection.exec_driver_sql(_UNCOVERED.format(slot=slot), (window.xmax, sorted(window.running)))
    return uncovered.first() is None


def _owes(connection: Connection, owed: Owed, after: Mark | None, upto: Mark) -> bool:
    bounds = _owed(owed, after or Mark(window=_NOTHING), upto)
    return connection.exec_driver_sql(f"SELECT 1 FROM ({_OWED}) AS owed LIMIT 1", bounds).first() is not None  # noqa: S608
