"""What both SQL dialects share of the `Log` port: ticks, the dictionary, what trimming lets go."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, Row, delete, func, insert, select, update

from queues import leases
from queues.clock import now_us
from queues.errors import OwnershipLostError, TrimmedError
from queues.leases import Lease
from queues.log import Bounds, Group, Limits, LogRow, Owed, Retention
from queues.names import ClientName, SiteId
from queues.positions import Mark, Tick
from queues.set_dictionary import SetDictionary, Sighting, forget_unused
from queues.tables import SLOTS, branches, log_head, sessions, tag_set_members, tag_sets, ticks
from queues.transactions import reading


@dataclass(frozen=True, slots=True)
class Closing:
    """What the next tick will hold. `rows` is None when its one transaction is above the limits."""

    mark: Mark
    rows: list[LogRow] | None
    seen: list[Sighting]
    row_count: int
    payload_bytes: int


def tick_of(row: Row[*tuple[object, ...]]) -> Tick:
    """Build a `Tick` from a row of `lrq_ticks`."""
    return Tick(row.number, row.uid, row.branch, row.start_seq, row.end_seq, row.bytes_total, row.mark, row.created_us)


def newest_tick(connection: Connection) -> Tick | None:
    """Return the tick with the highest number."""
    row = connection.execute(select(ticks).order_by(ticks.c.number.desc()).limit(1)).first()
    return None if row is None else tick_of(row)


def trimmed_seq(connection: Connection) -> int:
    """Return the sequence number up to which entries are gone."""
    return int(connection.execute(select(log_head.c.trimmed_seq)).scalar_one())


def bounds(engine: Engine) -> Bounds:
    """See `Log.bounds`."""
    with reading(engine) as connection:
        return Bounds(trimmed_seq(connection), newest_tick(connection))


def ticks_after(engine: Engine, seq: int, limits: Limits) -> list[Tick]:
    """See `Log.ticks_after`."""
    with reading(engine) as connection:
        oldest = trimmed_seq(connection)
        if seq < oldest:
            raise TrimmedError(requested=seq, oldest=oldest)
        chosen = select(ticks).where(ticks.c.end_seq > seq).order_by(ticks.c.end_seq).limit(1_000)
        found = [tick_of(row) for row in connection.execute(chosen)]
        return _within(found, limits, _bytes_before(connection, found))


def _bytes_before(connection: Connection, found: Sequence[Tick]) -> int:
    return _before(connection, found[0])[1] if found else 0


def _before(connection: Connection, tick: Tick) -> tuple[Mark | None, int]:
    row = connection.execute(select(ticks).where(ticks.c.number == tick.number - 1)).first()
    return (None, 0) if row is None else (Mark.parse(row.mark), row.bytes_total)


def mark_before(connection: Connection, tick: Tick) -> Mark | None:
    """Return the mark of the tick before *tick*; None before the first. Raises `TrimmedError` where it is gone."""
    mark, _ = _before(connection, tick)
    if mark is None and tick.number > 1:
        raise TrimmedError(requested=tick.start_seq, oldest=trimmed_seq(connection))
    return mark


def _within(found: list[Tick], limits: Limits, bytes_before: int) -> list[Tick]:
    taken = 1
    while taken < len(found):
        tick = found[taken]
        too_many = tick.end_seq - found[0].start_seq > limits.rows
        if too_many or tick.bytes_total - bytes_before > limits.payload_bytes:
            break
        taken += 1
    return found[:taken]


def insert_tick(
    connection: Connection, lease: Lease, last: Tick | None, closing: Closing, dictionary: SetDictionary
) -> Group:
    """Write the next tick and the sets that it shows, in the caller's transaction."""
    leases.check(connection, lease)
    start = last or _beginning(connection)
    tick = Tick(
        number=start.number + 1,
        uid=secrets.randbits(62),
        branch=start.branch,
        start_seq=start.end_seq,
        end_seq=start.end_seq + closing.row_count,
        bytes_total=start.bytes_total + closing.payload_bytes,
        mark=str(closing.mark),
        created_us=now_us(),
    )
    sets = dictionary.record(connection, closing.seen, tick.end_seq)
    # A tick of the same number that another process wrote meanwhile makes this fail.
    connection.execute(
        insert(ticks).values(
            number=tick.number, uid=tick.uid, generation=lease.generation, branch=tick.branch,
            start_seq=tick.start_seq, end_seq=tick.end_seq, bytes_total=tick.bytes_total, mark=tick.mark,
            created_us=tick.created_us,
        )
    )  # fmt: skip
    return Group(tick, closing.rows, sets)


def check_newest(connection: Connection, lease: Lease, last: Tick | None) -> None:
    """Raise `OwnershipLostError` when someone else has taken a tick after *last*."""
    number = connection.execute(select(func.max(ticks.c.number))).scalar()
    if (number or 0) != (last.number if last else 0):
        leases.check(connection, lease)
        raise OwnershipLostError("ticks", lease.generation, lease.generation + 1)


def _beginning(connection: Connection) -> Tick:
    row = connection.execute(select(branches).order_by(branches.c.number.desc()).limit(1)).one()
    return Tick(0, 0, row.branch, row.start_seq, row.start_seq, 0, "", 0)


@contextmanager
def still_kept(engine: Engine, first: Tick) -> Iterator[Connection]:
    """Read from the log; afterwards make sure that it was not trimmed meanwhile, else raise `TrimmedError`.

    Emptying a PostgreSQL segment is not seen by older snapshots as deletion is: rows are just missing. The check
    after the read, in a statement of its own, is what makes that safe.
    """
    with reading(engine) as connection:
        yield connection
        oldest = trimmed_seq(connection)
        if first.start_seq < oldest:
            raise TrimmedError(requested=first.start_seq, oldest=oldest)


# --- trim -----------------------------------------------------------------------------------------------------


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


def acknowledged_seq(connection: Connection) -> int | None:
    """Return what every session with a claim has acknowledged; None when no session has one."""
    return connection.execute(select(func.min(sessions.c.acked_seq)).where(sessions.c.claims)).scalar()


def newest_full_tick(connection: Connection, *conditions: object) -> Tick | None:
    """Return the newest tick under *conditions* that ends its window."""
    chosen = select(ticks).where(*conditions, ~ticks.c.mark.like("xid/%/%/_%")).order_by(ticks.c.number.desc())  # type: ignore[arg-type]
    row = connection.execute(chosen.limit(1)).first()
    return None if row is None else tick_of(row)


def beyond_retention(connection: Connection, retention: Retention) -> Tick | None:
    """Return the newest tick that need not be kept any longer for anyone."""
    newest = newest_tick(connection)
    if newest is None:
        return None
    old = ticks.c.created_us < now_us() - int(retention.seconds * 1_000_000)
    surplus = ticks.c.bytes_total <= newest.bytes_total - retention.payload_bytes
    return newest_full_tick(connection, old | surplus)


def owed_to_strangers(connection: Connection, sets: Sequence[int]) -> bool:
    """Tell whether one of *sets* names a destination that has no session yet: it may still appear."""
    for begin in range(0, len(sets), 500):
        joined = tag_set_members.outerjoin(
            sessions,
            (sessions.c.client == tag_set_members.c.client) & (sessions.c.destination == tag_set_members.c.destination),
        )
        strangers = (
            select(tag_set_members.c.destination)
            .select_from(joined)
            .where(tag_set_members.c.tag_set.in_(sets[begin : begin + 500]), sessions.c.client.is_(None))
            .limit(1)
        )
        if connection.execute(strangers).first() is not None:
            return True
    return False


def let_go(connection: Connection, upto: Tick) -> tuple[Owed, ...]:
    """Record that entries up to *upto* are gone; return the sessions that lose their claim by it."""
    behind = sessions.c.claims & (sessions.c.acked_seq < upto.end_seq)
    laggards = tuple(
        Owed(ClientName(row.client), SiteId(row.destination))
        for row in connection.execute(select(sessions.c.client, sessions.c.destination).where(behind))
    )
    reason = f"its entries up to {upto.end_seq} were trimmed before it had acknowledged them"
    connection.execute(update(sessions).where(behind).values(claims=False, full_sync_reason=reason))
    connection.execute(update(log_head).where(log_head.c.trimmed_seq < upto.end_seq).values(trimmed_seq=upto.end_seq))
    connection.execute(delete(ticks).where(ticks.c.number < upto.number))
    forget_unused(connection, upto.end_seq)
    return laggards


def clients_seen(engine: Engine) -> list[ClientName]:
    """Return the clients that have transmitted here and whose sets are still recorded."""
    with reading(engine) as connection:
        return [ClientName(name) for name in connection.execute(select(tag_sets.c.client).distinct()).scalars()]
