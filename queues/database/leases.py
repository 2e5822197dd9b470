"""Leases: timed ownership of a name, with a generation that every transaction of the owner checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, Update, bindparam, exc, insert, select, update

from queues.database import dialects, generations
from queues.database.dialect import Dialect, Executed, Statement
from queues.database.left_out import left_out
from queues.database.tables.servers import leases
from queues.database.transactions import mapped_errors, reading, writing_briefly
from queues.errors import OwnershipLostError, StoreUnavailableError
from queues.leadership import Lease

__all__ = [
    "SITE_LEASE",
    "Lease",
    "LeaseHolder",
    "LeaseRow",
    "acquire",
    "check",
    "checking",
    "every_lease",
    "holder",
    "judge",
    "release",
    "renew",
]


#: The lease whose owner takes ticks and trims: the sequencer of the site.
SITE_LEASE: Final = generations.SITE_LEASE


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The newest acquisition of a lease, and whether it has expired; a released lease counts as expired.

    `expires_us` is its expiry, and `now_us` the database's time of the look, in microseconds since 1970.
    """

    lease: Lease
    expired: bool
    expires_us: int
    now_us: int


def acquire(engine: Engine, name: str, owner: str, ttl: float) -> Lease | None:
    """Acquire *name* for *ttl* seconds; return None while another owner holds the lease.

    Every acquisition raises the generation, one's own again included. The lease `SITE_LEASE` takes its generation from
    the counter that it shares with the ranges of sessions. On PostgreSQL, acquiring and renewing also end
    transactions of older generations that have stood still for half of *ttl*. So a stopped process or a dead machine
    cannot hold up its successor.
    """
    try:
        with writing_briefly(engine) as connection:
            generation = _take(connection, name, owner, int(ttl * 1_000_000))
    except exc.IntegrityError:  # another process inserted the first row at the same moment
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
        .values(owner=owner, generation=leases.c.generation + int(name != SITE_LEASE), expires_us=now + ttl_us)
    )
    generation = connection.execute(_GENERATION, {"name": name}).scalar()
    if generation is not None and not taken.rowcount:
        return None
    counted = generations.advance(connection) if name == SITE_LEASE else int(generation or 1)
    if generation is None:
        connection.execute(insert(leases).values(name=name, owner=owner, generation=counted, expires_us=now + ttl_us))
    elif counted != generation:
        connection.execute(update(leases).where(leases.c.name == name).values(generation=counted))
    return counted


def renew(engine: Engine, lease: Lease, ttl: float) -> None:
    """Extend *lease* to *ttl* seconds from now; raise `OwnershipLostError` if a later acquisition exists.

    Raises `StoreUnavailableError` if a trigger of others leaves out the renewal.
    """
    with writing_briefly(engine) as connection:
        values = {"lease": lease.name, "held": lease.generation, "term": int(ttl * 1_000_000)}
        renewed = connection.execute(_RENEWAL[dialects.of(connection)], values)
        if not renewed.rowcount:
            current = connection.execute(_GENERATION, {"name": lease.name}).scalar()
            if current == lease.generation:
                raise StoreUnavailableError(left_out(leases.name))
            raise OwnershipLostError(lease.name, lease.generation, int(current or 0))
    _end_older(engine, lease, ttl)


def release(engine: Engine, lease: Lease, *, last_owner: str | None = None, seen_us: int | None = None) -> None:
    """Make *lease* available at once; do nothing if a later acquisition exists, or a renewal after *seen_us*.

    With *last_owner*, that name is stored as the last owner; an empty one stands for none.
    """
    owner = {} if last_owner is None else {"owner": last_owner}
    held = _held(lease) if seen_us is None else _held(lease).where(leases.c.expires_us == seen_us)
    with writing_briefly(engine) as connection:
        connection.execute(held.values(expires_us=0, **owner))


def holder(engine: Engine, name: str) -> LeaseHolder | None:
    """Return the newest acquisition of *name*, and whether it has expired; None if there was none."""
    with reading(engine) as connection:
        row = connection.execute(select(leases).where(leases.c.name == name)).first()
        now = dialects.of(connection).now_us(connection)
    if row is None:
        return None
    return LeaseHolder(Lease(name, row.owner, row.generation), row.expires_us <= now, row.expires_us, int(now))


class LeaseRow(NamedTuple):
    """A row of the leases' table; `expires_us` is in microseconds since 1970."""

    name: str
    owner: str
    generation: int
    expires_us: int


def every_lease(connection: Connection) -> list[LeaseRow]:
    """Return all leases in the order of their names, with released and expired leases."""
    ordered = select(*(leases.c[name] for name in LeaseRow._fields)).order_by(leases.c.name)
    return [LeaseRow(*row) for row in connection.execute(ordered)]


def check(connection: Connection, lease: Lease, *, durably: bool = False) -> None:
    """Raise `OwnershipLostError` in the caller's transaction if an acquisition came after *lease*.

    Raise `StoreUnavailableError` if the transaction's snapshot is older than the last rewriting of the leases' table. A
    new transaction succeeds.

    Only a later acquisition counts, not the clock. On SQLite the caller holds the write lock, so no acquisition can
    precede its commit. On PostgreSQL an acquisition may fall between this check and the commit. Then both owners must
    write the same row (tick number, receive marks, consumer marks). Write that row by compare-and-set, so that only one
    transaction succeeds. A row lock here would let a stopped process block its successor.

    *durably*: the transaction's commit waits for the disk, in spite of the database's default.
    """
    judge(lease, dialects.of(connection).run_all(connection, [checking(connection, lease, durably=durably)])[0])


def checking(connection: Connection, lease: Lease, *, durably: bool = False) -> Statement:
    """Return the statement of `check`, for sending with other statements; pass its rows to `judge`."""
    return _CHECKING[dialects.of(connection), durably], {"name": lease.name, "held": lease.generation}


def judge(lease: Lease, rows: Sequence[tuple[Any, ...]]) -> None:
    """Raise the error of `check` that *rows*, the answer to `checking`, call for; otherwise do nothing."""
    if not rows:
        raise StoreUnavailableError(f"the transaction began before the lease of {lease.name} was stored: try again")
    if rows[0][0] != lease.generation:
        raise OwnershipLostError(lease.name, lease.generation, int(rows[0][0]))


def _held(lease: Lease) -> Update:
    return update(leases).where(leases.c.name == lease.name, leases.c.generation == lease.generation)


def _end_older(engine: Engine, lease: Lease, ttl: float) -> None:
    with mapped_errors():
        dialects.of(engine).end_older(engine, lease.name, lease.generation, ttl / 2)


_GENERATION = select(leases.c.generation).where(leases.c.name == bindparam("name"))


def _renewal(dialect: Dialect) -> Update:
    held = update(leases).where(leases.c.name == bindparam("lease"), leases.c.generation == bindparam("held"))
    return held.values(expires_us=dialect.present_us + bindparam("term", type_=leases.c.expires_us.type))


_RENEWAL: Final[Mapping[Dialect, Update]] = {dialect: _renewal(dialect) for dialect in dialects.DIALECTS.values()}
_CHECKING: Final[Mapping[tuple[Dialect, bool], Executed]] = {
    (dialect, durably): _GENERATION.add_columns(*dialect.presence(durably=durably))
    for dialect in dialects.DIALECTS.values()
    for durably in (False, True)
}
