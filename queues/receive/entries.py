"""The blocks and headers that a sink adds to a receive queue; all functions work in the caller's transaction."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Integer, bindparam, case, cast, delete, exists, func, insert, select

from queues.database import dialects
from queues.database.dialect import Dialect, Executed, Statement
from queues.database.left_out import left_out, remove_all, require_stored
from queues.database.tables.receive import receive_blocks, receive_headers
from queues.positions import Header, Position
from queues.receive import log_blocks
from queues.receive.log_blocks import NewBlocks

#: The headers kept with a queue, beside the oldest one. Up to `_PRUNE_EVERY` versions of the marks may pass before the
#: next pruning.
KEPT_HEADERS: Final = 1024
_PRUNE_EVERY: Final = 64
#: Up to this number, single inserts are faster than a bulk insert.
FEW_HEADERS: Final = 4
NO_BLOCKS: Final = NewBlocks([], [], [], [], [], [])


def append(
    connection: Connection,
    queue_id: int,
    blocks: NewBlocks,
    *,
    first: Sequence[Statement] = (),
    then: Sequence[Statement] = (),
    last: bool = False,
) -> list[Sequence[tuple[Any, ...]]]:
    """Execute *first*, add *blocks*, and execute *then*; *last*: the transaction has no further statement.

    Return the result rows of the statements in *first* and *then*.
    """
    dialect = dialects.of(connection)
    if not blocks.end_seq:
        return dialect.run_all(connection, [*first, *then], last=last)
    columns: dict[str, Sequence[object]] = {"queue_id": [queue_id] * len(blocks.end_seq), **blocks._asdict()}
    return dialect.bulk_insert_columns(connection, receive_blocks, columns, then, first=first, last=last)


class AddedHeaders(NamedTuple):
    """The statements that add headers and prune old ones.

    Once they are committed, no header before `pruned_seq` is left but the oldest one.
    """

    statements: Sequence[Statement]
    pruned_seq: int


def add_headers(
    connection: Connection, queue_id: int, headers: Sequence[Header], *, version: int, pruned_seq: int = 0
) -> AddedHeaders:
    """Insert many *headers* at once; for a few, only return the statements that insert them.

    *version* is the version of the marks. About the newest `KEPT_HEADERS` headers are kept. *pruned_seq* is that of the
    last call in the same history, or 0.
    """
    if len(headers) > FEW_HEADERS:
        rows = [(queue_id, *header) for header in headers[-KEPT_HEADERS:]]
        dialects.of(connection).bulk_insert(connection, receive_headers, ("queue_id", *Header._fields), rows)
        return _pruning(connection, queue_id, (), pruned_seq)
    adding = ADD_HEADER[dialects.of(connection)]
    added = [(adding, header_values(queue_id, header)) for header in headers]
    # Pruning once in `_PRUNE_EVERY` versions is cheaper than a statement in every batch.
    if version % _PRUNE_EVERY:
        return AddedHeaders(added, pruned_seq)
    return _pruning(connection, queue_id, added, pruned_seq)


def _pruning(connection: Connection, queue_id: int, first: Sequence[Statement], pruned_seq: int) -> AddedHeaders:
    oldest_kept = connection.execute(_OLDEST_KEPT, {"of_queue": queue_id}).scalar()
    if oldest_kept is None:
        return AddedHeaders(first, pruned_seq)
    # While a snapshot is held, an index has an entry for each header that was ever pruned. The range leaves them out.
    pruned = {"of_queue": queue_id, "after": pruned_seq, "before": oldest_kept}
    return AddedHeaders([*first, (_PRUNE_HEADERS, pruned)], int(oldest_kept))


def header_values(queue_id: int, header: Header) -> dict[str, object]:
    """Return the values of `ADD_HEADER`."""
    return {"header_queue_id": queue_id, **{f"header_{name}": value for name, value in header._asdict().items()}}


_ADDED: Final = (
    insert(receive_headers)
    .from_select(
        [*receive_headers.c],
        select(*(cast(bindparam(f"header_{each.name}", type_=each.type), each.type) for each in receive_headers.c)),
    )
    .returning(receive_headers.c.seq)
)
_IS_ADDED: Final = exists(select(_ADDED.cte("added").c.seq))
#: Inserts one header; `add_headers` returns it before all other statements. Returns a row if nothing is left out:
#: without a header the source could not go on from there. PostgreSQL's statement fails by itself.
ADD_HEADER: Final[Mapping[Dialect, Executed]] = {
    dialects.SQLITE: _ADDED,
    dialects.POSTGRESQL: select(cast(case((_IS_ADDED, "1"), else_=left_out(receive_headers.name)), Integer)),
}


def require_added(
    connection: Connection, statements: Sequence[Statement], answers: Sequence[Sequence[tuple[Any, ...]]]
) -> None:
    """Raise `SetupError` if one of *statements*, with these *answers*, should have added a header, and has not."""
    adding = ADD_HEADER[dialects.of(connection)]
    for (statement, _), rows in zip(statements, answers, strict=False):
        if statement is adding:
            require_stored(receive_headers.name, len(rows), 1)


_OLDEST_KEPT = (
    select(receive_headers.c.seq)
    .where(receive_headers.c.queue_id == bindparam("of_queue"))
    .order_by(receive_headers.c.seq.desc())
    .offset(KEPT_HEADERS - 1)
    .limit(1)
)
_ALL = receive_headers.alias()
# The oldest header tells later how far the queue can go back without a snapshot: see `replay_marks.floor_seq`.
_OLDEST = select(func.min(_ALL.c.seq)).where(_ALL.c.queue_id == bindparam("of_queue")).scalar_subquery()
_PRUNE_HEADERS = delete(receive_headers).where(
    receive_headers.c.queue_id == bindparam("of_queue"),
    receive_headers.c.seq < bindparam("before"),
    receive_headers.c.seq >= bindparam("after"),
    receive_headers.c.seq > _OLDEST,
)


def forgetting_headers_before(queue_id: int, seq: int) -> Statement:
    """Return the statement that deletes headers before *seq*, for rollbacks that have become impossible."""
    return _FORGET_HEADERS, {"of_queue": queue_id, "before": seq}


_FORGET_HEADERS = delete(receive_headers).where(
    receive_headers.c.queue_id == bindparam("of_queue"), receive_headers.c.seq < bindparam("before")
)


def newest_headers(connection: Connection, queue_id: int, limit: int) -> list[Header]:
    """Return up to *limit* headers, newest first; the first may belong to an incomplete tick."""
    columns = (receive_headers.c.branch, receive_headers.c.seq, receive_headers.c.uid, receive_headers.c.mark)
    newest = select(*columns).where(receive_headers.c.queue_id == queue_id).order_by(receive_headers.c.seq.desc())
    return [Header(*row) for row in connection.execute(newest.limit(limit))]


def keeps_header(connection: Connection, queue_id: int, position: Position) -> bool:
    """Return whether the header that ends at *position* is kept."""
    own = receive_headers.c.queue_id == queue_id
    here = (receive_headers.c.seq == position.seq, receive_headers.c.branch == position.branch)
    return connection.execute(select(receive_headers.c.seq).where(own, *here)).first() is not None


def forget_after(connection: Connection, queue_id: int, seq: int, applied_seq: int) -> int:
    """Delete log entries and headers after *seq*; return the size that the queue counts less.

    *applied_seq* is the subscriber's progress.
    """
    own = receive_headers.c.queue_id == queue_id, receive_headers.c.seq > seq
    remove_all(connection, receive_headers, *own)
    return log_blocks.cut_after(connection, queue_id, seq, applied_seq)


def clear_log(connection: Connection, queue_id: int) -> None:
    """Delete all log entries and headers: a snapshot replaces them."""
    remove_all(connection, receive_headers, receive_headers.c.queue_id == queue_id)
    log_blocks.clear(connection, queue_id)
