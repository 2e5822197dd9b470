"""Taking ticks on PostgreSQL: what one snapshot sees and an earlier one does not (DESIGN 2)."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Engine

from queues import leases
from queues.dialects.postgresql import request
from queues.dialects.postgresql_direct import Ask, Direct
from queues.dialects.postgresql_exchange import exchange
from queues.dialects.postgresql_windows import IN_WINDOW, NOTHING, plan, since, window
from queues.leases import Lease
from queues.log.closing import Closing, following, insert_tick, insertion
from queues.log.port import Group, Limits, LogRow
from queues.log.set_dictionary import SetDictionary, Sighting, sightings
from queues.positions import Mark, Snapshot, Tick
from queues.transactions import writing

_AVOIDED: Final = "enable_hashjoin"
SETTINGS: Final = plan(_AVOIDED, lasting=True) + (
    ", set_config('synchronous_commit', 'on', false)"
    ", set_config('default_transaction_isolation', 'read committed', false)"
)
# The transactions of a window, oldest first. Found by their ids: `+ 0` keeps the planner from looking for them in the
# order of all commits that there are, whose last ones they are.
_COMMITS = f"""
    SELECT xid, commit_seq, committed_us FROM lrq_log_commits WHERE {IN_WINDOW}
    ORDER BY commit_seq + 0 LIMIT %(commits)s
"""  # noqa: S608 - constants
# The rest of a window that earlier ticks closed in part, found in their order: from there on nearly all commits are its
# own. Those since (not visible in its end) wait for the next window.
_LATER_COMMITS = f"""
    SELECT xid, commit_seq, committed_us FROM lrq_log_commits
    WHERE {IN_WINDOW.replace("xid", "(xid + 0)")} AND commit_seq > %(after)s
    ORDER BY commit_seq LIMIT %(commits)s
"""  # noqa: S608 - constants
# Beyond the limits only the sizes come along, not the payloads; with the first row, the snapshot that shows them all.
_ROWS = """
    WITH c AS MATERIALIZED ({commits}),
    e AS (
      SELECT e.xid, c.commit_seq, e.id, e.client, e.tag_set, e.item_key, c.committed_us, e.payload, e.destinations,
        sum(octet_length(e.payload)) OVER (ORDER BY c.commit_seq, e.id ROWS UNBOUNDED PRECEDING) AS size
      FROM c JOIN lrq_log_entries e USING (xid) ORDER BY c.commit_seq, e.id LIMIT %(rows)s
    )
    SELECT xid, commit_seq, id, client, tag_set, item_key, committed_us,
      CASE WHEN size <= %(bytes)s THEN payload END, destinations, (SELECT count(*) FROM c),
      CASE WHEN size = octet_length(payload) THEN pg_current_snapshot()::text END
    FROM e ORDER BY commit_seq, id
"""
NEXT: Final = _ROWS.format(commits=_COMMITS)
_REST = _ROWS.format(commits=_LATER_COMMITS)
_SIGHTED = """
    SELECT client, tag_set, max(destinations), count(*), sum(octet_length(payload))
    FROM lrq_log_entries WHERE xid = %(xid)s GROUP BY client, tag_set
"""
_FEWEST_COMMITS: Final = 256


class TickTaker:
    """Closes what was committed in ticks. Not for several threads."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        """Take ticks within *limits*."""
        self._engine = engine
        self._limits = limits
        self._dictionary = SetDictionary()
        self._direct = Direct(engine, SETTINGS)
        # All entries of so many transactions are sorted to take a tick: about twice as many as the last one held.
        self._commits = _FEWEST_COMMITS
        # Whether the last tick had sets to be written with it: then the next one may, and need not be read twice.
        self._is_recording = False

    def take(self, lease: Lease, last: Tick | None) -> Group | None:
        """See `queues.log.port.Log.take_tick`.

        The rows and the tick come from one connection: the server has not lost, in between, what it showed. Each is a
        statement that stands alone; where sets are to be written with the tick, all is one transaction.
        """
        if last is None or self._is_recording:
            return self._in_transaction(lease, last)
        with self._direct.asking() as ask:
            closing = self._next(ask, Mark.parse(last.mark))
            if closing is None:
                return None
            group = self._at_once(ask, lease, last, closing)
        return group or self._in_transaction(lease, last)

    def _at_once(self, ask: Ask, lease: Lease, last: Tick, closing: Closing) -> Group | None:
        """Write the next tick if that is one statement; None where it is not."""
        sets = self._dictionary.recall(closing.seen)
        if sets is None:
            return None
        tick = following(last, closing)
        written = ask(request(self._engine, *insertion(tick, lease, "postgresql"))).size
        return Group(tick, closing.rows, sets, more=closing.more) if written else None

    def _in_transaction(self, lease: Lease, last: Tick | None) -> Group | None:
        mark = Mark.parse(last.mark) if last else Mark(window=NOTHING)
        try:
            with writing(self._engine) as connection:
                leases.check(connection, lease, durably=True)
                connection.exec_driver_sql(plan(_AVOIDED))
                closing = self._next(lambda request: exchange(connection, [request])[0], mark)
                self._is_recording = closing is not None and self._dictionary.recall(closing.seen) is None
                return insert_tick(connection, lease, last, closing, self._dictionary) if closing else None
        except BaseException:
            self._dictionary.forget()
            raise

    def _next(self, ask: Ask, last: Mark) -> Closing | None:
        seen = last.window or NOTHING
        if last.upto is not None:
            base = last.base or NOTHING
            rest = ask((_REST, {**window(base, seen), "after": last.upto, **self._within()})).rows
            if rest:
                return self._close(ask, rest, base, seen)
        # An empty rest is no tick of its own: it ends with the next window.
        found = ask((NEXT, {**since(seen), **self._within()})).rows
        return self._close(ask, found, seen, Snapshot.parse(found[0][10])) if found else None

    def _within(self) -> dict[str, int]:
        return {"commits": self._commits, "rows": self._limits.rows + 1, "bytes": self._limits.payload_bytes}

    def _close(self, ask: Ask, found: Sequence[tuple[Any, ...]], lo: Snapshot, hi: Snapshot) -> Closing:
        fitting = _fitting(found, self._limits.rows)
        if fitting == 0:
            return _giant(ask, found[0], lo, hi)
        complete = fitting == len(found) and found[0][9] < self._commits
        if not complete:
            taken = len({row[0] for row in found[:fitting]})
            self._commits = min(max(2 * taken, _FEWEST_COMMITS), self._limits.rows + 1)
        rows = [LogRow(*row[:8]) for row in found[:fitting]]
        seen = sightings((row[3], row[4], row[8]) for row in found[:fitting])
        mark = Mark(window=hi) if complete else Mark(window=hi, base=lo, upto=rows[-1].order)
        return Closing(mark, rows, seen, len(rows), sum(len(row.payload) for row in rows), more=not complete)

    def close(self) -> None:
        """Let go of the connection, until the next tick."""
        self._direct.close()


def _fitting(found: Sequence[Sequence[object]], limit: int) -> int:
    """Count the leading rows of whole transactions that are within the limits."""
    within = next((i for i, row in enumerate(found) if i >= limit or row[7] is None), len(found))
    if within == len(found):
        return within
    cut_in = found[within][0]
    while within and found[within - 1][0] == cut_in:
        within -= 1
    return within


def _giant(ask: Ask, first: Sequence[object], lo: Snapshot, hi: Snapshot) -> Closing:
    xid, order = first[0], first[1]
    found = ask((_SIGHTED, {"xid": xid})).rows
    seen = [Sighting(number, client, inline, rows) for client, number, inline, rows, _ in found]
    mark = Mark(window=hi, base=lo, upto=int(str(order)))
    return Closing(mark, None, seen, sum(row[3] for row in found), int(sum(row[4] for row in found)), more=True)
