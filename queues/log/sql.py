"""What both SQL dialects share of the `Log` port: ticks, the dictionary, what trimming lets go."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Connection, Engine, Row, bindparam, func, insert, select

from queues import dialects, leases
from queues.clock import now_us
from queues.errors import StoreUnavailableError, TrimmedError
from queues.leases import Lease
from queues.log.port import Bounds, Group, Limits, LogRow
from queues.log.set_dictionary import SetDictionary, Sighting
from queues.names import ClientName
from queues.positions import Mark, Tick
from queues.tables import branches, log_head, site, tag_sets, ticks
from queues.transactions import reading


@dataclass(frozen=True, slots=True)
class Closing:
    """What the next tick will hold. `rows` is None when its one transaction is above the limits."""

    mark: Mark
    rows: list[LogRow] | None
    seen: list[Sighting]
    row_count: int
    payload_bytes: int
    more: bool


def tick_of(row: Row[*tuple[object, ...]]) -> Tick:
    """Build a `Tick` from a row of `lrq_ticks`."""
    return Tick(
        row.number,
        row.uid,
        row.branch,
        row.start_seq,
        row.end_seq,
        row.bytes_total,
        row.is_large,
        row.mark,
        row.created_us,
    )


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
    while taken < len(found) and not found[0].is_large:
        tick = found[taken]
        too_many = tick.end_seq - found[0].start_seq > limits.rows
        if tick.is_large or too_many or tick.bytes_total - bytes_before > limits.payload_bytes:
            break
        taken += 1
    return found[:taken]


def insert_tick(
    connection: Connection, lease: Lease, last: Tick | None, upcoming: Closing, dictionary: SetDictionary
) -> Group:
    """Write the next tick and the sets that it shows, in the caller's transaction."""
    leases.check(connection, lease, durably=True)
    tick = _following(last or _beginning(connection), upcoming)
    sets = dictionary.record(connection, upcoming.seen, tick.end_seq)
    if not _insert(connection, tick, lease):
        tick = replace(tick, branch=_branch_now(connection, tick))
        # A tick of the same number that another process writes meanwhile makes this fail.
        connection.execute(insert(ticks), asdict(tick) | {"generation": lease.generation})
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


_NEW = {column.name: bindparam(f"new_{column.name}", type_=column.type) for column in ticks.c}
#: Inserts a tick that follows the newest one, on the branch of now: where either has changed, nothing.
_INSERT_TICK = insert(ticks).from_select(
    list(_NEW),
    select(*_NEW.values()).where(
        site.c.branch == _NEW["branch"],
        func.coalesce(select(func.max(ticks.c.number)).scalar_subquery(), 0) == _NEW["number"] - 1,
    ),
)


def _insert(connection: Connection, tick: Tick, lease: Lease) -> bool:
    values = {f"new_{name}": value for name, value in asdict(tick).items()} | {"new_generation": lease.generation}
    return dialects.of(connection).run(connection, _INSERT_TICK, values) > 0


def _branch_now(connection: Connection, tick: Tick) -> str:
    """Return the branch of now; raise if someone else has taken a tick with the number of *tick*."""
    newest = connection.execute(select(func.max(ticks.c.number))).scalar() or 0
    if newest != tick.number - 1:
        # An earlier owner's last tick may come after this one has looked; the next look sees it.
        raise StoreUnavailableError(f"tick {newest} was taken meanwhile, after {tick.number - 1}")
    return str(connection.execute(select(site.c.branch)).scalar_one())


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


def fill(connection: Connection, statement: str, values: Any, limits: Limits) -> list[LogRow]:  # noqa: ANN401
    """Return the first rows of *statement* (it has their number limited) within the limit in bytes, but one."""
    rows: list[LogRow] = []
    size = 0
    streaming = connection.execution_options(stream_results=True, max_row_buffer=64)
    with closing(streaming.exec_driver_sql(statement, values)) as result:
        for found in result:
            row = LogRow(*found)
            size += len(row.payload)
            if rows and size > limits.payload_bytes:
                break
            rows.append(row)
    return rows


def clients_seen(connection: Connection) -> list[ClientName]:
    """Return the clients that have transmitted here and whose sets are still recorded."""
    return [ClientName(name) for name in connection.execute(_CLIENTS_SEEN).scalars()]


_CLIENTS_SEEN = select(tag_sets.c.client).distinct()
