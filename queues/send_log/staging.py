"""Rows that parallel tasks stage for the send log, outside of the log, until one transaction moves them there.

Each try of a task has an `attempt` of its own. So a repeated, failed or doubled task never mixes its rows with those of
another try. `queues.send_log.epochs` moves the attempts that its caller names, and deletes the others.
"""

import secrets
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, Engine, delete, exists, insert, literal, select, update

from queues.database import dialects
from queues.database.left_out import require_stored
from queues.database.tables.producers import log_staged_blocks, log_staging
from queues.database.transactions import reading, writing
from queues.destinations import destination_set, members
from queues.entry_headers import checked_headers, parse
from queues.errors import StoreUnavailableError
from queues.names import ClientName
from queues.send_log.destination_check import check_destinations
from queues.send_log.outbox import NewEntry
from queues.wire.ingest_pb2 import ProducedMessage, ProduceRequest

#: The most rows of one staged block.
BLOCK_ROWS: Final = 1_000
#: A block with at least so many bytes takes no further row.
BLOCK_BYTES: Final = 1024 * 1024
#: Seconds without a change after which a part counts as abandoned, because its driver or task has died.
ABANDONED: Final = 86_400.0

_ADD_BLOCK: Final = insert(log_staged_blocks)
_GONE: Final = (
    f"the staged rows of a task were removed, as after {ABANDONED / 3_600:.0f} hours of standstill: write the rows "
    "once more"
)


class Epoch(NamedTuple):
    """One unit of work of a producer: all its rows get into the log, or none, and only once.

    The `sequence` grows with each epoch of the producer, from 1. A job that is never repeated has the sequence 0, and
    leaves no record.
    """

    client: ClientName
    producer: str
    sequence: int


class StagedPart(NamedTuple):
    """The rows that one try of a task has staged."""

    epoch: Epoch
    attempt: str
    rows: int


class PartStaging:
    """Stages the rows of one try of a task, in bounded memory. Not for several threads."""

    def __init__(self, engine: Engine, epoch: Epoch, *, block_rows: int = BLOCK_ROWS) -> None:
        """Stage at most *block_rows* rows in one transaction."""
        self._engine = engine
        self._epoch = epoch
        self._attempt = secrets.token_hex(12)
        self._block_rows = min(block_rows, BLOCK_ROWS)
        self._waiting: list[NewEntry] = []
        self._size = self._staged = self._blocks = 0

    def add(self, entry: NewEntry) -> None:
        """Add a row after those before; raise the errors of `finish` when a block is full."""
        self._waiting.append(entry)
        self._size += len(entry.payload) + len(entry.destinations.text)
        if len(self._waiting) >= self._block_rows or self._size >= BLOCK_BYTES:
            self._flush()

    def finish(self) -> StagedPart:
        """Stage the remaining rows and return the part.

        Raises `UnknownDestinationError` and `LinkEndedError` as transmitting does, and `StoreUnavailableError`.
        """
        if self._waiting:
            self._flush()
        return StagedPart(self._epoch, self._attempt, self._staged)

    def _flush(self) -> None:
        entries = self._waiting
        with writing(self._engine) as connection:
            check_destinations(connection, self._epoch.client, entries)
            self._extend(connection, len(entries))
            block = {"attempt": self._attempt, "ord": self._blocks, "row_count": len(entries), "block": encode(entries)}
            require_stored(log_staged_blocks.name, dialects.of(connection).run(connection, _ADD_BLOCK, block), 1)
        self._waiting, self._size = [], 0
        self._staged += len(entries)
        self._blocks += 1

    def _extend(self, connection: Connection, rows: int) -> None:
        """Count *rows* in the part's own row, whose lock keeps `forget` of other processes away."""
        now = dialects.of(connection).now_us(connection)
        count = {"row_count": self._staged + rows, "updated_us": now}
        if not self._blocks:
            own = {**self._epoch._asdict(), "attempt": self._attempt, "place": 0}
            connection.execute(insert(log_staging), {**own, **count})
            return
        undecided = log_staging.c.attempt == self._attempt, log_staging.c.place == 0
        if not connection.execute(update(log_staging).where(*undecided).values(count)).rowcount:
            raise StoreUnavailableError(_GONE)


def decide(connection: Connection, parts: Sequence[StagedPart]) -> None:
    """Choose *parts*, in this order, for the log. Raises `StoreUnavailableError` unless all their rows are staged."""
    for place, part in enumerate((part for part in parts if part.rows), 1):
        whole = (
            log_staging.c.attempt == part.attempt,
            log_staging.c.place == 0,
            log_staging.c.row_count == part.rows,
        )
        if not connection.execute(update(log_staging).where(*whole).values(place=place)).rowcount:
            raise StoreUnavailableError(_GONE)


def decided(connection: Connection, epoch: Epoch) -> list[str]:
    """Return the chosen attempts of the epoch's producer that are not moved completely, in their order."""
    own = log_staging.c.client == epoch.client, log_staging.c.producer == epoch.producer, log_staging.c.place > 0
    order = log_staging.c.sequence, log_staging.c.place
    return list(connection.execute(select(log_staging.c.attempt).where(*own).order_by(*order)).scalars())


def blocks(connection: Connection, attempt: str, client: ClientName) -> Iterator[tuple[int, list[NewEntry]]]:
    """Yield the number and the entries of each block of *attempt*, one block in memory at a time."""
    own, after = log_staged_blocks.c.attempt == attempt, -1
    while True:
        later = select(log_staged_blocks.c.ord, log_staged_blocks.c.block).where(own, log_staged_blocks.c.ord > after)
        found = connection.execute(later.order_by(log_staged_blocks.c.ord).limit(1)).one_or_none()
        if found is None:
            return
        after = found.ord
        yield after, decode(found.block, client)


def remove_block(connection: Connection, attempt: str, number: int) -> None:
    """Remove one block, in the transaction that has written its entries into the log."""
    own = log_staged_blocks.c.attempt == attempt, log_staged_blocks.c.ord == number
    # A block that stays would be moved again.
    require_stored(log_staged_blocks.name, connection.execute(delete(log_staged_blocks).where(*own)).rowcount, 1)


def forget_moved(connection: Connection, attempt: str) -> None:
    """Remove a chosen part without blocks."""
    removed = connection.execute(delete(log_staging).where(log_staging.c.attempt == attempt)).rowcount
    require_stored(log_staging.name, removed, 1)


def forget_undecided(engine: Engine, epoch: Epoch) -> None:
    """Remove the parts of the epoch's producer, up to this epoch, that were not chosen."""
    own = log_staging.c.client == epoch.client, log_staging.c.producer == epoch.producer
    _forget(engine, *own, log_staging.c.sequence <= epoch.sequence)


def forget_parts(engine: Engine, attempts: Sequence[str]) -> None:
    """Remove *attempts* unless they were chosen."""
    _forget(engine, log_staging.c.attempt.in_(attempts))


def forget_abandoned(engine: Engine, *, seconds: float = ABANDONED) -> int:
    """Remove the parts of all producers that were neither chosen nor changed for *seconds*; return their number."""
    with reading(engine) as connection:
        before = dialects.of(connection).now_us(connection) - int(seconds * 1_000_000)
    return _forget(engine, log_staging.c.updated_us < before)


def has_abandoned(present_us: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that `forget_abandoned` has work; *present_us* is the time of the database."""
    before = present_us - literal(int(ABANDONED * 1_000_000), BigInteger)
    return exists(select(log_staging.c.attempt).where(log_staging.c.place == 0, log_staging.c.updated_us < before))


def _forget(engine: Engine, *which: ColumnElement[bool]) -> int:
    """Remove the undecided parts, in one transaction each; return their number."""
    with reading(engine) as connection:
        found = connection.execute(select(log_staging.c.attempt).where(log_staging.c.place == 0, *which)).scalars()
        attempts = list(found)
    removed = 0
    for attempt in attempts:
        with writing(engine) as connection:
            # The part goes first: its task can then add no block, and no driver can choose the part.
            own = log_staging.c.attempt == attempt, log_staging.c.place == 0
            if connection.execute(delete(log_staging).where(*own, *which)).rowcount:
                connection.execute(delete(log_staged_blocks).where(log_staged_blocks.c.attempt == attempt))
                removed += 1
    return removed


def encode(entries: Sequence[NewEntry]) -> bytes:
    """Return the block of *entries*: a `ProduceRequest` of the wire."""
    messages = [
        ProducedMessage(
            payload=entry.payload,
            destinations=members(entry.destinations.text),
            item_key=entry.item_key,
            partition_key=entry.partition_key,
            headers=parse(entry.headers) if entry.headers else {},
        )
        for entry in entries
    ]
    return ProduceRequest(messages=messages).SerializeToString()


def decode(block: bytes, client: ClientName) -> list[NewEntry]:
    """Return the entries of *client* in a block of `encode`."""
    return [
        NewEntry(
            message.payload,
            destination_set(client, message.destinations),
            message.item_key if message.HasField("item_key") else None,
            message.partition_key if message.HasField("partition_key") else None,
            checked_headers(dict(message.headers)),
        )
        for message in ProduceRequest.FromString(block).messages
    ]
