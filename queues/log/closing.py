"""Closing a tick: the row that makes it durable, which both SQL dialects write in the same way."""

import secrets
from dataclasses import asdict, dataclass, replace
from functools import cache

from sqlalchemy import Connection, Insert, MetaData, Table, bindparam, exists, func, insert, not_, select

from queues import dialects
from queues.clock import now_us
from queues.errors import StoreUnavailableError
from queues.leases import Lease
from queues.log.port import Group, LogRow
from queues.log.set_dictionary import SetDictionary, Sighting
from queues.log.tick_slots import slot_of
from queues.positions import Mark, Tick
from queues.tables import TICK_SLOTS, branches, leases, site, ticks


@dataclass(frozen=True, slots=True)
class Closing:
    """What the next tick will hold. `rows` is None when its one transaction is above the limits."""

    mark: Mark
    rows: list[LogRow] | None
    seen: list[Sighting]
    row_count: int
    payload_bytes: int
    more: bool


def insert_tick(
    connection: Connection, lease: Lease, last: Tick | None, upcoming: Closing, dictionary: SetDictionary
) -> Group:
    """Write the next tick and the sets that it shows, in the caller's transaction, which has checked the lease."""
    tick = following(last or _beginning(connection), upcoming)
    sets = dictionary.record(connection, upcoming.seen, tick.end_seq)
    if not _insert(connection, tick, lease):
        tick = replace(tick, branch=_branch_now(connection, tick))
        if not _insert(connection, tick, lease, everywhere=True):
            raise StoreUnavailableError(f"tick {tick.number} was taken meanwhile")
    return Group(tick, upcoming.rows, sets, more=upcoming.more)


def following(start: Tick, upcoming: Closing) -> Tick:
    """Return the tick after *start*, which holds what is upcoming."""
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
    )


def _beginning(connection: Connection) -> Tick:
    """Return what the first tick of all follows."""
    row = connection.execute(select(branches).join(site, site.c.branch == branches.c.branch)).one()
    return Tick(0, 0, row.branch, row.start_seq, row.start_seq, 0, is_large=False, mark="", created_us=0)


_NEW = {column.name: bindparam(f"new_{column.name}", type_=column.type) for column in ticks.c}


def _inserting(into: Table, after: Table | None) -> Insert:
    """Insert a tick on the branch of now, under the lease, after the one before: in *after*, or the first of all.

    Where that is not so, nothing is inserted; where somebody has inserted the same number, that is an error.
    """
    held = exists(leases.c.name).where(leases.c.name == bindparam("lease"), leases.c.generation == _NEW["generation"])
    if after is None:
        follows = not_(exists(select(ticks.c.number)))
    else:
        follows = exists(select(after.c.number).where(after.c.number == _NEW["number"] - 1))
    values = select(*_NEW.values()).where(site.c.branch == _NEW["branch"], follows, held)
    return insert(into).from_select(list(_NEW), values)


# Past the partitioned table: to find the slot among all of them would take as long as all the rest.
_SLOTS = [ticks.to_metadata(MetaData(), name=f"{ticks.name}_{slot}") for slot in range(TICK_SLOTS)]


@cache
def _statement(dialect: str, slot: int, before: int | None, *, everywhere: bool) -> Insert:
    in_slots = dialect == "postgresql"
    after = _SLOTS[before] if in_slots and before is not None and not everywhere else ticks
    return _inserting(_SLOTS[slot] if in_slots else ticks, None if before is None else after)


def insertion(tick: Tick, lease: Lease, dialect: str, *, everywhere: bool = False) -> tuple[Insert, dict[str, object]]:
    """Return what inserts *tick*; with *everywhere*, it looks for the one before in all slots.

    It inserts nothing when the branch or the lease is another one, or the tick before is not where it was written.
    """
    slot = slot_of(tick.number)
    before = slot_of(tick.number - 1) if tick.number > 1 else None
    values: dict[str, object] = {f"new_{name}": value for name, value in asdict(tick).items()}
    values |= {"new_generation": lease.generation, "new_slot": slot, "lease": lease.name}
    return _statement(dialect, slot, before, everywhere=everywhere), values


def _insert(connection: Connection, tick: Tick, lease: Lease, *, everywhere: bool = False) -> bool:
    statement, values = insertion(tick, lease, connection.dialect.name, everywhere=everywhere)
    return dialects.of(connection).run(connection, statement, values) > 0


def _branch_now(connection: Connection, tick: Tick) -> str:
    """Return the branch of now; raise if someone else has taken a tick with the number of *tick*."""
    newest = connection.execute(select(func.max(ticks.c.number))).scalar() or 0
    if newest != tick.number - 1:
        # An earlier owner's last tick may come after this one has looked; the next look sees it.
        raise StoreUnavailableError(f"tick {newest} was taken meanwhile, after {tick.number - 1}")
    return str(connection.execute(select(site.c.branch)).scalar_one())
