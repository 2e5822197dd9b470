"""The newest generation of each source that the sink has stored, for operators."""

from typing import NamedTuple

from sqlalchemy import Connection, delete, select, update

from queues.database.tables.receive import receive_marks, receive_queues
from queues.database.tables.replicas import told_members
from queues.names import ClientName, SiteId


class StoredFence(NamedTuple):
    """A receive queue whose sink refuses all generations of `source` below `generation`."""

    source: SiteId
    client: ClientName
    generation: int


def fences(connection: Connection, source: SiteId | None = None, client: ClientName | None = None) -> list[StoredFence]:
    """Return the fences of all receive queues, or those of *source* and *client*."""
    columns = (receive_queues.c.source, receive_queues.c.client, receive_marks.c.generation)
    joined = receive_queues.join(receive_marks, receive_marks.c.queue_id == receive_queues.c.queue_id)
    wanted = select(*columns).select_from(joined).order_by(*columns)
    if source is not None:
        wanted = wanted.where(receive_queues.c.source == source)
    if client is not None:
        wanted = wanted.where(receive_queues.c.client == client)
    return [StoredFence(*row) for row in connection.execute(wanted)]


def reset_fences(connection: Connection, found: list[StoredFence]) -> None:
    """Forget the generations of the receive queues in *found*; the next words of their sources are believed.

    The words about the member that serves for a group of replicas are forgotten, too.
    """
    for fence in found:
        queue_id = select(receive_queues.c.queue_id).where(
            receive_queues.c.source == fence.source, receive_queues.c.client == fence.client
        )
        # A new version makes a writer that expects the earlier marks read them again.
        reset = {"generation": 0, "version": receive_marks.c.version + 1}
        connection.execute(update(receive_marks).where(receive_marks.c.queue_id.in_(queue_id)).values(reset))
        told = told_members.c.source == fence.source, told_members.c.client == fence.client
        connection.execute(delete(told_members).where(*told))
