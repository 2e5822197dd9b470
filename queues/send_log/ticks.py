"""The row of a tick: its partition and its insertion, for both SQL dialects.

On PostgreSQL each partition of ticks is a table. Trimming truncates a partition once all its ticks are past retention.
If trimming is far behind, a partition may be used again before its truncation.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Final

from sqlalchemy import Connection, Insert, MetaData, Table, bindparam, exc, exists, func, insert, not_, select

from queues.clock import now_us
from queues.database import dialects
from queues.database.driver_errors import is_duplicate
from queues.database.leases import Lease, check
from queues.database.left_out import left_out
from queues.database.tables.servers import leases
from queues.database.tables.site import branches, site
from queues.database.tables.ticks import TICK_PARTITIONS, ticks
from queues.errors import SetupError, StoreUnavailableError
from queues.positions import Tick, Visibility
from queues.send_log.destination_sets import SetDictionary, Sighting
from queues.send_log.port import LogRow, TickRows

#: Ticks with neighbouring numbers share a partition. All partitions hold several times the number of kept ticks, so a
#: partition is usually empty before its next use.
TICKS_A_PARTITION: Final = 8_192


def partition_of(number: int) -> int:
    """Return the partition of the tick with *number*. Pure, so that two ticks with one number conflict."""
    return number // TICKS_A_PARTITION % TICK_PARTITIONS


@dataclass(frozen=True, slots=True)
class TickDraft:
    """The contents of the next tick. `rows` is None if the tick is one transaction above the limits."""

    mark: Visibility
    rows: list[LogRow] | None
    seen: list[Sighting]
    row_count: int
    payload_bytes: int
    more: bool


def insert_tick(
    connection: Connection,
    lease: Lease,
    last: Tick | None,
    upcoming: TickDraft,
    dictionary: SetDictionary,
    *,
    partitioned: bool,
) -> TickRows:
    """Insert the next tick and record its sets, in the caller's transaction, which has checked the lease.

    Raises `StoreUnavailableError` or `OwnershipLostError` if another server has taken a tick meanwhile. Raises
    `SetupError` if a trigger of others leaves the tick out.
    """
    tick = following(last or _beginning(connection), upcoming)
    sets = dictionary.record(connection, upcoming.seen, tick.end_seq)
    if not _insert(connection, tick, lease, partitioned=partitioned):
        tick = replace(tick, branch=_branch_now(connection, tick))
        if not _insert(connection, tick, lease, partitioned=partitioned, everywhere=True):
            # Branch and predecessor are known to be right: only a lost lease or a trigger is left as the reason.
            check(connection, lease)
            raise SetupError(left_out(ticks.name))
    return TickRows(tick, upcoming.rows, sets, more=upcoming.more)


def following(start: Tick, upcoming: TickDraft) -> Tick:
    """Return the tick after *start*, with the contents of *upcoming*."""
    return Tick(
        number=start.number + 1,
        uid=secrets.randbits(62),
        branch=start.branch,
        start_seq=start.end_seq,
        end_seq=start.end_seq + upcoming.row_count,
        bytes_total=start.bytes_total + upcoming.payload_bytes,
        is_large=upcoming.rows is None,
        mark=str(upcoming.mark),
        created_us=now_us(),
        omits_replaced=True,
    )


def _beginning(connection: Connection) -> Tick:
    """Return a fictitious predecessor of the first tick."""
    row = connection.execute(
        select(branches.c.branch, branches.c.start_seq).join(site, site.c.branch == branches.c.branch)
    ).one()
    return Tick(0, 0, row.branch, row.start_seq, row.start_seq, 0, is_large=False, mark="", created_us=0)


_NEW = {column.name: bindparam(f"new_{column.name}", type_=column.type) for column in ticks.c}


def _inserting(into: Table, after: Table | None) -> Insert:
    """Insert a tick if the branch is current, the lease is held and its predecessor exists in *after*.

    With *after* None, the tick must be the first of all. A second tick with the same number is an error.
    """
    held = exists(leases.c.name).where(leases.c.name == bindparam("lease"), leases.c.generation == _NEW["generation"])
    if after is None:
        follows = not_(exists(select(ticks.c.number)))
    else:
        follows = exists(select(after.c.number).where(after.c.number == _NEW["number"] - 1))
    values = select(*_NEW.values()).where(site.c.branch == _NEW["branch"], follows, held)
    return insert(into).from_select(list(_NEW), values)


# Inserting directly into a partition halves the time, because PostgreSQL need not find the partition.
_PARTITIONS = [ticks.to_metadata(MetaData(), name=f"{ticks.name}_{number}") for number in range(TICK_PARTITIONS)]


@cache
def _statement(partition: int, before: int | None, *, partitioned: bool, everywhere: bool) -> Insert:
    if not partitioned:
        return _inserting(ticks, None if before is None else ticks)
    after = ticks if before is None or everywhere else _PARTITIONS[before]
    return _inserting(_PARTITIONS[partition], None if before is None else after)


_FIELDS: Final = tuple(field.name for field in fields(Tick))


def insertion(
    tick: Tick, lease: Lease, *, partitioned: bool, everywhere: bool = False
) -> tuple[Insert, dict[str, object]]:
    """Return the statement that inserts *tick*, and its values; *partitioned*: each partition is a table.

    The statement inserts nothing if branch or lease is another one, or the predecessor is not in its partition.
    With *everywhere*, the predecessor may be in any partition.
    """
    partition = partition_of(tick.number)
    before = partition_of(tick.number - 1) if tick.number > 1 else None
    # `asdict` copies each value, which takes ten times as long.
    values: dict[str, object] = {f"new_{name}": getattr(tick, name) for name in _FIELDS}
    values |= {"new_generation": lease.generation, "new_slot": partition, "lease": lease.name}
    return _statement(partition, before, partitioned=partitioned, everywhere=everywhere), values


def _insert(connection: Connection, tick: Tick, lease: Lease, *, partitioned: bool, everywhere: bool = False) -> bool:
    statement, values = insertion(tick, lease, partitioned=partitioned, everywhere=everywhere)
    with stale_as_unavailable():
        return dialects.of(connection).run(connection, statement, values) > 0


@contextmanager
def stale_as_unavailable() -> Iterator[None]:
    """Raise `StoreUnavailableError` where a tick of the same number exists: the caller's tick is not the newest."""
    try:
        yield
    except exc.IntegrityError as error:
        # A trigger or constraint of others may refuse the row, too.
        if not is_duplicate(error):
            raise
        raise StoreUnavailableError("another server has taken the next tick: try again") from error


def _branch_now(connection: Connection, tick: Tick) -> str:
    """Return the current branch; raise `StoreUnavailableError` if another server has taken a tick."""
    newest = connection.execute(select(func.max(ticks.c.number))).scalar() or 0
    if newest != tick.number - 1:
        # An earlier owner may commit its last tick late; the next try sees that tick.
        raise StoreUnavailableError(f"another server has taken tick {newest}: try again")
    return str(connection.execute(select(site.c.branch)).scalar_one())
