"""Move staged rows into the send log: each epoch of a producer exactly once.

The decision and the record in `lrq_producers` are one transaction. So a repeated epoch, a repeated commit and the
second of two drivers find the record and store nothing. See docs/spark-log.md, "Exactly once".
"""

from collections.abc import Sequence
from contextlib import suppress

from sqlalchemy import ColumnElement, Connection, Engine, select, text, update

from queues.clock import now_us
from queues.database import dialects
from queues.database.left_out import require_stored
from queues.database.tables.producers import producers
from queues.database.transactions import reading, writing
from queues.errors import StoreUnavailableError
from queues.positions import PositionToken
from queues.send_log import staging
from queues.send_log.destination_check import check_destinations
from queues.send_log.opening import outbox
from queues.send_log.outbox import Written
from queues.send_log.staging import Epoch, StagedPart

# A second transaction with the same epoch waits here for the first one, and then changes no row.
_CLAIM = text(
    "INSERT INTO lrq_producers (client, producer, sequence, token, updated_us) "
    "VALUES (:client, :producer, :sequence, '', :updated_us) "
    "ON CONFLICT (client, producer) DO UPDATE SET sequence = excluded.sequence, updated_us = excluded.updated_us "
    "WHERE lrq_producers.sequence < excluded.sequence"
)


def store_epoch(
    engine: Engine, epoch: Epoch, parts: Sequence[StagedPart], *, rows_per_transaction: int | None = None
) -> bool:
    """Move *parts* of *epoch* into the log, in their order; return False if an earlier call has stored the epoch.

    One transaction moves everything. With *rows_per_transaction*, several transactions move so many rows each at
    most. The first one records the decision. If the process dies between two of them, the producer's next call first
    moves the remaining rows.

    Raises `StoreUnavailableError` if staged rows are gone or the database cannot be used; the call may be repeated.
    Raises `LinkEndedError` if a link of the rows has ended since; the call may be repeated after `lrq link begin`.
    """
    _finish(engine, epoch, rows_per_transaction)
    with writing(engine) as connection:
        is_new = not epoch.sequence or _claim(connection, epoch)
        if is_new:
            staging.decide(connection, parts)
            if rows_per_transaction is None:
                _move(connection, epoch, None)
    if rows_per_transaction is not None:
        _finish(engine, epoch, rows_per_transaction)
    # The rows are stored. An error of the cleaning would let the caller store them again; a later call cleans too.
    with suppress(StoreUnavailableError):
        staging.forget_undecided(engine, epoch)
    return is_new


def newest_sequence(engine: Engine, epoch: Epoch) -> int:
    """Return the sequence of the newest stored epoch of the epoch's producer; 0 without one."""
    with reading(engine) as connection:
        return connection.execute(select(producers.c.sequence).where(*_own(epoch))).scalar() or 0


def _own(epoch: Epoch) -> tuple[ColumnElement[bool], ...]:
    return producers.c.client == epoch.client, producers.c.producer == epoch.producer


def _claim(connection: Connection, epoch: Epoch) -> bool:
    now = dialects.of(connection).now_us(connection)
    if connection.execute(_CLAIM, {**epoch._asdict(), "updated_us": now}).rowcount:
        return True
    stored = connection.execute(select(producers.c.sequence).where(*_own(epoch))).scalar() or 0
    # Entries that count as stored, and are not, would be lost.
    require_stored(producers.name, int(stored >= epoch.sequence), 1)
    return False


def _finish(engine: Engine, epoch: Epoch, most_rows: int | None) -> None:
    """Move the rows that were chosen for the log, in transactions of at most *most_rows* rows."""
    while True:
        with reading(engine) as connection:
            if not staging.decided(connection, epoch):
                return
        with writing(engine) as connection:
            # The lock: another driver may be moving the same rows, and this statement then waits for its commit.
            connection.execute(update(producers).where(*_own(epoch)).values(client=epoch.client))
            _move(connection, epoch, most_rows)


def _move(connection: Connection, epoch: Epoch, most_rows: int | None) -> None:
    """Write chosen rows into the log and remove them from the staging, as many blocks as *most_rows* allows."""
    written: Written | None = None
    moved = 0
    for attempt in staging.decided(connection, epoch):
        for number, entries in staging.blocks(connection, attempt, epoch.client):
            if most_rows is not None and moved and moved + len(entries) > most_rows:
                _note(connection, epoch, written)
                return
            check_destinations(connection, epoch.client, entries)
            written = outbox(connection)(connection, epoch.client, entries, now_us())
            staging.remove_block(connection, attempt, number)
            moved += len(entries)
        staging.forget_moved(connection, attempt)
    _note(connection, epoch, written)


def _note(connection: Connection, epoch: Epoch, written: Written | None) -> None:
    """Keep the token of the transaction with the producer."""
    if written is None or not epoch.sequence:
        return
    token = PositionToken(written.site, epoch.client, written.branch, written.transaction, written.timeline)
    connection.execute(update(producers).where(*_own(epoch)).values(token=str(token)))
