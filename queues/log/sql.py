"""What both SQL dialects share of reading the `Log` port: ticks, and what is still kept."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, Row, select

from queues.errors import TrimmedError
from queues.log.port import Bounds, Limits, LogRow
from queues.names import ClientName
from queues.positions import Mark, Tick
from queues.tables import log_head, tag_sets, ticks
from queues.transactions import reading


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


def keep_ticks(connection: Connection) -> None:
    """Let no tick be moved or emptied away until the transaction ends; the first statement of one with one snapshot.

    A PostgreSQL snapshot that is older than a move finds a tick neither where it was nor where it is.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("LOCK TABLE lrq_ticks IN ACCESS SHARE MODE")  # takes no snapshot


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
        chosen = select(ticks).where(ticks.c.end_seq > seq).order_by(ticks.c.end_seq).limit(1_000)
        found = [tick_of(row) for row in connection.execute(chosen)]
        # Afterwards, as `still_kept` does: the first ones may have been emptied away meanwhile.
        oldest = trimmed_seq(connection)
        if seq < oldest:
            raise TrimmedError(requested=seq, oldest=oldest)
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
