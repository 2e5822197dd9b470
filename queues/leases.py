"""Leases: timed ownership of a name, with a fencing number that every transaction of the owner checks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Engine,
    Integer,
    Update,
    bindparam,
    cast,
    exc,
    func,
    insert,
    select,
    text,
    update,
)

from queues import dialects
from queues.dialects.statements import Statement
from queues.errors import OwnershipLostError, StoreUnavailableError
from queues.tables import leases
from queues.transactions import reading, writing, writing_briefly


@dataclass(frozen=True, slots=True)
class Lease:
    """One acquisition of *name*: a later one, by whomever, has a higher `generation`."""

    name: str
    owner: str
    generation: int


@dataclass(frozen=True, slots=True)
class Held:
    """A lease as others see it; released counts as expired."""

    lease: Lease
    expired: bool


def acquire(engine: Engine, name: str, owner: str, ttl: float) -> Lease | None:
    """Own *name* for *ttl* seconds; None while another owner's lease has neither expired nor been released.

    Every acquisition raises the generation, one's own again included. Where the database can do that (PostgreSQL),
    acquiring and renewing also end transactions of older generations that have stood still for half of *ttl*, so that
    a stopped process or a dead machine cannot hold up its successor.
    """
    try:
        with writing_briefly(engine) as connection:
            generation = _take(connection, name, owner, int(ttl * 1_000_000))
    except exc.IntegrityError:  # another process made the first row at this moment
        return None
    if generation is None:
        return None
    lease = Lease(name, owner, generation)
    _end_older(engine, lease, ttl)
    return lease


def _take(connection: Connection, name: str, owner: str, ttl_us: int) -> int | None:
    now = dialects.of(connection).now_us(connection)
    taken = connection.execute(
        update(leases)
        .where(leases.c.name == name, (leases.c.owner == owner) | (leases.c.expires_us <= now))
        .values(owner=owner, generation=leases.c.generation + 1, expires_us=now + ttl_us)
    )
    generation = connection.execute(_GENERATION, {"name": name}).scalar()
    if generation is None:
        connection.execute(insert(leases).values(name=name, owner=owner, generation=1, expires_us=now + ttl_us))
        return 1
    return int(generation) if taken.rowcount else None


def renew(engine: Engine, lease: Lease, ttl: float) -> None:
    """Own it for *ttl* seconds from now; raise `OwnershipLostError` when another acquisition came in between."""
    with writing_briefly(engine) as connection:
        now = dialects.of(connection).now_us(connection)
        renewed = connection.execute(_held(lease).values(expires_us=now + int(ttl * 1_000_000)))
        if not renewed.rowcount:
            current = connection.execute(_GENERATION, {"name": lease.name}).scalar()
            raise OwnershipLostError(lease.name, lease.generation, int(current or 0))
    _end_older(engine, lease, ttl)


def leap(engine: Engine, lease: Lease) -> bool:
    """Give *lease* up for a much higher generation, if it is still held; tell whether it was.

    For a database that was restored from a backup: others have seen later generations of its owners than it knows.
    """
    with writing_briefly(engine) as connection:
        leaped = connection.execute(_held(lease).values(generation=leases.c.generation * 2, expires_us=0))
        return leaped.rowcount > 0


def release(engine: Engine, lease: Lease) -> None:
    """Let the next one have it at once; nothing happens when it was taken over already."""
    with writing_briefly(engine) as connection:
        connection.execute(_held(lease).values(expires_us=0))


def holder(engine: Engine, name: str) -> Held | None:
    """Return the newest acquisition of *name*, with whether it has expired; None if there was never one."""
    with reading(engine) as connection:
        row = connection.execute(select(leases).where(leases.c.name == name)).first()
        now = dialects.of(connection).now_us(connection)
    return None if row is None else Held(Lease(name, row.owner, row.generation), row.expires_us <= now)


def check(connection: Connection, lease: Lease, *, durably: bool = False) -> None:
    """Raise `OwnershipLostError` inside the caller's transaction when another acquisition has come after *lease*.

    `StoreUnavailableError` when its one snapshot is older than a rewriting of the leases' table: a later one sees it.

    Only a takeover counts, not the clock. On SQLite the caller holds the write lock, so that none can come before
    its commit. On PostgreSQL one may come between this and the commit; then the two owners' transactions meet at
    the row both must write (tick number, receive marks, consumer marks), which lets only one of them through: write
    that row by compare-and-set. A row lock here instead would let a stopped process keep its successor out.

    *durably*: the transaction's commit waits for the disk, whatever the database's default is.
    """
    judge(lease, dialects.of(connection).run_all(connection, [checking(connection, lease, durably=durably)])[0])


def checking(connection: Connection, lease: Lease, *, durably: bool = False) -> Statement:
    """Return the statement of `check`, for one that sends it with others; `judge` takes what it returns."""
    known = _GENERATION
    if connection.dialect.name == "postgresql":
        known = _SHOWING_PRESENCE_DURABLY if durably else _SHOWING_PRESENCE
    return known, {"name": lease.name, "held": lease.generation}


def judge(lease: Lease, rows: Sequence[tuple[Any, ...]]) -> None:
    """Raise the errors of `check` when *rows*, what `checking` has returned, say so."""
    if not rows:
        raise StoreUnavailableError(f"the transaction began before the lease of {lease.name} was stored: try again")
    if rows[0][0] != lease.generation:
        raise OwnershipLostError(lease.name, lease.generation, int(rows[0][0]))


def _held(lease: Lease) -> Update:
    return update(leases).where(leases.c.name == lease.name, leases.c.generation == lease.generation)


def _end_older(engine: Engine, lease: Lease, ttl: float) -> None:
    if engine.dialect.name == "postgresql":
        with writing(engine) as connection:
            connection.execute(_END_OLDER, {"name": lease.name, "held": lease.generation, "idle": ttl / 2})


_GENERATION = select(leases.c.generation).where(leases.c.name == bindparam("name"))

# A transaction shows which lease it works under by a shared advisory lock on (name, generation). It never makes
# anybody wait, because nobody takes it exclusively: it only tells a successor which backends to end.
_SHOWING_PRESENCE = _GENERATION.add_columns(
    func.pg_advisory_xact_lock_shared(
        func.hashtext(text("'lrq lease ' || :name")), cast(bindparam("held", type_=BigInteger), Integer)
    )
)
_SHOWING_PRESENCE_DURABLY = _SHOWING_PRESENCE.add_columns(text("set_config('synchronous_commit', 'on', true)"))
# One that has just finished may already serve somebody else from a pool: only those that stand still are ended.
_END_OLDER = text(
    "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
    " WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND l.classid = hashtext('lrq lease ' || :name)::bit(32)::bigint::oid AND l.objid <> CAST(:held AS oid)"
    " AND a.usename = current_user AND l.pid <> pg_backend_pid()"
    # Standing still between two statements, or in the middle of a COPY.
    " AND (a.state LIKE 'idle in transaction%' OR a.wait_event_type = 'Client')"
    " AND a.state_change < clock_timestamp() - make_interval(secs => :idle)"
)
