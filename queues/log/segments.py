"""Rotating and emptying the segments of the log-entry queue (DESIGN 8): what both SQL dialects share.

A segment is emptied whole, when nothing in it is owed to anybody any more, or when it is beyond retention. In the
second case those who were still owed something lose it in the same transaction, and need a full snapshot. One dead
site never stops the rotation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, func, select, update

from queues.clock import now_us
from queues.log.port import Owed, Retention
from queues.log.set_dictionary import forget_unused
from queues.log.sql import newest_tick, tick_of
from queues.names import ClientName, SiteId
from queues.positions import Mark, Tick
from queues.tables import SLOTS, log_head, sessions, snapshots, tag_set_members, ticks

#: Tells whether ticks after the first mark, up to the second, hold something for a session.
Owes = Callable[[Owed, Mark | None, Mark], bool]

#: How many ticks stay known behind those whose entries are kept, so that a sink that holds one of them, and is owed
#: nothing since, resumes instead of being rebuilt.
KEPT_TICKS: Final = 10_000

# The mark of a tick that closed a backlog in part only; it does not end its window.
_IS_PART = ticks.c.mark.like("xid/%/%/_%")


def segment_is_due(connection: Connection, segment_bytes: int, segment_seconds: float) -> bool:
    """Tell whether the current segment is older, or holds more payload, than a segment should."""
    opened = connection.execute(select(log_head.c.opened_us)).scalar_one()
    if opened + int(segment_seconds * 1_000_000) <= now_us():
        return True
    latest_first = select(ticks.c.bytes_total).order_by(ticks.c.number.desc()).limit(1)
    newest = connection.execute(latest_first).scalar()
    before = connection.execute(latest_first.where(ticks.c.created_us <= opened)).scalar()
    return (newest or 0) - (before or 0) >= segment_bytes


def open_segment(connection: Connection, segment: int) -> None:
    """Let segment number *segment* be the one that is written to."""
    connection.execute(update(log_head).values(slot=segment % SLOTS, segment=segment, opened_us=now_us()))


def full_tick_covering(connection: Connection, covers: Callable[[Mark], bool]) -> Tick | None:
    """Return the first kept tick that ends a window and *covers* a segment; None when none does yet.

    Marks only grow, so the ticks can be searched by halving.
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
        elif covers(Mark.parse(row.mark)):
            found, high = tick_of(row), middle
        else:
            low = row.number + 1
    return found


@dataclass(frozen=True, slots=True)
class Verdict:
    """A segment may be emptied, all its entries being in ticks up to `upto`; the `laggards` lose something."""

    upto: Tick
    laggards: tuple[Owed, ...]


def judge(connection: Connection, upto: Tick, sets: Sequence[int], owes: Owes, retention: Retention) -> Verdict | None:
    """Decide about a segment that holds the tag *sets* and whose entries are all in ticks up to *upto*."""
    laggards = tuple(owed for owed, mark in _behind(connection, upto) if owes(owed, mark, Mark.parse(upto.mark)))
    if not laggards and not _owed_to_strangers(connection, sets):
        return Verdict(upto, ())
    return Verdict(upto, laggards) if _is_beyond(connection, upto, retention) else None


def _behind(connection: Connection, upto: Tick) -> list[tuple[Owed, Mark | None]]:
    """Return the sessions that have not acknowledged *upto*, each with the mark that it has acknowledged.

    One that gets a snapshot goes back to its base, whatever it has acknowledged since.
    """
    found: list[tuple[Owed, Mark | None]] = []
    bases = {(client, destination): seq for client, destination, seq in connection.execute(_BASES)}
    for client, destination, seq in connection.execute(_ACKED).all():
        acked_seq = min(seq, bases.get((client, destination), seq))
        if acked_seq < upto.end_seq:
            acked = select(ticks.c.mark).where(ticks.c.end_seq <= acked_seq, ~_IS_PART)
            mark = connection.execute(acked.order_by(ticks.c.number.desc()).limit(1)).scalar()
            owed = Owed(ClientName(client), SiteId(destination))
            found.append((owed, None if mark is None else Mark.parse(mark)))
    return found


_ACKED = select(sessions.c.client, sessions.c.destination, sessions.c.acked_seq)
# Of the snapshots that are being built or sent.
_BASES = (
    select(snapshots.c.client, snapshots.c.destination, func.min(snapshots.c.base_seq))
    .where(snapshots.c.state.in_(["building", "ready"]), snapshots.c.branch != "")
    .group_by(snapshots.c.client, snapshots.c.destination)
)


def _owed_to_strangers(connection: Connection, sets: Sequence[int]) -> bool:
    """Tell whether one of *sets* names a destination that has no session yet: it may still appear."""
    joined = tag_set_members.outerjoin(
        sessions,
        (sessions.c.client == tag_set_members.c.client) & (sessions.c.destination == tag_set_members.c.destination),
    )
    strangers = select(tag_set_members.c.destination).select_from(joined).where(sessions.c.client.is_(None)).limit(1)
    chunks = [sets[begin : begin + 500] for begin in range(0, len(sets), 500)]
    return any(connection.execute(strangers.where(tag_set_members.c.tag_set.in_(chunk))).first() for chunk in chunks)


def _is_beyond(connection: Connection, upto: Tick, retention: Retention) -> bool:
    newest = newest_tick(connection)
    if newest is None:
        return False
    too_old = upto.created_us < now_us() - int(retention.seconds * 1_000_000)
    return too_old or upto.bytes_total <= newest.bytes_total - retention.payload_bytes


def let_go(connection: Connection, verdict: Verdict) -> None:
    """Record that the entries of the ticks up to `verdict.upto` are gone, and who lost by it."""
    end = verdict.upto.end_seq
    for owed in sorted(verdict.laggards):
        lost = (sessions.c.client == owed.client) & (sessions.c.destination == owed.destination)
        connection.execute(update(sessions).where(lost).values(lost_seq=end))
    connection.execute(update(log_head).where(log_head.c.trimmed_seq < end).values(trimmed_seq=end))
    forget_unused(connection, end)


def acknowledged(connection: Connection) -> set[int]:
    """Return the numbers of the ticks that sessions stand at: by them a quiet one is known again, however long ago."""
    at = select(ticks.c.number).where(ticks.c.end_seq <= bindparam("acked")).order_by(ticks.c.end_seq.desc()).limit(1)
    acked = connection.execute(select(sessions.c.acked_seq).distinct()).scalars().all()
    return {number for seq in acked if (number := connection.execute(at, {"acked": seq}).scalar()) is not None}
