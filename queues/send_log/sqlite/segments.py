"""Begin and trim the segments of SQLite's send log."""

from collections import Counter
from collections.abc import Callable, Mapping

from sqlalchemy import Connection, Engine, Select, delete, select

from queues.database import leases
from queues.database.leases import Lease
from queues.database.left_out import remove_all
from queues.database.tables.log import log_head, sqlite_segments
from queues.database.tables.ticks import ticks
from queues.database.transactions import writing
from queues.positions import Tick
from queues.send_log import partitions, segments
from queues.send_log.port import Retention, SessionKey, TrimResult
from queues.send_log.reads import trimmed_seq
from queues.send_log.rotation import SegmentLimits
from queues.send_log.sqlite.reads import count_owed, owes

# The laggards of a trimmed segment, and the numbers of entries that unknown destinations have lost.
_Emptied = tuple[tuple[SessionKey, ...], Mapping[SessionKey, int]]

#: Tells whether a segment may go that is judged to go.
MayGo = Callable[[Connection, segments.Verdict], bool]


def current(connection: Connection) -> int:
    """Return the partition of the current segment."""
    return int(connection.execute(select(log_head.c.slot)).scalar_one())


def keep(connection: Connection) -> None:
    """Do nothing: the transaction has the write lock, so no other one trims."""


def written(partition: int) -> Select[int]:
    """Return a query for the times of the entries of a segment, oldest entry first."""
    table = sqlite_segments[partition]
    return select(table.c.created_us).order_by(table.c.id)


def rotate(connection: Connection, limits: SegmentLimits, retention: Retention | None) -> bool:
    """See `queues.send_log.port.Log.rotate`."""
    if not partitions.may_rotate(connection, current(connection), limits, retention, _newest_first):
        return False
    segment = connection.execute(select(log_head.c.segment)).scalar_one()
    segments.open_segment(connection, segment + 1)
    return True


def _newest_first(partition: int) -> Select[int]:
    return written(partition).order_by(None).order_by(sqlite_segments[partition].c.id.desc())


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
                return TrimResult(trimmed_seq(connection), emptied, tuple(laggards), dropped_unknown=unknown)
            emptied += 1
            laggards += one[0]
            unknown.update(one[1])


def _trim_one(connection: Connection, retention: Retention, may_go: MayGo) -> _Emptied | None:
    """Trim the oldest segment with rows; None if there is none or it must be kept."""
    partition = partitions.oldest_filled(connection, current(connection))
    if partition is None:
        return None
    found = verdict(connection, partition, retention)
    if found is None or not may_go(connection, found):
        return None
    unknown = segments.let_go(connection, found, lambda *bounds: count_owed(connection, *bounds))
    forget_ticks(connection, found.upto)
    # A DELETE without a condition frees all pages of the table at once.
    remove_all(connection, sqlite_segments[partition])
    return found.laggards, unknown


def verdict(connection: Connection, partition: int, retention: Retention) -> segments.Verdict | None:
    """Decide about one segment with rows; None while ticks or sessions need the segment."""
    high = connection.exec_driver_sql(f"SELECT max(id) FROM lrq_log_entries_{partition}").scalar_one()  # noqa: S608
    upto = segments.full_tick_covering(connection, lambda mark: mark.high >= high)
    if upto is None:
        return None
    sets = connection.exec_driver_sql(f"SELECT DISTINCT tag_set FROM lrq_log_entries_{partition}").scalars().all()  # noqa: S608
    return segments.judge(connection, upto, sets, lambda *bounds: owes(connection, *bounds), retention)


def forget_ticks(connection: Connection, trimmed: Tick) -> None:
    """Remove the rows of old ticks before the last *trimmed* one, but those at acknowledged positions."""
    # The last trimmed tick is always kept, because reading the next tick begins at its end.
    is_old = ticks.c.number < trimmed.number - segments.KEPT_TICKS
    connection.execute(delete(ticks).where(is_old, ticks.c.number.not_in(segments.acknowledged(connection))))
