"""What a receive queue holds of the log: entries and headers; all in the caller's transaction."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, select

from queues import dialects
from queues.dialects.statements import Statement
from queues.positions import Header, Position
from queues.tables import receive_entries, receive_headers

#: Headers kept with a queue; some more may be, between two prunings: so many versions of the marks.
KEPT_HEADERS: Final = 1024
_PRUNE_EVERY: Final = 64
#: So few are quicker inserted one by one than in bulk.
FEW_HEADERS: Final = 4


class ReceivedColumns(NamedTuple):
    """Log entries as columns of equal length: there are many, and a row at a time costs more than the database does.

    `transaction_seq` is the sequence number of the first row of the entry's transaction.
    """

    seq: list[int]
    transaction_seq: list[int]
    committed_us: list[int]
    item_key: list[str | None]
    payload: list[bytes]


def append(
    connection: Connection,
    queue_id: int,
    entries: ReceivedColumns,
    *,
    first: Sequence[Statement] = (),
    then: Sequence[Statement] = (),
) -> list[Sequence[tuple[Any, ...]]]:
    """Carry out *first*, add log entries, and carry out *then*: the last of the transaction.

    Return the rows of the *first* ones.
    """
    dialect = dialects.of(connection)
    if not entries.seq:
        return dialect.run_all(connection, [*first, *then], last=True)[: len(first)]
    columns = {"queue_id": [queue_id] * len(entries.seq), **entries._asdict()}
    return dialect.bulk_insert_columns(connection, receive_entries, columns, then, first=first, last=True)


def add_headers(
    connection: Connection, queue_id: int, headers: Sequence[Header], *, version: int
) -> Sequence[Statement]:
    """Add *headers* with the marks' *version*: many at once, and of few return what adds them, to go with the rest.

    Only about the newest `KEPT_HEADERS` are kept.
    """
    if len(headers) <= FEW_HEADERS:
        added = [(_ADD_HEADER, {"queue_id": queue_id, **header._asdict()}) for header in headers]
        # Pruning now and then costs less than a statement with every batch.
        return added if version % _PRUNE_EVERY else [*added, (_PRUNE_HEADERS, {"of_queue": queue_id})]
    rows = [(queue_id, *header) for header in headers[-KEPT_HEADERS:]]
    dialects.of(connection).bulk_insert(connection, receive_headers, ("queue_id", *Header._fields), rows)
    return [(_PRUNE_HEADERS, {"of_queue": queue_id})]


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


def forgetting_headers_before(queue_id: int, seq: int) -> Statement:
    """Return what forgets headers before *seq*, so that nothing can be rolled back to them."""
    return _FORGET_HEADERS, {"of_queue": queue_id, "before": seq}


_FORGET_HEADERS = delete(receive_headers).where(
    receive_headers.c.queue_id == bindparam("of_queue"), receive_headers.c.seq < bindparam("before")
)


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
