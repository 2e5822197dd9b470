"""The log-entry queue on PostgreSQL: a tick is the difference of two snapshots, in order of commit (DESIGN 2)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine

from queues import leases
from queues.dialects import postgresql_reading as reading
from queues.dialects import postgresql_rewriting, postgresql_segments, postgresql_ticks
from queues.dialects.postgresql import request
from queues.dialects.postgresql_emptying import BusyError
from queues.dialects.postgresql_exchange import Request, exchange
from queues.dialects.postgresql_windows import IN_WINDOW, NOTHING, PLAN, since, window
from queues.errors import StoreUnavailableError
from queues.leases import Lease
from queues.log import sql as sql_log
from queues.log.closing import Closing, insert_tick
from queues.log.port import Bounds, Group, Limits, LogRow, Owed, Retention, Trimmed
from queues.log.set_dictionary import SetDictionary, Sighting, sightings
from queues.positions import Mark, Snapshot, Tick
from queues.transactions import mapped_errors, writing

_AT_ONE_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
# The lease is checked at the snapshot, which would not see it if its table were written anew in between.
_KEEP_LEASES = "LOCK TABLE lrq_leases IN ACCESS SHARE MODE"
_LOOK = PLAN.format(avoided="enable_hashjoin")
# The transactions of a window, oldest first. `after` continues a window that earlier ticks closed in part; there the
# rows committed since (not visible in its end) wait for the next window.
_COMMITS = f"""
    SELECT xid, commit_seq, committed_us FROM lrq_log_commits WHERE {IN_WINDOW} AND commit_seq > %(after)s
    ORDER BY commit_seq LIMIT %(commits)s
"""  # noqa: S608 - constants
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
_FEWEST_COMMITS: Final = 256

_Done = TypeVar("_Done")


class PostgresqlLog:
    """See `queues.log.port.Log`."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        self._engine = engine
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
            with mapped_errors(), self._engine.connect() as connection, connection.begin():
                closing = self._next(connection, lease, Mark.parse(last.mark) if last else Mark(window=NOTHING))
                if closing is None:
                    return None
                return insert_tick(connection, lease, last, closing, self._dictionary)
        except BaseException:
            self._dictionary.forget()
            raise

    def _next(self, connection: Connection, lease: Lease, last: Mark) -> Closing | None:
        seen = last.window or NOTHING
        following = self._following(since(seen))
        rest = None if last.upto is None else self._following(window(last.base or NOTHING, seen), after=last.upto)
        check = request(connection, *leases.checking(connection, lease, durably=True))
        opening = [(_AT_ONE_SNAPSHOT, {}), (_KEEP_LEASES, {}), (_LOOK, {}), check, following if rest is None else rest]
        *_, look, checked, found = exchange(connection, opening)
        leases.judge(lease, checked.rows)
        now = Snapshot.parse(look.rows[0][0])
        if rest is not None:
            if found.rows:
                return self._close(connection, found.rows, last.base or NOTHING, seen)
            # An empty rest is no tick of its own: it ends with the next window.
            (found,) = exchange(connection, [following])
        return self._close(connection, found.rows, seen, now) if found.rows else None

    def _following(self, bounds: dict[str, Any], after: int = 0) -> Request:
        limits = {"commits": self._commits, "rows": self._limits.rows + 1, "bytes": self._limits.payload_bytes}
        return _NEXT, {**bounds, "after": after, **limits}

    def _close(self, connection: Connection, found: Sequence[tuple[Any, ...]], lo: Snapshot, hi: Snapshot) -> Closing:
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
        with sql_log.still_kept(self._engine, ticks[0]) as connection:
            before = sql_log.mark_before(connection, ticks[0]) or Mark(window=NOTHING)
            return reading.read(connection, owed, before, [Mark.parse(tick.mark) for tick in ticks])

    def stream(self, owed: Owed, tick: Tick, skip: int, limits: Limits) -> Iterator[list[LogRow]]:
        """See the port. Each piece is a read of its own, so a slow sink holds no snapshot."""
        with sql_log.still_kept(self._engine, tick) as connection:
            transaction = reading.transaction(connection, Mark.parse(tick.mark))
        if transaction is None:
            raise StoreUnavailableError(f"the commit of the large transaction of tick {tick.uid} is not in the log")
        after = 0
        while True:
            with sql_log.still_kept(self._engine, tick) as connection:
                piece = reading.read_piece(connection, owed, transaction, after, skip, limits)
            if not piece:
                return
            after, skip = piece[-1].id, 0
            yield piece

    def rotate(self, lease: Lease, segment_bytes: int, segment_seconds: float) -> bool:
        """See the port."""
        with writing(self._engine) as connection:
            leases.check(connection, lease)
            return postgresql_segments.rotate(connection, segment_bytes, segment_seconds)

    def trim(self, lease: Lease, retention: Retention) -> Trimmed:
        """See the port. What somebody still has open is left for the next run."""
        emptied = 0
        laggards: list[Owed] = []
        while (
            lost := self._try(lease, lambda connection: postgresql_segments.trim_one(connection, retention))
        ) is not None:
            emptied += 1
            laggards += lost
        while self._try(lease, postgresql_ticks.empty_one):
            pass
        self._try(lease, postgresql_rewriting.rewrite)
        return Trimmed(self.bounds().trimmed_seq, emptied, tuple(laggards))

    def _try(self, lease: Lease, empty: Callable[[Connection], _Done]) -> _Done | None:
        """Empty one thing in a transaction of its own; None when somebody has it open."""
        try:
            with writing(self._engine) as connection:
                leases.check(connection, lease)
                return empty(connection)
        except BusyError:
            return None


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
