"""Rotate and trim the segments of the send log: the part that both SQL dialects share.

A segment is trimmed whole, once all sessions have acknowledged its entries, or once it is beyond retention. Beyond
retention, sessions that lack entries lose them in the same transaction, and need a full snapshot. So a dead site never
stops the rotation.

See docs/design.md, "Bloat and trim".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, bindparam, func, select, text, update

from queues.clock import now_us
from queues.database.left_out import require_none
from queues.database.tables.destinations import tag_set_members
from queues.database.tables.log import PARTITIONS, log_head
from queues.database.tables.sessions import sessions
from queues.database.tables.snapshots import snapshots
from queues.database.tables.ticks import ticks
from queues.names import ClientName, SiteId
from queues.positions import Tick, Visibility
from queues.send_log.destination_sets import forget_unused
from queues.send_log.links import unclaimed
from queues.send_log.port import Retention, SessionKey
from queues.send_log.reads import newest_tick, tick_of, trimmed_seq
from queues.send_log.rotation import SegmentLimits, leaves_room, share
from queues.send_log.segment_claims import Claim, is_kept
from queues.send_log.strangers import record_strangers
from queues.send_log.unknown import record_dropped
from queues.send_log.useless_snapshots import end_useless
from queues.states import STORED_INACTIVE, SnapshotState

#: Tells whether ticks after the first visibility, up to the second, hold entries for a session.
Owes = Callable[[SessionKey, Visibility | None, Visibility], bool]
#: Counts these entries.
CountOwed = Callable[[SessionKey, Visibility | None, Visibility], int]

#: The number of kept ticks before the kept entries. So a sink at one of these ticks can resume without a snapshot, if
#: later ticks held nothing for it.
KEPT_TICKS: Final = 10_000

#: Selects the time at which the current segment was opened, and the bytes of payload in the ticks since then.
READ_LENGTH: Final = text("""
    SELECT opened_us, coalesce((SELECT bytes_total FROM lrq_ticks ORDER BY number DESC LIMIT 1), 0)
      - coalesce((SELECT bytes_total FROM lrq_ticks WHERE created_us <= opened_us ORDER BY number DESC LIMIT 1), 0)
    FROM lrq_log_head
""")

# The tick closed a part of its window, because the window was above the limits. A large tick may be the last part.
_IS_PART = ticks.c.mark.like("xid/%/%/_%")


def segment_is_due(connection: Connection, limits: SegmentLimits) -> bool:
    """Tell whether the current segment has reached *limits*."""
    opened_us, payload_bytes = connection.execute(READ_LENGTH).one()
    return is_due(opened_us, payload_bytes, limits)


def is_due(opened_us: int, payload_bytes: int, limits: SegmentLimits) -> bool:
    """Tell whether a segment has reached *limits*; see `READ_LENGTH`."""
    return limits.are_reached(payload_bytes, now_us() - opened_us)


def has_room(connection: Connection, closed: Sequence[Select[int]], retention: Retention) -> bool:
    """Tell whether a rotation leaves enough partitions for *retention*.

    *closed* are queries for the times of the entries in each closed segment, oldest segment first, newest entry first.
    """
    free = PARTITIONS - 2 - len(closed)
    if leaves_room(0.0, free):
        return True
    since = connection.execute(closed[0].limit(1)).scalar() or 0 if closed else now_us()
    newest = newest_tick(connection)
    later = _first_tick(connection, lambda row: row.created_us > since)
    size = newest.bytes_total - later.bytes_total if newest and later else 0
    return leaves_room(share(max(now_us() - since, 0) / 1_000_000, size, retention), free)


def open_segment(connection: Connection, segment: int) -> None:
    """Make the segment with number *segment* the current one."""
    connection.execute(update(log_head).values(slot=segment % PARTITIONS, segment=segment, opened_us=now_us()))


def full_tick_covering(connection: Connection, covers: Callable[[Visibility], bool]) -> Tick | None:
    """Return the first kept tick that ends a window and *covers* a segment; None without one.

    Each tick's visibility covers all earlier ones, so a binary search finds the tick.
    """
    return _first_tick(connection, lambda row: covers(Visibility.parse(row.mark)))


def _first_tick(connection: Connection, accepts: Callable[[Row[Any]], bool]) -> Tick | None:
    """Return the first kept tick that ends a window and is accepted; all ticks after an accepted one are."""
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
        elif accepts(row):
            found, high = tick_of(row), middle
        else:
            low = row.number + 1
    return found


@dataclass(frozen=True, slots=True)
class Verdict:
    """The permission to trim a segment: its entries are in ticks up to `upto`, and the `laggards` lose some.

    `unknown`: the claims of unknown destinations, which lose entries; removed sites are laggards too. `strangers`: the
    destinations without a session, known or not. `has_unordered`: some entries have no place in the order of commits,
    so no tick holds them. `is_held`: only these entries keep the segment, so it must stay.
    """

    upto: Tick
    laggards: tuple[SessionKey, ...]
    unknown: tuple[Claim, ...] = ()
    strangers: tuple[SessionKey, ...] = ()
    has_unordered: bool = False
    is_held: bool = False


def judge(connection: Connection, upto: Tick, sets: Sequence[int], owes: Owes, retention: Retention) -> Verdict | None:
    """Decide about a segment with the tag *sets* and all entries in ticks up to *upto*; None: keep the segment."""
    mark = Visibility.parse(upto.mark)
    lagging = [
        claim
        for claim in behind(connection, upto, retention)
        if owes(claim.owed, _mark_at(connection, claim.acked_seq), mark)
    ]
    closed = unclaimed(connection)
    strangers = [claim for claim in _strangers(connection, sets, retention) if claim.owed not in closed]
    claims = [*(claim for claim in lagging if claim.owed not in closed), *strangers]
    if not is_beyond(connection, upto, retention) and is_kept(claims, upto.created_us, retention, now_us()):
        return None
    return Verdict(
        upto,
        tuple(claim.owed for claim in lagging),
        unknown=tuple(claim for claim in claims if claim.is_unknown),
        strangers=tuple(claim.owed for claim in strangers),
    )


def _mark_at(connection: Connection, seq: int) -> Visibility | None:
    """Return the visibility of the last tick up to *seq* that ends a window; None without one."""
    acked = select(ticks.c.mark).where(ticks.c.end_seq <= seq).order_by(ticks.c.number.desc()).limit(1)
    for chosen in (acked, acked.where(~_IS_PART)):
        mark = connection.execute(chosen).scalar()
        if mark is not None and (found := Visibility.parse(mark)).ends_window:
            return found
    return None


def behind(connection: Connection, upto: Tick, retention: Retention) -> list[Claim]:
    """Return the claims of the sessions that have not acknowledged *upto*.

    A session with an unfinished snapshot counts from the snapshot's base, because it will return there.
    """
    found: list[Claim] = []
    bases = {(client, destination): seq for client, destination, seq in connection.execute(_BASES)}
    for row in connection.execute(_ACKED).all():
        acked_seq = min(row.acked_seq, bases.get((row.client, row.destination), row.acked_seq))
        if acked_seq < upto.end_seq:
            owed = SessionKey(ClientName(row.client), SiteId(row.destination))
            # A session that the server has not ended yet belongs to a peer of a moment ago.
            is_unknown = row.state in STORED_INACTIVE and _is_unknown(owed, retention)
            found.append(Claim(owed, acked_seq, is_unknown, row.updated_us if is_unknown else 0))
    return found


def _is_unknown(owed: SessionKey, retention: Retention) -> bool:
    return retention.peers is not None and owed.destination not in retention.peers


_ACKED = select(
    sessions.c.client, sessions.c.destination, sessions.c.acked_seq, sessions.c.state, sessions.c.updated_us
)
# The bases of snapshots that are being built or sent.
_BASES = (
    select(snapshots.c.client, snapshots.c.destination, func.min(snapshots.c.base_seq))
    .where(snapshots.c.state.in_([SnapshotState.BUILDING, SnapshotState.READY]), snapshots.c.branch != "")
    .group_by(snapshots.c.client, snapshots.c.destination)
)


def _strangers(connection: Connection, sets: Sequence[int], retention: Retention) -> list[Claim]:
    """Return the claims of the destinations in *sets* that have no session, whose site may still appear."""
    of_set = tag_set_members.c
    joined = tag_set_members.outerjoin(
        sessions, (sessions.c.client == of_set.client) & (sessions.c.destination == of_set.destination)
    )
    strangers = select(of_set.client, of_set.destination).distinct().select_from(joined)
    chunks = [sets[begin : begin + 500] for begin in range(0, len(sets), 500)]
    found = {
        SessionKey(ClientName(client), SiteId(destination))
        for chunk in chunks
        for client, destination in connection.execute(
            strangers.where(sessions.c.client.is_(None), of_set.tag_set.in_(chunk))
        )
    }
    return [Claim(owed, 0, _is_unknown(owed, retention)) for owed in sorted(found)]


def is_beyond(connection: Connection, upto: Tick, retention: Retention) -> bool:
    """Tell whether the ticks up to *upto* are beyond retention."""
    newest = newest_tick(connection)
    if newest is None:
        return False
    too_old = upto.created_us < now_us() - int(retention.seconds * 1_000_000)
    return too_old or upto.bytes_total <= newest.bytes_total - retention.payload_bytes


def let_go(connection: Connection, verdict: Verdict, count: CountOwed) -> Mapping[SessionKey, int]:
    """Record that the entries of the ticks up to `verdict.upto` are trimmed, and the loss of laggards and strangers.

    Return the numbers of entries that the unknown destinations lose; they are recorded too. Raises `SetupError` if a
    trigger of others leaves out a part: sessions would go on behind their losses.
    """
    end, mark = verdict.upto.end_seq, Visibility.parse(verdict.upto.mark)
    trimmed = trimmed_seq(connection)
    dropped = {
        claim.owed: count(claim.owed, _mark_at(connection, max(claim.acked_seq, trimmed)), mark)
        for claim in verdict.unknown
    }
    record_dropped(connection, dropped)
    # Before the rows of sessions, as a session locks both when its snapshot is applied.
    end_useless(connection, [*verdict.laggards, *verdict.strangers], end)
    for owed in sorted(verdict.laggards):
        lost = (sessions.c.client == owed.client) & (sessions.c.destination == owed.destination)
        if not connection.execute(update(sessions).where(lost).values(lost_seq=end)).rowcount:
            require_none(connection, sessions, lost)
    record_strangers(connection, verdict.strangers, end)
    record_trimmed(connection, end)
    forget_unused(connection, end)
    return dropped


def record_trimmed(connection: Connection, end: int) -> None:
    """Record that the entries up to number *end* are trimmed, unless later ones are; raises like `let_go`."""
    lower = log_head.c.trimmed_seq < end
    if not connection.execute(update(log_head).where(lower).values(trimmed_seq=end)).rowcount:
        require_none(connection, log_head, lower)


def acknowledged(connection: Connection) -> set[int]:
    """Return the numbers of the ticks at the sessions' acknowledged positions, and at the bases of their snapshots.

    Ticks at these positions are always kept, so that a session without new entries can resume at any time.
    """
    at = select(ticks.c.number).where(ticks.c.end_seq <= bindparam("acked")).order_by(ticks.c.end_seq.desc()).limit(1)
    acked = set(connection.execute(select(sessions.c.acked_seq).distinct()).scalars())
    bases = {seq for _, _, seq in connection.execute(_BASES)}
    return {number for seq in acked | bases if (number := connection.execute(at, {"acked": seq}).scalar()) is not None}
