"""The sink's marks of a receive queue. Every function works in the caller's transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, and_, bindparam, case, exc, false, func, insert, select

from queues import names
from queues.database import dialects
from queues.database.dialect import Dialect, Executed, Statement
from queues.database.left_out import require_stored, telling
from queues.database.tables.consumers import consumers
from queues.database.tables.receive import receive_headers, receive_marks, receive_queues
from queues.database.transactions import own_errors
from queues.errors import StoreUnavailableError
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.receive import entries, saved_marks, wakeups
from queues.receive.consumer_marks import APPLIED_SEQ
from queues.receive.entries import NO_BLOCKS
from queues.receive.forgotten import next_queue_id
from queues.receive.log_blocks import NewBlocks
from queues.receive.marks import ReceiveState, StagedRows
from queues.receive.newest import newest
from queues.receive.saved_marks import SAVING


class Stored(NamedTuple):
    """A stored receive queue: the sink's marks, and `applied_seq`, the subscriber's progress in the same history.

    `undoes`: the subscriber can undo applied entries. `applied_bytes`: the size of all blocks that subscribers
    have ever removed. `pruned_seq` is that of `entries.AddedHeaders`, 0 if this process has not pruned yet.
    """

    queue_id: int
    version: int
    marks: ReceiveState
    applied_seq: int
    undoes: bool
    applied_bytes: int = 0
    pruned_seq: int = 0


#: The most reads of the marks; a read that waited for another writer's update finds no row.
_LOOKS: Final = 100


def find(connection: Connection, client: ClientName, source: SiteId, writer: int = 0) -> Stored | None:
    """Read a queue's marks and lock them until the transaction ends; None if the queue does not exist.

    *writer*, below 2**31, is a random number of this process: see `end_stopped`. The commit waits for the disk, against
    any default of the database: an acknowledged entry must be durable.

    Raises `StoreUnavailableError` if other writers keep replacing the marks.
    """
    dialect = dialects.of(connection)
    values = {"queue_name": names.receive_queue(client, source)}
    statements: list[Statement] = [(_FIND, values)]
    if (present := _PRESENT.get(dialect)) is not None:
        statements.append((present, {"name": values["queue_name"], "held": writer}))
    for _ in range(_LOOKS):
        rows, *_others = dialect.run_all(connection, statements)
        if rows:
            found = dict(zip(_FOUND, rows[0], strict=True))
            applied = found["applied_seq"], bool(found["undoes"]), found["applied_bytes"]
            return Stored(found["queue_id"], found["version"], _marks_of(found), *applied)
        if connection.execute(_REGISTERED, values).first() is None:
            return None
    raise StoreUnavailableError("other writers move the marks of the same receive queue all the time: try again")


def end_stopped(engine: Engine, client: ClientName, source: SiteId, writer: int, idle: float) -> None:
    """End transactions of other writers on this queue that have stood still for *idle* seconds.

    A process that has stopped inside a transaction would keep the marks locked. SQLite has no means for that.
    """
    with own_errors():
        dialects.of(engine).end_older(engine, names.receive_queue(client, source), writer, idle)


def register(connection: Connection, client: ClientName, source: SiteId, now_us: int) -> int:
    """Create a queue, announce it in the registry, and return its id.

    Raises `StoreUnavailableError` if another writer creates it at the same moment; roll the transaction back then.
    """
    values: dict[str, object] = {
        "name": names.receive_queue(client, source),
        "client": client,
        "source": source,
        "tag": names.receive_tag(client),
        "registered_us": now_us,
    }
    if dialects.of(connection).one_writer:
        values["queue_id"] = next_queue_id(connection)
    queue = insert(receive_queues).values(values)
    try:
        queue_id = int(connection.execute(queue.returning(receive_queues.c.queue_id)).scalar_one())
    except exc.IntegrityError as error:
        raise StoreUnavailableError("another writer has just announced the same receive queue: try again") from error
    marks = {"version": 0, "updated_us": now_us, **columns_of(ReceiveState())}
    connection.execute(insert(receive_marks).values(queue_id=queue_id, **marks))
    return queue_id


@dataclass(frozen=True, slots=True)
class LockedMarks:
    """Marks that this transaction has locked: no other writer replaces them before its end."""

    stored: Stored

    def save(
        self,
        connection: Connection,
        marks: ReceiveState,
        now_us: int,
        *,
        new: NewBlocks = NO_BLOCKS,
        changes: Sequence[Statement] = (),
        last: bool = False,
    ) -> "LockedMarks":
        """Add the blocks *new*, execute *changes* and replace the marks, in few messages.

        *last*: the transaction has no further statement, so the commit may be in the same message. Raises `SetupError`
        if a trigger of others leaves the change out.
        """
        before = self.stored
        new_values = saved_marks.new_values(columns_of(marks), before.version + 1, now_us)
        saving = SAVING[dialects.of(connection)], {"of_queue": before.queue_id, "seen": before.version, **new_values}
        tells = wakeups.brings_work(before.marks, marks)
        waking = wakeups.notifying(connection, before.queue_id, tells=tells)
        with telling(receive_marks.name), telling(receive_headers.name):
            answers = entries.append(connection, before.queue_id, new, then=[*changes, saving, *waking], last=last)
        entries.require_added(connection, changes, answers)
        require_stored(receive_marks.name, len(answers[len(changes)]), 1)
        return LockedMarks(replaced(before, marks, before.applied_seq, before.applied_bytes))


def replaced(before: Stored, marks: ReceiveState, applied_seq: int, applied_bytes: int) -> Stored:
    """Return the stored queue after a writer has replaced its marks by *marks*."""
    version = before.version + 1
    return before._replace(version=version, marks=marks, applied_seq=applied_seq, applied_bytes=applied_bytes)


# The presence of a writer, which makes the commit durable too.
_PRESENT: Final[Mapping[Dialect, Executed]] = {
    dialect: select(*columns) for dialect in dialects.DIALECTS.values() if (columns := dialect.presence(durably=True))
}
_REGISTERED = select(receive_queues.c.queue_id).where(receive_queues.c.name == bindparam("queue_name"))
_ITS_ID = _REGISTERED.scalar_subquery()
_SAME_HISTORY = consumers.c.sync_id == receive_marks.c.sync_id
_FIND = (
    select(
        receive_marks,
        # A subscriber that has not begun the newest snapshot has numbers of another history, so it counts as 0.
        case((_SAME_HISTORY, APPLIED_SEQ), else_=0).label("applied_seq"),
        case((_SAME_HISTORY, consumers.c.undoes), else_=false()).label("undoes"),
        func.coalesce(consumers.c.applied_bytes, 0).label("applied_bytes"),
    )
    .outerjoin_from(receive_marks, consumers, and_(consumers.c.queue_id == _ITS_ID, newest(consumers, _ITS_ID)))
    .where(receive_marks.c.queue_id == _ITS_ID, newest(receive_marks, _ITS_ID))
    .with_for_update(of=receive_marks)
)


_FOUND = tuple(_FIND.selected_columns.keys())


def _marks_of(row: Mapping[str, Any]) -> ReceiveState:
    return ReceiveState(
        generation=row["generation"],
        received=Position(row["branch"], row["seq"], row["cut"]),
        boundary_seq=row["boundary_seq"],
        staging=StagedRows(row["staging_sync_id"], row["staging_rows"], row["staging_bytes"], row["staging_checksum"]),
        sync_id=row["sync_id"],
        sync_rows=row["sync_rows"],
        base_seq=row["base_seq"],
        entries_total=row["entries_total"],
        duplicates_total=row["duplicates_total"],
        source_seq=row["source_seq"],
        source_us=row["source_us"],
        bytes_total=row["bytes_total"],
        ended_seq=row["ended_seq"],
    )


def columns_of(marks: ReceiveState) -> dict[str, int | str]:
    """Return *marks* as column values."""
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
        "bytes_total": marks.bytes_total,
        "ended_seq": marks.ended_seq,
    }
