"""The sink's side of a receive queue in the database. Every function works in the caller's transaction."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, and_, bindparam, delete, exc, func, insert, select, update

from queues import dialects, names
from queues.errors import StoreUnavailableError
from queues.names import ClientName, SiteId
from queues.positions import Header, Position
from queues.receive.marks import Marks, Staging
from queues.receive.newest import newest
from queues.tables import (
    consumers,
    receive_entries,
    receive_headers,
    receive_marks,
    receive_queues,
    receive_snapshot_entries,
)

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


class Stored(NamedTuple):
    """A receive queue as it stands: the writer's marks, and how far the subscriber has come in their history."""

    queue_id: int
    version: int
    marks: Marks
    applied_seq: int


#: So often a writer that waited for another one's update looks for the row that came of it.
_LOOKS: Final = 100


def make_durable(connection: Connection) -> None:
    """Let the commit wait for the disk, whatever the database's default is: what is acknowledged must be there."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")


def find(connection: Connection, client: ClientName, source: SiteId) -> Stored | None:
    """Read a queue's marks and lock them until the transaction ends; None when nothing was ever received for it.

    Raises `StoreUnavailableError` when other writers move them all the time.
    """
    values = {"queue_name": names.receive_queue(client, source)}
    for _ in range(_LOOKS):
        rows = dialects.of(connection).bulk_select(connection, _FIND, values)
        if rows:
            found = dict(zip(_FOUND, rows[0], strict=True))
            return Stored(found["queue_id"], found["version"], _marks_of(found), found["applied_seq"])
        if connection.execute(_REGISTERED, values).first() is None:
            return None
    raise StoreUnavailableError("other writers move the marks of the same receive queue all the time: try again")


def register(connection: Connection, client: ClientName, source: SiteId, now_us: int) -> int:
    """Make a queue, announce it in the registry, and return its id.

    Raises `StoreUnavailableError` when another writer did so at this moment; the transaction must be rolled back.
    """
    queue = insert(receive_queues).values(
        name=names.receive_queue(client, source),
        client=client,
        source=source,
        tag=names.receive_tag(client),
        registered_us=now_us,
    )
    try:
        queue_id = int(connection.execute(queue.returning(receive_queues.c.queue_id)).scalar_one())
    except exc.IntegrityError as error:
        raise StoreUnavailableError("another writer has just announced the same receive queue: try again") from error
    marks = {"version": 0, "updated_us": now_us, **_columns(Marks())}
    connection.execute(insert(receive_marks).values(queue_id=queue_id, **marks))
    return queue_id


def save(connection: Connection, queue_id: int, seen_version: int, marks: Marks, now_us: int) -> int:
    """Replace the marks of a queue that the transaction has locked; return their version."""
    version = seen_version + 1
    values = {"of_queue": queue_id, "seen": seen_version, "version": version, "updated_us": now_us, **_columns(marks)}
    dialects.of(connection).run(connection, _SAVE, values)
    return version


_SAVE = update(receive_marks).where(
    receive_marks.c.queue_id == bindparam("of_queue"), receive_marks.c.version == bindparam("seen")
)
_REGISTERED = select(receive_queues.c.queue_id).where(receive_queues.c.name == bindparam("queue_name"))
_ITS_ID = _REGISTERED.scalar_subquery()
_FIND = (
    select(receive_marks, func.coalesce(consumers.c.seq, 0).label("applied_seq"))
    # A subscriber that has not begun the newest snapshot yet counts in another history.
    .outerjoin_from(
        receive_marks,
        consumers,
        and_(
            consumers.c.queue_id == _ITS_ID,
            newest(consumers, _ITS_ID),
            consumers.c.sync_id == receive_marks.c.sync_id,
        ),
    )
    .where(receive_marks.c.queue_id == _ITS_ID, newest(receive_marks, _ITS_ID))
    .with_for_update(of=receive_marks)
)


_FOUND = tuple(_FIND.selected_columns.keys())


def _marks_of(row: Mapping[str, Any]) -> Marks:
    return Marks(
        generation=row["generation"],
        received=Position(row["branch"], row["seq"], row["cut"]),
        boundary_seq=row["boundary_seq"],
        staging=Staging(row["staging_sync_id"], row["staging_rows"], row["staging_bytes"], row["staging_checksum"]),
        sync_id=row["sync_id"],
        sync_rows=row["sync_rows"],
        base_seq=row["base_seq"],
        entries_total=row["entries_total"],
        duplicates_total=row["duplicates_total"],
        source_seq=row["source_seq"],
        source_us=row["source_us"],
    )


def _columns(marks: Marks) -> dict[str, int | str]:
    return {
        "generation": marks.generation,
        "branch": marks.received.branch,
        "seq": marks.received.seq,
        "cut": marks.received.cut,
        "boundary_seq": marks.boundary_seq,
        "staging_sync_id": marks.staging.sync_id,
        "staging_rows": marks.staging.rows,
        "staging_bytes": marks.staging.bytes,
        "staging_checksum": marks.staging.checksum,
        "sync_id": marks.sync_id,
        "sync_rows": marks.sync_rows,
        "base_seq": marks.base_seq,
        "entries_total": marks.entries_total,
        "duplicates_total": marks.duplicates_total,
        "source_seq": marks.source_seq,
        "source_us": marks.source_us,
    }


# --- log entries ------------------------------------------------------------------------------------------------


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


def lock_consumer(connection: Connection, queue_id: int, sync_id: str) -> int:
    """Keep the subscriber from moving on until the transaction ends; return how far it has come after *sync_id*."""
    # An update, not a lock: a delivery at a stricter isolation level must collide with it, not just wait for it.
    touched = update(consumers).where(consumers.c.queue_id == queue_id).values(updated_us=consumers.c.updated_us)
    connection.execute(touched)
    where = (consumers.c.queue_id == queue_id, consumers.c.sync_id == sync_id)
    return connection.execute(select(consumers.c.seq).where(*where)).scalar() or 0


def forget_after(connection: Connection, queue_id: int, seq: int) -> None:
    """Forget log entries and headers after *seq*."""
    for table in (receive_entries, receive_headers):
        connection.execute(delete(table).where(table.c.queue_id == queue_id, table.c.seq > seq))


# --- snapshots --------------------------------------------------------------------------------------------------


def stage(
    connection: Connection,
    queue_id: int,
    sync_id: str,
    after: int,
    payloads: Sequence[bytes],
    item_keys: Sequence[str | None],
) -> None:
    """Add rows, at least one, to snapshot *sync_id*, numbered from *after* + 1."""
    count = len(payloads)
    columns: dict[str, Sequence[object]] = {
        "queue_id": [queue_id] * count,
        "sync_id": [sync_id] * count,
        "row_no": range(after + 1, after + 1 + count),
        "item_key": item_keys,
        "payload": payloads,
    }
    dialects.of(connection).bulk_insert_columns(connection, receive_snapshot_entries, columns)


def drop_staged(connection: Connection, queue_id: int, *, keep: Collection[str]) -> None:
    """Forget the rows of all snapshots but those named in *keep*."""
    table = receive_snapshot_entries
    connection.execute(delete(table).where(table.c.queue_id == queue_id, table.c.sync_id.not_in(keep)))


def clear_log(connection: Connection, queue_id: int) -> None:
    """Forget all log entries and headers: a snapshot replaces them."""
    for table in (receive_entries, receive_headers):
        connection.execute(delete(table).where(table.c.queue_id == queue_id))
