"""The record of a ring's member, in the file that holds its log. The functions need the caller's transaction."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, update

from queues.database import dialects
from queues.database.left_out import require_stored
from queues.database.tables.log import log_head
from queues.database.tables.ring import ring_generations, ring_member, ring_stores
from queues.database.tables.site import branches, site
from queues.database.tables.ticks import ticks
from queues.errors import ConfigurationError, StoreTakenError
from queues.send_log.ring.tick_contents import FIRST_BRANCH

# The value of `PRAGMA synchronous` from which every commit waits for the disk.
_FULL: Final = 2


class MemberRow(NamedTuple):
    """The token of a file, the rank and promise of its member, and the numbers of its last two steps."""

    token: int
    rank: int
    promised: int
    step: int
    step_before: int


def require_durable(connection: Connection) -> None:
    """Raise `ConfigurationError` unless commits on this connection are durable, in a file of SQLite."""
    if dialects.find(connection) is not dialects.SQLITE:
        raise ConfigurationError("a ring keeps its log in SQLite files: give the URL of a file, sqlite:///...")
    if connection.exec_driver_sql("PRAGMA synchronous").scalar_one() < _FULL:
        raise ConfigurationError("commits of this engine are not durable: make the engine with queues.create_engine")


def find_member(connection: Connection) -> MemberRow | None:
    """Return the row of the member; None for a file that does not count."""
    row = connection.execute(select(*(ring_member.c[name] for name in MemberRow._fields))).first()
    return None if row is None else MemberRow(*row)


def rank_at(connection: Connection) -> int | None:
    """Return the rank of the member that keeps this database; None without a ring."""
    if dialects.find(connection) is not dialects.SQLITE:
        return None
    found = connection.execute(select(ring_member.c.rank)).scalar()
    return None if found is None else int(found)


def stores(connection: Connection) -> list[tuple[int, int]]:
    """Return the number and the random number of each store that counts, by rank."""
    chosen = select(ring_stores.c.number, ring_stores.c.uid).order_by(ring_stores.c.rank)
    return [(number, uid) for number, uid in connection.execute(chosen)]


def generations(connection: Connection) -> list[tuple[int, int]]:
    """Return each generation of the log with the number of its first tick, oldest first."""
    chosen = select(ring_generations.c.generation, ring_generations.c.seal).order_by(ring_generations.c.generation)
    return [(generation, seal) for generation, seal in connection.execute(chosen)]


def newest_number(connection: Connection) -> int:
    """Return the number of the newest tick; 0 without ticks."""
    return connection.execute(select(func.max(ticks.c.number))).scalar() or 0


def take_step(connection: Connection, last: int, step: int) -> None:
    """Write the random number of a durable step that follows *last*.

    Raises `StoreTakenError` if another process has taken a step since, or if the file counts no more.
    """
    following = update(ring_member).where(ring_member.c.step == last).values(step=step, step_before=last)
    if not connection.execute(following).rowcount:
        raise StoreTakenError("another process has opened the store of the token, and the present one stands down")


def write_member(connection: Connection, row: MemberRow, counted: Sequence[tuple[int, int]]) -> None:
    """Let the file count as the store of a member, with *counted* as the stores by rank."""
    forget_member(connection)
    connection.execute(insert(ring_member).values(one=1, **row._asdict()))
    for rank, (number, uid) in enumerate(counted):
        connection.execute(insert(ring_stores).values(rank=rank, number=number, uid=uid))


def forget_member(connection: Connection) -> None:
    """Let the file count no more; its log stays."""
    connection.execute(delete(ring_member))
    connection.execute(delete(ring_stores))


def write_promise(connection: Connection, generation: int) -> None:
    """Write the member's promise."""
    # A member that forgets a promise may give another one for the same generation.
    require_stored(ring_member.name, connection.execute(update(ring_member).values(promised=generation)).rowcount, 1)


def write_store(connection: Connection, rank: int, number: int, uid: int) -> None:
    """Write the store of another member."""
    connection.execute(update(ring_stores).where(ring_stores.c.rank == rank).values(number=number, uid=uid))


def begin_log(connection: Connection, token: int) -> None:
    """Name the first branch of an empty log after *token*, alike in the files of all members; may be repeated.

    Raises `ConfigurationError` if the log has entries that no ring has written.
    """
    site_id = connection.execute(select(site.c.site_id)).scalar_one()
    branch = blake2b(f"{site_id}/{token}".encode(), digest_size=16).hexdigest()
    origin = branches.c.number == FIRST_BRANCH
    if connection.execute(select(branches.c.branch).where(origin)).scalar() == branch:
        return
    written = connection.execute(select(log_head.c.last_id)).scalar_one()
    if written or newest_number(connection):
        raise ConfigurationError(
            "the database has a log that belongs to no ring, or to another token: begin with an empty database"
        )
    connection.execute(update(branches).where(origin).values(branch=branch))
    connection.execute(update(site).values(branch=branch))
