"""Look up ticks and branches of the log in the caller's transaction, without reading entries."""

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, exists, func, or_, select, tuple_

from queues.database.tables.site import branches, site
from queues.database.tables.ticks import ticks
from queues.lineage import BranchOrigin, timeline_of
from queues.positions import Tick, Visibility
from queues.send_log.reads import tick_of

# A place in the order of commits that no known place exceeds.
_UNKNOWN: Final = 2**63 - 1


def current_branch(connection: Connection) -> str:
    """Return the current branch of the log."""
    return str(connection.execute(select(site.c.branch)).scalar_one())


def branch_starts(connection: Connection) -> list[tuple[str, int]]:
    """Return every branch with the sequence number after which it begins, oldest first."""
    ordered = select(branches.c.branch, branches.c.start_seq).order_by(branches.c.number)
    return [(branch, start_seq) for branch, start_seq in connection.execute(ordered)]


def branch_at(connection: Connection, seq: int) -> str:
    """Return the branch of the tick that ends at *seq*; for 0, the first branch; an empty text without branches."""
    before = select(branches.c.branch).where(branches.c.start_seq < max(seq, 1)).order_by(branches.c.number.desc())
    return connection.execute(before.limit(1)).scalar() or ""


def branches_from(connection: Connection, branch: str) -> set[str]:
    """Return *branch* and all later branches: their history includes the kept ticks of *branch*."""
    first = select(branches.c.number).where(branches.c.branch == branch).scalar_subquery()
    return set(connection.execute(select(branches.c.branch).where(branches.c.number >= first)).scalars())


def known_ticks(connection: Connection, keys: Iterable[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Return the *keys* (branch, end and uid of a tick) of ticks in the log."""
    columns = (ticks.c.branch, ticks.c.end_seq, ticks.c.uid)
    chosen = select(*columns).where(tuple_(*columns).in_([tuple(key) for key in keys]))
    return [(branch, end_seq, uid) for branch, end_seq, uid in connection.execute(chosen)]


def tick_ending_at(connection: Connection, branch: str, seq: int) -> Tick | None:
    """Return the tick that ends at *seq* in the history of *branch*, which may begin just after that tick."""
    begins = exists().where(branches.c.branch == branch, branches.c.start_seq == seq)
    ending = select(ticks).where(ticks.c.end_seq == seq, or_(ticks.c.branch == branch, begins)).limit(1)
    row = connection.execute(ending).first()
    return None if row is None else tick_of(row)


def end_at_or_after(connection: Connection, seq: int) -> int:
    """Return the end of the first tick that ends at or after *seq*; there must be one."""
    return int(connection.execute(select(func.min(ticks.c.end_seq)).where(ticks.c.end_seq >= seq)).scalar_one())


def end_within(connection: Connection, after: int, entries: int | None, upto: int | None) -> int | None:
    """Return the end of the last tick within *entries* entries after *after*; without one, the next tick's end.

    Ticks that end after *upto* do not count. Return None without a tick. None for *entries* or *upto* means no limit.
    """
    following = select(ticks.c.end_seq).where(ticks.c.end_seq > after)
    if upto is not None:
        following = following.where(ticks.c.end_seq <= upto)
    within = following.order_by(ticks.c.end_seq.desc()).limit(1)
    if entries is not None:
        within = within.where(ticks.c.end_seq <= after + entries)
    found = connection.execute(within).scalar()
    if found is None:
        found = connection.execute(following.order_by(ticks.c.end_seq).limit(1)).scalar()
    return found


def lineage(connection: Connection) -> list[BranchOrigin]:
    """Return all branches, oldest first, with the transactions that each has inherited."""
    columns = branches.c.branch, branches.c.incarnation, branches.c.inherited
    rows = connection.execute(select(*columns).order_by(branches.c.number))
    return [BranchOrigin(branch, timeline_of(incarnation), inherited) for branch, incarnation, inherited in rows]


def end_covering(connection: Connection, branch: str, transaction: int) -> int | None:
    """Return the end of the first kept tick of *branch* that surely covers *transaction*; None without one."""
    tick = tick_covering(connection, branch, transaction)
    return None if tick is None else tick.end_seq


def tick_covering(connection: Connection, branch: str, transaction: int, order: int = _UNKNOWN) -> Tick | None:
    """Return the first kept tick of *branch* that covers an entry (see `Visibility.covers`); None without one.

    Each tick's visibility covers all earlier ones, so a binary search finds the tick.
    """
    of_branch = ticks.c.branch == branch
    kept = select(ticks).where(of_branch).order_by(ticks.c.number).limit(1)
    newest = connection.execute(kept.order_by(None).order_by(ticks.c.number.desc())).first()
    if newest is None or not Visibility.parse(newest.mark).covers(transaction, order):
        return None
    low, high = connection.execute(kept).one().number, newest.number
    found = newest
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(kept.where(ticks.c.number >= middle)).one()
        if Visibility.parse(row.mark).covers(transaction, order):
            found, high = row, middle
        else:
            low = row.number + 1
    return tick_of(found)


def last_before(connection: Connection, seq: int) -> Tick | None:
    """Return the last kept tick that ends before entry *seq*; None without one."""
    last = select(ticks).where(ticks.c.end_seq < seq).order_by(ticks.c.end_seq.desc()).limit(1)
    row = connection.execute(last).first()
    return None if row is None else tick_of(row)


def first_since(connection: Connection, since_us: int) -> Tick | None:
    """Return the first kept tick that was taken at that time or later; None if all are earlier.

    Ticks follow each other in time, so a binary search finds the tick.
    """
    kept = select(ticks).order_by(ticks.c.number).limit(1)
    oldest = connection.execute(kept).first()
    newest = connection.execute(kept.order_by(None).order_by(ticks.c.number.desc())).first()
    if oldest is None or newest is None or newest.created_us < since_us:
        return None
    low, high = oldest.number, newest.number
    found = newest
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(kept.where(ticks.c.number >= middle)).one()
        if row.created_us >= since_us:
            found, high = row, middle
        else:
            low = row.number + 1
    return tick_of(found)
