"""Rotate and trim the segments of the send log: the part that both SQL dialects share.

A segment is trimmed whole, once all sessions have acknowledged its entries, or once it is beyond retention. Beyond
retention, sessions that lack entries lose them in the same transaction, and need a full snapshot. So a dead site never
stops the rotation.

See docs/design.md, "Bloat and trim".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, func, select, update

from queues.clock import now_us
from queues.database.tables import PARTITIONS, log_head, sessions, snapshots, tag_set_members, ticks
from queues.names import ClientName, SiteId
from queues.positions import Tick, Visibility
from queues.send_log.destination_sets import forget_unused
from queues.send_log.port import Retention, SessionKey
from queues.send_log.reads import newest_tick, tick_of
from queues.send_log.released import released
from queues.states import SnapshotState

#: Tells whether ticks after the first visibility, up to the second, hold entries for a session.
Owes = Callable[[SessionKey, Visibility | None, Visibility], bool]

#: The number of kept ticks before the kept entries. So a sink at one of these ticks can resume without a snapshot, if
#: later ticks held nothing for it.
KEPT_TICKS: Final = 10_000

# The tick closed only a part of its window, because the window was above the limits.
_IS_PART = ticks.c.mark.like("xid/%/%/_%")


def segment_is_due(connection: Connection, segment_bytes: int, segment_seconds: float) -> bool:
    """Tell whether the current segment has reached *segment_seconds* or *segment_bytes*."""
    opened = connection.execute(select(log_head.c.opened_us)).scalar_one()
    if opened + int(segment_seconds * 1_000_000) <= now_us():
        return True
    latest_first = select(ticks.c.bytes_total).order_by(ticks.c.number.desc()).limit(1)
    newest = connection.execute(latest_first).scalar()
    before = connection.execute(latest_first.where(ticks.c.created_us <= opened)).scalar()
    return (newest or 0) - (before or 0) >= segment_bytes


def open_segment(connection: Connection, segment: int) -> None:
    """Make the segment with number *segment* the current one."""
    connection.execute(update(log_head).values(slot=segment % PARTITIONS, segment=segment, opened_us=now_us()))


def full_tick_covering(connection: Connection, covers: Callable[[Visibility], bool]) -> Tick | None:
    """Return the first kept tick that ends a window and *covers* a segment; None without one.

    Each tick's visibility covers all earlier ones, so a binary search finds the tick.
    """
    oldest = connection.execute(select(ticks.c.number).order_by(ticks.c.number).limit(1)).scalar() or 0
    newest = newest_tick(connection)
    found: Tick | None = None
    low, high = oldest, newest.number + 1 if newest else oldest
    while low < high:
        middle = (low + high) // 2
        upwards = select(ticks).where(ticks.c.number >= middle, ~_IS_PART).order_by(ticks.c.number).limit(1)
        row = connection.execute(upwards).first()
        if row is None:
            high = middle
        elif covers(Visibility.parse(row.mark)):
            found, high = tick_of(row), middle
        else:
            low = row.number + 1
    return found


@dataclass(frozen=True, slots=True)
class Verdict:
    """The permission to trim a segment: its entries are in ticks up to `upto`, and the `laggards` lose some.

    `has_unordered`: some of its entries have no place in the order of commits, so no tick holds them. `is_held`: only
    these entries keep the segment, so it must stay.
    """

    upto: Tick
    laggards: tuple[SessionKey, ...]
    has_unordered: bool = False
    is_held: bool = False


def judge(connection: Connection, upto: Tick, sets: Sequence[int], owes: Owes, retention: Retention) -> Verdict | None:
    """Decide about a segment with the tag *sets* and all entries in ticks up to *upto*; None: keep the segment."""
    laggards = tuple(owed for owed, mark in _behind(connection, upto) if owes(owed, mark, Visibility.parse(upto.mark)))
    free = released(connection)
    if all(owed in free for owed in laggards) and not _owed_to_strangers(connection, sets):
        return Verdict(upto, laggards)
    return Verdict(upto, laggards) if is_beyond(connection, upto, retention) else None


def _behind(connection: Connection, upto: Tick) -> list[tuple[SessionKey, Visibility | None]]:
    """Return the sessions that have not acknowledged *upto*, each with its acknowledged visibility.

    A session with an unfinished snapshot counts from the snapshot's base, because it will return there.
    """
    found: list[tuple[SessionKey, Visibility | None]] = []
    bases = {(client, destination): seq for client, destination, seq in connection.execute(_BASES)}
    for client, destination, seq in connection.execute(_ACKED).all():
        acked_seq = min(seq, bases.get((client, destination), seq))
        if acked_seq < upto.end_seq:
            acked = select(ticks.c.mark).where(ticks.c.end_seq <= acked_seq, ~_IS_PART)
            mark = connection.execute(acked.order_by(ticks.c.number.desc()).limit(1)).scalar()
            owed = SessionKey(ClientName(client), SiteId(destination))
            found.append((owed, None if mark is None else Visibility.parse(mark)))
    return found


_ACKED = select(sessions.c.client, sessions.c.destination, sessions.c.acked_seq)
# The bases of snapshots that are being built or sent.
_BASES = (
    select(snapshots.c.client, snapshots.c.destination, func.min(snapshots.c.base_seq))
    .where(snapshots.c.state.in_([SnapshotState.BUILDING, SnapshotState.READY]), snapshots.c.branch != "")
    .group_by(snapshots.c.client, snapshots.c.destination)
)


def _owed_to_strangers(connection: Connection, sets: Sequence[int]) -> bool:
    """Tell whether one of *sets* names a destination without a session, whose site may still appear."""
    joined = tag_set_members.outerjoin(
        sessions,
        (sessions.c.client == tag_set_members.c.client) & (sessions.c.destination == tag_set_members.c.destination),
    )
    strangers = select(tag_set_members.c.destination).select_from(joined).where(sessions.c.client.is_(None)).limit(1)
    chunks = [sets[begin : begin + 500] for begin in range(0, len(sets), 500)]
    return any(connection.execute(strangers.where(tag_set_members.c.tag_set.in_(chunk))).first() for chunk in chunks)


def is_beyond(connection: Connection, upto: Tick, retention: Retention) -> bool:
    """Tell whether the ticks up to *upto* are beyond retention."""
    newest = newest_tick(connection)
    if newest is None:
        return False
    too_old = upto.created_us < now_us() - int(retention.seconds * 1_000_000)
    return too_old or upto.bytes_total <= newest.bytes_total - retention.payload_bytes


def let_go(connection: Connection, verdict: Verdict) -> None:
    """Record that the entries of the ticks up to `verdict.upto` are trimmed, and the laggards' loss."""
    end = verdict.upto.end_seq
    for owed in sorted(verdict.laggards):
        lost = (sessions.c.client == owed.client) & (sessions.c.destination == owed.destination)
        connection.execute(update(sessions).where(lost).values(lost_seq=end))
    connection.execute(update(log_head).where(log_head.c.trimmed_seq < end).values(trimmed_seq=end))
    forget_unused(connection, end)


def acknowledged(connection: Connection) -> set[int]:
    """Return the numbers of the ticks at the sessions' acknowledged positions.

    Ticks at these positions are always kept, so that a session without new entries can resume at any time.
    """
    at = select(ticks.c.number).where(ticks.c.end_seq <= bindparam("acked")).order_by(ticks.c.end_seq.desc()).limit(1)
    acked = connection.execute(select(sessions.c.acked_seq).distinct()).scalars().all()
    return {number for seq in acked if (number := connection.execute(at, {"acked": seq}).scalar()) is not None}
