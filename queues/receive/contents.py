"""What a receive queue holds of the log: entries and headers; all in the caller's transaction."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, select

from queues import dialects
from queues.positions import Header, Position
from queues.tables import receive_entries, receive_headers

#: Headers kept with a queue; some more may be, between two prunings.
KEPT_HEADERS: Final = 1024
_PRUNE_EVERY: Final = 256


class ReceivedColumns(NamedTuple):
    """Log entries as columns of equal length: there are many, and a row at a time costs more than the database does.

    `transaction_seq` is the sequence number of the first row of the entry's transaction.
    """

    seq: list[int]
    transaction_seq: list[int]
    committed_us: list[int]
    item_key: list[str | None]
    payload: list[bytes]


def append(connection: Connection, queue_id: int, entries: ReceivedColumns) -> None:
    """Add log entries, at least one."""
    columns = {"queue_id": [queue_id] * len(entries.seq), **entries._asdict()}
    dialects.of(connection).bulk_insert_columns(connection, receive_entries, columns)


def add_headers(connection: Connection, queue_id: int, headers: Sequence[Header], *, before: int) -> None:
    """Add the headers of ticks after *before*; only about the newest `KEPT_HEADERS` are kept."""
    rows = [(queue_id, header.seq, header.branch, header.uid, header.mark) for header in headers[-KEPT_HEADERS:]]
    columns = ("queue_id", "seq", "branch", "uid", "mark")
    if len(rows) <= _FEW:
        for row in rows:
            dialects.of(connection).run(connection, _ADD_HEADER, dict(zip(columns, row, strict=True)))
    else:
        dialects.of(connection).bulk_insert(connection, receive_headers, columns, rows)
    # Pruning now and then costs less than a statement with every batch.
    if headers and headers[-1].seq // _PRUNE_EVERY != before // _PRUNE_EVERY:
        connection.execute(_PRUNE_HEADERS, {"of_queue": queue_id})


#: So few rows are quicker inserted one by one than in bulk.
_FEW = 3
_ADD_HEADER = insert(receive_headers)
_OLDEST_KEPT = (
    select(receive_headers.c.seq)
    .where(receive_headers.c.queue_id == bindparam("of_queue"))
    .order_by(receive_headers.c.seq.desc())
    .offset(KEPT_HEADERS - 1)
    .limit(1)
    .scalar_subquery()
)
_PRUNE_HEADERS = delete(receive_headers).where(
    receive_headers.c.queue_id == bindparam("of_queue"), receive_headers.c.seq < _OLDEST_KEPT
)


def forget_headers_before(connection: Connection, queue_id: int, seq: int) -> None:
    """Forget headers before *seq*, so that nothing can be rolled back to them."""
    own = receive_headers.c.queue_id == queue_id
    connection.execute(delete(receive_headers).where(own, receive_headers.c.seq < seq))


def newest_headers(connection: Connection, queue_id: int, limit: int) -> list[Header]:
    """Return up to *limit* headers, newest first; the first may be that of a tick which is not complete."""
    columns = (receive_headers.c.branch, receive_headers.c.seq, receive_headers.c.uid, receive_headers.c.mark)
    newest = select(*columns).where(receive_headers.c.queue_id == queue_id).order_by(receive_headers.c.seq.desc())
    return [Header(*row) for row in connection.execute(newest.limit(limit))]


def keeps_header(connection: Connection, queue_id: int, position: Position) -> bool:
    """Tell whether the header that ends at *position* is kept."""
    own = receive_headers.c.queue_id == queue_id
    here = (receive_headers.c.seq == position.seq, receive_headers.c.branch == position.branch)
    return connection.execute(select(receive_headers.c.seq).where(own, *here)).first() is not None


def forget_after(connection: Connection, queue_id: int, seq: int) -> None:
    """Forget log entries and headers after *seq*."""
    for table in (receive_entries, receive_headers):
        connection.execute(delete(table).where(table.c.queue_id == queue_id, table.c.seq > seq))


def clear_log(connection: Connection, queue_id: int) -> None:
    """Forget all log entries and headers: a snapshot replaces them."""
    for table in (receive_entries, receive_headers):
        connection.execute(delete(table).where(table.c.queue_id == queue_id))
