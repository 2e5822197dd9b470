"""Take ticks on PostgreSQL: the entries that one snapshot sees and an earlier one does not.

See docs/design.md, "The tick".
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Engine

from queues.database import leases
from queues.database.leases import Lease
from queues.database.postgresql.autocommit import Ask, Direct
from queues.database.postgresql.dialect import request
from queues.database.postgresql.pipeline import exchange
from queues.database.transactions import writing
from queues.positions import PgSnapshot, Tick, Visibility
from queues.send_log.destination_sets import SetDictionary, Sighting, sightings
from queues.send_log.port import LogRow, TickLimits, TickRows, ignore, size_of
from queues.send_log.postgresql.incarnation_check import require_incarnation
from queues.send_log.postgresql.reads import SIZE
from queues.send_log.postgresql.windows import IN_WINDOW, IS_AHEAD, NOTHING, plan, since, window
from queues.send_log.ticks import TickDraft, following, insert_tick, insertion, stale_as_unavailable

_AVOIDED: Final = "enable_hashjoin"
SETTINGS: Final = plan(_AVOIDED, lasting=True) + (
    ", set_config('synchronous_commit', 'on', false)"
    ", set_config('default_transaction_isolation', 'read committed', false)"
)
# The transactions of a window, oldest first. The search must use their ids: `+ 0` prevents a walk over all commits in
# order, where these are the last ones. A copied row with an id of the future would be part of each next tick.
_COMMITS = f"""
    SELECT xid, commit_seq, committed_us FROM lrq_log_commits WHERE {IN_WINDOW} AND NOT {IS_AHEAD}
    ORDER BY commit_seq + 0 LIMIT %(commits)s
"""  # noqa: S608 - constants
# The rest of a window that earlier ticks closed in part. The search uses the order of commits, because nearly all later
# commits belong to the window. Commits after the window's end wait for the next window.
_LATER_COMMITS = f"""
    SELECT xid, commit_seq, committed_us FROM lrq_log_commits
    WHERE {IN_WINDOW.replace("xid", "(xid + 0)")} AND commit_seq > %(after)s
    ORDER BY commit_seq LIMIT %(commits)s
"""  # noqa: S608 - constants
# Rows beyond the limits have no payload. The first row also has the snapshot of the statement.
_ROWS = f"""
    WITH c AS MATERIALIZED ({{commits}}),
    e AS (
      SELECT e.xid, c.commit_seq, e.id, e.client, e.tag_set, e.item_key, c.committed_us, e.payload, e.headers,
        e.partition_key, e.request, e.destinations,
        sum({SIZE}) OVER (ORDER BY c.commit_seq, e.id ROWS UNBOUNDED PRECEDING) AS size
      FROM c JOIN lrq_log_entries e USING (xid) ORDER BY c.commit_seq, e.id LIMIT %(rows)s
    )
    SELECT xid, commit_seq, id, client, tag_set, item_key, committed_us,
      CASE WHEN size <= %(bytes)s THEN payload END, CASE WHEN size <= %(bytes)s THEN headers END, partition_key,
      request, destinations, (SELECT count(*) FROM c), CASE WHEN size = {SIZE} THEN pg_current_snapshot()::text END
    FROM e ORDER BY commit_seq, id
"""  # noqa: S608 - constants
NEXT: Final = _ROWS.format(commits=_COMMITS)
_REST = _ROWS.format(commits=_LATER_COMMITS)
_SIGHTED = f"""
    SELECT client, tag_set, max(destinations), count(*), sum({SIZE})
    FROM lrq_log_entries WHERE xid = %(xid)s GROUP BY client, tag_set
"""  # noqa: S608 - constants
_FEWEST_COMMITS: Final = 256


class TickTaker:
    """Closes committed entries in ticks. Not for several threads."""

    def __init__(self, engine: Engine, limits: TickLimits) -> None:
        """Take ticks within *limits*."""
        self._engine = engine
        self._limits = limits
        self._dictionary = SetDictionary()
        self._direct = Direct(engine, SETTINGS, self._check)
        self._lease: Lease | None = None
        # The number of transactions whose entries are sorted for a tick: about twice the number in the last tick.
        self._commits = _FEWEST_COMMITS
        # Whether the last tick recorded sets. Then the next tick begins with a transaction, so that rows are read once.
        self._is_recording = False

    def take(self, lease: Lease, last: Tick | None, meanwhile: Callable[[TickRows], None] = ignore) -> TickRows | None:
        """See `queues.send_log.port.Log.take_tick`.

        One connection reads the rows and writes the tick. So a crash in between, which might lose rows of asynchronous
        commits, also prevents the tick. The two statements need a common transaction only if the tick records sets.
        """
        self._lease = lease
        if last is None or self._is_recording:
            return self._in_transaction(lease, last)
        with self._direct.asking() as ask:
            closing = self._next(ask, Visibility.parse(last.mark))
            if closing is None:
                return None
            group = self._at_once(ask, lease, last, closing, meanwhile)
        return group or self._in_transaction(lease, last)

    def _at_once(
        self, ask: Ask, lease: Lease, last: Tick, closing: TickDraft, meanwhile: Callable[[TickRows], None]
    ) -> TickRows | None:
        """Insert the next tick with one statement; None if sets must be recorded or the insertion fails."""
        sets = self._dictionary.recall(closing.seen)
        if sets is None:
            return None
        group = TickRows(following(last, closing), closing.rows, sets, more=closing.more)
        inserting = request(self._engine, *insertion(group.tick, lease, partitioned=True))
        with stale_as_unavailable():
            written = ask(inserting, lambda: meanwhile(group)).size
        return group if written else None

    def _in_transaction(self, lease: Lease, last: Tick | None) -> TickRows | None:
        mark = Visibility.parse(last.mark) if last else Visibility(window=NOTHING)
        try:
            with writing(self._engine) as connection:
                leases.check(connection, lease, durably=True)
                self._check(connection)
                connection.exec_driver_sql(plan(_AVOIDED))
                closing = self._next(lambda request, _=None: exchange(connection, [request])[0], mark)
                self._is_recording = closing is not None and self._dictionary.recall(closing.seen) is None
                if closing is None:
                    return None
                return insert_tick(connection, lease, last, closing, self._dictionary, partitioned=True)
        except BaseException:
            self._dictionary.forget()
            raise

    def _check(self, connection: Connection) -> None:
        if self._lease is not None:
            require_incarnation(connection, self._lease)

    def _next(self, ask: Ask, last: Visibility) -> TickDraft | None:
        seen = last.window or NOTHING
        if last.upto is not None and not last.ends_window:
            base = last.base or NOTHING
            rest = ask((_REST, {**window(base, seen), "after": last.upto, **self._within()})).rows
            if rest:
                return self._close(ask, rest, base, seen)
        # An empty rest gets no tick.
        found = ask((NEXT, {**since(seen), **self._within()})).rows
        return self._close(ask, found, seen, PgSnapshot.parse(found[0][13])) if found else None

    def _within(self) -> dict[str, int]:
        return {"commits": self._commits, "rows": self._limits.rows + 1, "bytes": self._limits.payload_bytes}

    def _close(self, ask: Ask, found: Sequence[tuple[Any, ...]], lo: PgSnapshot, hi: PgSnapshot) -> TickDraft:
        has_all = found[0][12] < self._commits
        fitting = _fitting(found, self._limits.rows)
        if fitting == 0:
            is_alone = has_all and found[0][12] == 1
            return _giant(ask, found[0], hi if is_alone else lo, hi, more=not is_alone)
        if fitting == len(found) and not has_all:
            # Perhaps no further transaction is left. A part of a window must not be the last one.
            fitting = _before_last(found) or fitting
        complete = fitting == len(found) and has_all
        if not complete:
            taken = len({row[0] for row in found[:fitting]})
            self._commits = min(max(2 * taken, _FEWEST_COMMITS), self._limits.rows + 1)
        rows = [LogRow(*row[:11]) for row in found[:fitting]]
        seen = sightings((row[3], row[4], row[11]) for row in found[:fitting])
        mark = Visibility(window=hi) if complete else Visibility(window=hi, base=lo, upto=rows[-1].order)
        return TickDraft(mark, rows, seen, len(rows), size_of(rows), more=not complete)

    def forget(self) -> None:
        """Clear the memory of sets, because their members have changed."""
        self._dictionary.forget()

    def close(self) -> None:
        """Close the connection; the next tick opens another."""
        self._direct.close()


def _fitting(found: Sequence[Sequence[object]], limit: int) -> int:
    """Count the leading rows that are whole transactions within the limits."""
    within = next((i for i, row in enumerate(found) if i >= limit or row[7] is None), len(found))
    return within if within == len(found) else _before_last(found[: within + 1])


def _before_last(found: Sequence[Sequence[object]]) -> int:
    """Count the rows before the last transaction."""
    within = len(found) - 1
    while within and found[within - 1][0] == found[-1][0]:
        within -= 1
    return within


def _giant(ask: Ask, first: Sequence[object], base: PgSnapshot, hi: PgSnapshot, *, more: bool) -> TickDraft:
    xid, order = first[0], first[1]
    found = ask((_SIGHTED, {"xid": xid})).rows
    seen = [Sighting(number, client, inline, rows) for client, number, inline, rows, _ in found]
    mark = Visibility(window=hi, base=base, upto=int(str(order)))
    return TickDraft(mark, None, seen, sum(row[3] for row in found), int(sum(row[4] for row in found)), more=more)
