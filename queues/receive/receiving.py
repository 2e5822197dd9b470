"""The marks of a receive queue, as the sink keeps them. Every function works in the caller's transaction."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, and_, bindparam, exc, false, func, insert, select, true, update

from queues import dialects, leases, names
from queues.dialects.statements import Statement
from queues.errors import StoreUnavailableError
from queues.leases import Lease
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.receive.consuming import APPLIED_SEQ
from queues.receive.marks import Marks, Staging
from queues.receive.newest import newest
from queues.tables import consumers, receive_marks, receive_queues


class Stored(NamedTuple):
    """A receive queue as it stands: the writer's marks, and how far the subscriber has come in their history.

    `undoes`: the subscriber can undo what it has applied.
    """

    queue_id: int
    version: int
    marks: Marks
    applied_seq: int
    undoes: bool


#: So often a writer that waited for another one's update looks for the row that came of it.
_LOOKS: Final = 100


def find(connection: Connection, client: ClientName, source: SiteId, lease: Lease | None = None) -> Stored | None:
    """Read a queue's marks and lock them until the transaction ends; None when nothing was ever received for it.

    With the marks locked the *lease* is checked: two owners' transactions meet there, and one of them is stale. The
    commit waits for the disk, whatever the database's default is: what is acknowledged must be there.

    Raises `StoreUnavailableError` when other writers move them all the time, and the errors of `leases.check`.
    """
    values = {"queue_name": names.receive_queue(client, source)}
    statements: list[Statement] = [(_FIND, values)]
    if lease is not None:
        statements.append(leases.checking(connection, lease, durably=True))
    elif connection.dialect.name == "postgresql":
        statements.append((_DURABLY, {}))
    for _ in range(_LOOKS):
        rows, *checked = dialects.of(connection).run_all(connection, statements)
        if lease is not None:
            leases.judge(lease, checked[0])
        if rows:
            found = dict(zip(_FOUND, rows[0], strict=True))
            applied = found["applied_seq"], bool(found["undoes"])
            return Stored(found["queue_id"], found["version"], _marks_of(found), *applied)
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
    marks = {"version": 0, "updated_us": now_us, **columns_of(Marks())}
    connection.execute(insert(receive_marks).values(queue_id=queue_id, **marks))
    return queue_id


def saving(queue_id: int, seen_version: int, marks: Marks, now_us: int) -> Statement:
    """Return what replaces the marks of a queue that the transaction has locked; their version is the next one then."""
    key = {"of_queue": queue_id, "seen": seen_version, "version": seen_version + 1}
    return _SAVE, {**key, "updated_us": now_us, **columns_of(marks)}


_DURABLY = select(func.set_config("synchronous_commit", "on", true()))
_SAVE = update(receive_marks).where(
    receive_marks.c.queue_id == bindparam("of_queue"), receive_marks.c.version == bindparam("seen")
)
_REGISTERED = select(receive_queues.c.queue_id).where(receive_queues.c.name == bindparam("queue_name"))
_ITS_ID = _REGISTERED.scalar_subquery()
_FIND = (
    select(
        receive_marks,
        func.coalesce(APPLIED_SEQ, 0).label("applied_seq"),
        func.coalesce(consumers.c.undoes, false()).label("undoes"),
    )
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


def columns_of(marks: Marks) -> dict[str, int | str]:
    """Return *marks* as they are stored."""
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


def lock_consumer(connection: Connection, queue_id: int, sync_id: str) -> tuple[int, bool]:
    """Keep the subscriber from moving on until the transaction ends.

    Return how far it has come after *sync_id*, and whether it can undo that.
    """
    # An update, not a lock: a delivery at a stricter isolation level must collide with it, not just wait for it.
    touched = update(consumers).where(consumers.c.queue_id == queue_id).values(updated_us=consumers.c.updated_us)
    connection.execute(touched)
    where = (consumers.c.queue_id == queue_id, consumers.c.sync_id == sync_id)
    found = connection.execute(select(APPLIED_SEQ, consumers.c.undoes).where(*where)).first()
    return (found[0], bool(found[1])) if found else (0, False)


def have_undone(connection: Connection, queue_id: int, seq: int) -> None:
    """Have the subscriber undo what it has applied after *seq*, before it applies anything else."""
    connection.execute(update(consumers).where(consumers.c.queue_id == queue_id).values(back_seq=seq))
