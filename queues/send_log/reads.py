"""The reads of the `Log` port that both SQL dialects share: ticks, bounds, and the check against trimming."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, Row, select, union

from queues.database import dialects
from queues.database.tables.destinations import tag_sets
from queues.database.tables.log import log_head
from queues.database.tables.sessions import sessions
from queues.database.tables.snapshots import snapshot_providers, snapshots
from queues.database.tables.ticks import ticks
from queues.database.transactions import reading
from queues.errors import TrimmedError
from queues.names import ClientName
from queues.positions import Tick, Visibility
from queues.send_log.port import Bounds, LogRow, TickLimits, row_size


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
        row.omits_replaced,
    )


def newest_tick(connection: Connection) -> Tick | None:
    """Return the tick with the highest number."""
    row = connection.execute(select(ticks).order_by(ticks.c.number.desc()).limit(1)).first()
    return None if row is None else tick_of(row)


def tick_numbered(connection: Connection, number: int) -> Tick | None:
    """Return the tick with this number; None if there is no such tick."""
    row = connection.execute(select(ticks).where(ticks.c.number == number)).first()
    return None if row is None else tick_of(row)


def keep_ticks(connection: Connection) -> None:
    """Prevent the truncation of ticks until the transaction ends; must be its first statement if it has one snapshot.

    A trim may move a tick to another partition. An older PostgreSQL snapshot sees this tick in neither partition.
    """
    dialects.of(connection).keep(connection, ticks.name)


def trimmed_seq(connection: Connection) -> int:
    """Return the sequence up to which entries are trimmed."""
    return int(connection.execute(select(log_head.c.trimmed_seq)).scalar_one())


def bounds(engine: Engine) -> Bounds:
    """See `Log.bounds`."""
    with reading(engine) as connection:
        return Bounds(trimmed_seq(connection), newest_tick(connection))


def ticks_after(engine: Engine, seq: int, limits: TickLimits) -> list[Tick]:
    """See `Log.ticks_after`."""
    with reading(engine) as connection:
        chosen = select(ticks).where(ticks.c.end_seq > seq).order_by(ticks.c.end_seq).limit(1_000)
        found = [tick_of(row) for row in connection.execute(chosen)]
        # The check must follow the read, as in `still_kept`: the first ticks may be trimmed meanwhile.
        oldest = trimmed_seq(connection)
        if seq < oldest:
            raise TrimmedError(requested=seq, oldest=oldest)
        return _within(found, limits, _bytes_before(connection, found))


def _bytes_before(connection: Connection, found: Sequence[Tick]) -> int:
    return _before(connection, found[0])[1] if found else 0


def _before(connection: Connection, tick: Tick) -> tuple[Visibility | None, int]:
    row = connection.execute(select(ticks).where(ticks.c.number == tick.number - 1)).first()
    return (None, 0) if row is None else (Visibility.parse(row.mark), row.bytes_total)


def mark_before(connection: Connection, tick: Tick) -> Visibility | None:
    """Return the visibility of the tick before *tick*; None for the first tick. Raises `TrimmedError` if trimmed."""
    mark, _ = _before(connection, tick)
    if mark is None and tick.number > 1:
        raise TrimmedError(requested=tick.start_seq, oldest=trimmed_seq(connection))
    return mark


def _within(found: list[Tick], limits: TickLimits, bytes_before: int) -> list[Tick]:
    taken = 1
    while taken < len(found) and not found[0].is_large:
        tick = found[taken]
        too_many = tick.end_seq - found[0].start_seq > limits.rows
        if tick.is_large or too_many or tick.bytes_total - bytes_before > limits.payload_bytes:
            break
        taken += 1
    return found[:taken]


@contextmanager
def still_kept(engine: Engine, first: Tick) -> Iterator[Connection]:
    """Open a transaction for reading from *first* on; raise `TrimmedError` at the end if these entries were trimmed.

    After a TRUNCATE on PostgreSQL, even older snapshots miss the rows, unlike after a DELETE. So a separate statement
    checks the trimmed sequence after the read.
    """
    with reading(engine) as connection:
        yield connection
        oldest = trimmed_seq(connection)
        if first.start_seq < oldest:
            raise TrimmedError(requested=first.start_seq, oldest=oldest)


def fill(connection: Connection, statement: str, values: Any, limits: TickLimits) -> list[LogRow]:  # noqa: ANN401
    """Return the first rows of *statement* within the limit of bytes, at least one; the caller limits their number."""
    rows: list[LogRow] = []
    size = 0
    streaming = connection.execution_options(stream_results=True, max_row_buffer=64)
    with closing(streaming.exec_driver_sql(statement, values)) as result:
        for found in result:
            row = LogRow(*found)
            size += row_size(row)
            if rows and size > limits.payload_bytes:
                break
            rows.append(row)
    return rows


def clients_seen(connection: Connection) -> list[ClientName]:
    """Return the clients with destination sets in the dictionary: those that have transmitted here."""
    return [ClientName(name) for name in connection.execute(_CLIENTS_SEEN).scalars()]


_CLIENTS_SEEN = select(tag_sets.c.client).distinct()


def source_clients(connection: Connection) -> set[ClientName]:
    """Return the clients that offer snapshots, have snapshot requests or sessions, or have transmitted kept entries."""
    return {ClientName(name) for (name,) in dialects.of(connection).bulk_select(connection, _CLIENTS, {})}


# The sets of a client go with its last trimmed entry; its sessions stay, and begin again after a restart.
_CLIENTS = union(
    select(snapshot_providers.c.client),
    select(snapshots.c.client),
    select(sessions.c.client),
    select(tag_sets.c.client),
)
