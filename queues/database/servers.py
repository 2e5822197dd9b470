"""The servers of a site and their ranges in the database: every read and every change of both.

A server's row has the only time that a server renews. A range is led as long as the row of its server has not expired.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    Select,
    Update,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    tuple_,
    update,
)

from queues.database import dialects, generations
from queues.database.dialect import Dialect
from queues.database.generations import SITE_LEASE
from queues.database.left_out import require_stored
from queues.database.tables.servers import generations as counter
from queues.database.tables.servers import leases, ranges, servers
from queues.database.tables.site import site
from queues.database.transactions import reading, writing_briefly
from queues.errors import ConfigurationError, NotInitializedError, OwnershipLostError
from queues.leadership import (
    NO_TOPOLOGY,
    Lease,
    RangeRow,
    ServerRow,
    ServersView,
    TopologyFacts,
    range_lease,
    range_number,
)

#: Rows of servers that have expired stay for so long, in microseconds, and at most so many of them.
_KEPT_US: Final = 3600 * 1_000_000
_MOST_KEPT: Final = 32
#: The columns of `TopologyFacts`.
_TOPOLOGY: Final = ("topology", "topology_version", "topology_trouble")


def register(
    engine: Engine,
    server: str,
    endpoints: Sequence[str],
    *,
    count: int,
    term: float,
    topology: TopologyFacts = NO_TOPOLOGY,
    sink_trouble: str = "",
) -> None:
    """Make *server* a living server of the site for *term* seconds, with *count* ranges; a repetition is harmless.

    The other servers and the status see its *endpoints*, *topology* and *sink_trouble*. Raises `ConfigurationError` if
    living servers use another number of ranges. A server alone stores its own number, and then all ranges are free.
    """
    with writing_briefly(engine) as connection:
        # The row of the counter is locked first, so that two servers do not store two numbers.
        connection.execute(update(counter).values(ranges=counter.c.ranges))
        now = dialects.of(connection).now_us(connection)
        _settle(connection, server, count, now)
        values: dict[str, object] = {"endpoints": ",".join(endpoints), "expires_us": now + _microseconds(term)}
        values |= dict(zip(_TOPOLOGY, topology, strict=True)) | {"sink_trouble": sink_trouble}
        if not connection.execute(update(servers).where(servers.c.server == server).values(values)).rowcount:
            connection.execute(insert(servers).values(values | {"server": server, "started_us": now}))
        _forget(connection, now)


def _settle(connection: Connection, server: str, count: int, now: int) -> None:
    stored = connection.execute(select(counter.c.ranges)).scalar()
    if stored == count:
        return
    others = select(servers.c.server).where(servers.c.server != server, servers.c.expires_us > now)
    if stored and connection.execute(others).first():
        raise ConfigurationError(
            f"the running servers of the site share {stored} ranges, not {count}: "
            f"set `ranges = {stored}`, or stop all servers first"
        )
    # A server that still leads ranges of the former number finds newer generations.
    generation = generations.advance(connection) if stored else 0
    connection.execute(delete(ranges))
    connection.execute(insert(ranges), [{"number": n, "server": "", "generation": generation} for n in range(count)])
    connection.execute(update(counter).values(ranges=count))


def _forget(connection: Connection, now: int) -> None:
    """Delete rows of servers that expired long ago, and the oldest of too many; a row of the sequencer stays."""
    sequencer = select(leases.c.owner).where(leases.c.name == SITE_LEASE)
    gone = (servers.c.expires_us <= now, servers.c.server.not_in(sequencer))
    newest = select(servers.c.server).where(*gone).order_by(servers.c.expires_us.desc()).limit(_MOST_KEPT)
    kept = connection.execute(newest).scalars().all()
    connection.execute(delete(servers).where(*gone, servers.c.server.not_in(kept)))
    connection.execute(delete(servers).where(*gone, servers.c.expires_us < now - _KEPT_US))


def renew(engine: Engine, server: str, term: float) -> ServersView | None:
    """Let *server* count as living for *term* seconds from now; return None if its row has expired or is removed.

    One statement renews all ranges of the server. The same transaction then looks, as `look` does. After None, others
    may lead the ranges: `look` before `register`.
    """
    with writing_briefly(engine) as connection:
        renewal = _RENEWAL[dialects.of(connection)]
        renewed = connection.execute(renewal, {"me": server, "term": _microseconds(term)}).rowcount
        return view_of(connection) if renewed else None


def remove(engine: Engine, server: str, *, seen: ServerRow | None = None) -> bool:
    """End the time of *server* now, because it stops or has surely ended; return whether it was living.

    With *seen*, a row that has changed since then stays as it is. The expired row is kept
    for some time, because only a version of lrq without ranges has no row.
    """
    with writing_briefly(engine) as connection:
        now = dialects.of(connection).now_us(connection)
        living = update(servers).where(servers.c.server == server, servers.c.expires_us > now)
        if seen is not None:
            living = living.where(servers.c.expires_us == seen.expires_us)
        return bool(connection.execute(living.values(expires_us=now)).rowcount)


def look(engine: Engine) -> ServersView:
    """Return the servers and their ranges; raise `NotInitializedError` if the tables belong to no site."""
    with reading(engine) as connection:
        return view_of(connection)


def view_of(connection: Connection) -> ServersView:
    """Like `look`, in the caller's transaction."""
    dialect = dialects.of(connection)
    # Ranges come before servers: each server that leads a range of this read is then part of it.
    state, led, running = dialect.run_all(connection, [(statement, {}) for statement in _LOOK[dialect]])
    if not state:
        raise NotInitializedError("the tables are there, but they belong to no site yet: run `lrq init`")
    now, branch, owner, generation, expires = state[0]
    return ServersView(
        now_us=int(now),
        servers=tuple(
            ServerRow(server, _endpoints(text), began, expiry, TopologyFacts(*topology), trouble)
            for server, text, began, expiry, *topology, trouble in running
        ),
        ranges=tuple(RangeRow(*row) for row in led),
        sequencer=Lease(SITE_LEASE, owner, generation) if expires is not None and expires > now else None,
        branch=branch,
    )


def claim(engine: Engine, server: str, wanted: Iterable[RangeRow]) -> list[Lease]:
    """Lead the ranges of *wanted* that are still as they were seen, and whose server is not living; return these.

    All are claimed in one transaction, each with a new generation of the site's counter.
    """
    seen = {row.number: row.generation for row in wanted}
    if not seen:
        return []
    with writing_briefly(engine) as connection:
        first = generations.advance(connection, max(seen) + 1)
        now = dialects.of(connection).now_us(connection)
        others = select(servers.c.server).where(servers.c.server != server, servers.c.expires_us > now)
        as_seen = tuple_(ranges.c.number, ranges.c.generation).in_(list(seen.items()))
        is_free = ranges.c.server.not_in(others)
        connection.execute(
            update(ranges)
            .where(as_seen, is_free)
            .values(server=server, generation=literal(first, BigInteger) + ranges.c.number)
        )
        new = select(ranges).where(ranges.c.server == server, ranges.c.generation >= first).order_by(ranges.c.number)
        return [range_lease(RangeRow(*row)) for row in connection.execute(new)]


def renumber(connection: Connection) -> None:
    """Give every range a new generation in the caller's transaction; the leaders stay, and find that they lost it.

    A sink takes a generation from one branch of a log only, so a new branch needs new generations.
    """
    count = int(connection.execute(select(func.count()).select_from(ranges)).scalar_one())
    if count:
        first = generations.advance(connection, count)
        renewed = connection.execute(update(ranges).values(generation=literal(first, BigInteger) + ranges.c.number))
        require_stored(ranges.name, renewed.rowcount, count)


def release(engine: Engine, held: Iterable[Lease]) -> None:
    """Free the ranges of *held* for others; ranges with a later acquisition stay as they are."""
    with writing_briefly(engine) as connection:
        connection.execute(update(ranges).where(_in(held)).values(server=""))


def check_ranges(connection: Connection, held: Iterable[Lease]) -> None:
    """Raise `OwnershipLostError` in the caller's transaction if an acquisition came after one of *held*.

    Like `leases.check`, only a later acquisition counts, not the clock. On PostgreSQL an acquisition may fall between
    this check and the commit. Then both servers must write the same row by compare-and-set.
    """
    led = {range_number(lease): lease for lease in held}
    if not led:
        return
    found = dict(tuple(row) for row in connection.execute(_GENERATIONS, {"numbers": sorted(led)}))
    for number, lease in led.items():
        if found.get(number) != lease.generation:
            current = found.get(number)
            if current is None:  # the site has another number of ranges now
                current = int(connection.execute(select(counter.c.generation)).scalar_one())
            raise OwnershipLostError(lease.name, lease.generation, current)


def _in(held: Iterable[Lease]) -> ColumnElement[bool]:
    pairs = [(range_number(lease), lease.generation) for lease in held]
    return tuple_(ranges.c.number, ranges.c.generation).in_(pairs)


def _endpoints(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def _microseconds(seconds: float) -> int:
    return int(seconds * 1_000_000)


def _renewal(dialect: Dialect) -> Update:
    living = update(servers).where(servers.c.server == bindparam("me"), servers.c.expires_us > dialect.present_us)
    return living.values(expires_us=dialect.present_us + bindparam("term", type_=servers.c.expires_us.type))


def _look(dialect: Dialect) -> Sequence[Select[Any]]:
    sequencer = (leases.c.owner, leases.c.generation, leases.c.expires_us)
    state = select(dialect.present_us, site.c.branch, *sequencer).select_from(
        site.outerjoin(leases, leases.c.name == SITE_LEASE)
    )
    return state, select(ranges).order_by(ranges.c.number), select(servers).order_by(servers.c.server)


_RENEWAL: Final[Mapping[Dialect, Update]] = {dialect: _renewal(dialect) for dialect in dialects.DIALECTS.values()}
_LOOK: Final[Mapping[Dialect, Sequence[Select[Any]]]] = {
    dialect: _look(dialect) for dialect in dialects.DIALECTS.values()
}
_GENERATIONS: Final = select(ranges.c.number, ranges.c.generation).where(
    ranges.c.number.in_(bindparam("numbers", expanding=True))
)
