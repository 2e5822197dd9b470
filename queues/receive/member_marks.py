"""The marks of a receive queue that tell whether a reader of another member may go on here."""

from typing import NamedTuple

from sqlalchemy import Connection, exists, func, select

from queues.database.tables.consumers import consumers
from queues.database.tables.receive import receive_headers, receive_marks, receive_queues
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.receive.newest import newest


class MemberMarks(NamedTuple):
    """The subscriber's `phase`, snapshot and branch, and the newest snapshot of the queue.

    `has_cut`: rows around the snapshot may still be left out. `oldest_header_seq` is the end of the oldest tick that
    the queue remembers, 0 for none. `has_later_header`: the queue remembers a tick of the position's branch, at or
    after the position.
    """

    phase: str
    sync_id: str
    branch: str
    newest_sync_id: str
    has_cut: bool
    oldest_header_seq: int
    has_later_header: bool


def member_marks(connection: Connection, client: ClientName, source: SiteId, position: Position) -> MemberMarks | None:
    """Read the marks; None before a subscriber has begun."""
    own = (receive_queues.c.client == client, receive_queues.c.source == source)
    own_id = select(receive_queues.c.queue_id).where(*own).scalar_subquery()
    headers = receive_headers.c.queue_id == own_id
    later = (receive_headers.c.branch == position.branch, receive_headers.c.seq >= position.seq)
    row = connection.execute(
        select(
            consumers.c.phase,
            consumers.c.sync_id,
            consumers.c.branch,
            receive_marks.c.sync_id,
            receive_marks.c.cut != "",
            select(func.coalesce(func.min(receive_headers.c.seq), 0)).where(headers).scalar_subquery(),
            exists(receive_headers.select().where(headers, *later)),
        )
        .join_from(consumers, receive_marks, receive_marks.c.queue_id == consumers.c.queue_id)
        .where(consumers.c.queue_id == own_id, newest(consumers, own_id), newest(receive_marks, own_id))
    ).first()
    return None if row is None else MemberMarks(*row)
