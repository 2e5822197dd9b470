"""Closing a tick: the row that makes it durable, which both SQL dialects write in the same way."""

import secrets
from dataclasses import asdict, dataclass, replace

from sqlalchemy import Connection, bindparam, func, insert, select, true

from queues import dialects, leases
from queues.clock import now_us
from queues.errors import StoreUnavailableError
from queues.leases import Lease
from queues.log.port import Group, LogRow
from queues.log.set_dictionary import SetDictionary, Sighting
from queues.positions import Mark, Tick
from queues.tables import branches, site, ticks


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
    connection: Connection,
    lease: Lease,
    last: Tick | None,
    upcoming: Closing,
    dictionary: SetDictionary,
    *,
    turn: int | None = None,
) -> Group:
    """Write the next tick and the sets that it shows, in the caller's transaction.

    *turn*: the slot that the ticks after this one are to go to, if it is not the one that this one goes to.
    """
    leases.check(connection, lease, durably=True)
    tick = _following(last or _beginning(connection), upcoming)
    sets = dictionary.record(connection, upcoming.seen, tick.end_seq)
    if not _insert(connection, tick, lease, turn):
        tick = replace(tick, branch=_branch_now(connection, tick))
        if not _insert(connection, tick, lease, turn):
            raise StoreUnavailableError(f"tick {tick.number} was taken meanwhile")
    return Group(tick, upcoming.rows, sets, more=upcoming.more)


def _following(start: Tick, upcoming: Closing) -> Tick:
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


_NEW = {
    column.name: bindparam(f"new_{column.name}", type_=column.type)
    for column in ticks.c
    if column not in (ticks.c.slot, ticks.c.next_slot)
}
_newest = select(ticks.c.number, ticks.c.next_slot).order_by(ticks.c.number.desc()).limit(1).subquery()
_slot = func.coalesce(_newest.c.next_slot, 0)
#: Inserts a tick that follows the newest one, on the branch of now: where either has changed, nothing. The newest one
#: says into which slot, so that two who insert the same number do that into the same slot, and only one of them can.
_INSERT_TICK = insert(ticks).from_select(
    [*_NEW, "slot", "next_slot"],
    select(*_NEW.values(), _slot, func.coalesce(bindparam("turn", type_=ticks.c.next_slot.type), _slot))
    .select_from(site.outerjoin(_newest, true()))
    .where(site.c.branch == _NEW["branch"], func.coalesce(_newest.c.number, 0) == _NEW["number"] - 1),
)


def _insert(connection: Connection, tick: Tick, lease: Lease, turn: int | None) -> bool:
    values = {f"new_{name}": value for name, value in asdict(tick).items()}
    values |= {"new_generation": lease.generation, "turn": turn}
    return dialects.of(connection).run(connection, _INSERT_TICK, values) > 0


def _branch_now(connection: Connection, tick: Tick) -> str:
    """Return the branch of now; raise if someone else has taken a tick with the number of *tick*."""
    newest = connection.execute(select(func.max(ticks.c.number))).scalar() or 0
    if newest != tick.number - 1:
        # An earlier owner's last tick may come after this one has looked; the next look sees it.
        raise StoreUnavailableError(f"tick {newest} was taken meanwhile, after {tick.number - 1}")
    return str(connection.execute(select(site.c.branch)).scalar_one())
