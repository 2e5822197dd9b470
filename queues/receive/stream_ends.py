"""The ends of streams in the receive queues of a sink, as an operator sees them."""

from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import Connection, exists, select

from queues.database.tables.consumers import consumers, parked_entries
from queues.database.tables.receive import receive_marks, receive_queues
from queues.names import ClientName, SiteId
from queues.receive.registry import ReceiveQueue


class StreamState(StrEnum):
    """The end of the stream of one receive queue."""

    RECEIVING = "receiving"
    #: The stream has ended, and the subscriber has not applied everything.
    ENDING = "ending"
    #: The listener was told the end, after all entries.
    ENDED = "ended"


class StreamEnd(NamedTuple):
    """The state of one queue, with the reason in words."""

    queue: ReceiveQueue
    state: StreamState
    reason: str


def stream_ends(connection: Connection) -> list[StreamEnd]:
    """Return the state of every receive queue, by source and client."""
    parked = exists(select(parked_entries.c.id).where(parked_entries.c.queue_id == receive_queues.c.queue_id))
    joined = receive_queues.join(receive_marks, receive_marks.c.queue_id == receive_queues.c.queue_id).outerjoin(
        consumers, consumers.c.queue_id == receive_queues.c.queue_id
    )
    marks = receive_marks.c
    columns = (
        *(receive_queues.c[name] for name in ("queue_id", "name", "client", "source")),
        ((marks.ended_seq == marks.seq) & (marks.seq == marks.boundary_seq)).label("ended"),
        (consumers.c.ended_seq == marks.ended_seq).label("told"),
        parked.label("parked"),
    )
    ordered = select(*columns).select_from(joined).order_by(receive_queues.c.source, receive_queues.c.client)
    return [
        StreamEnd(
            ReceiveQueue(row.queue_id, row.name, ClientName(row.client), SiteId(row.source)),
            *_state(ended=bool(row.ended), told=bool(row.told), parked=bool(row.parked)),
        )
        for row in connection.execute(ordered)
    ]


def _state(*, ended: bool, told: bool, parked: bool) -> tuple[StreamState, str]:
    if not ended:
        return StreamState.RECEIVING, "the source has not ended the link"
    if told:
        return StreamState.ENDED, "the listener has everything, and the end of the stream"
    if parked:
        return StreamState.ENDING, "parked entries delay the end: retry or discard them (`lrq park`)"
    return StreamState.ENDING, "the subscriber has not applied everything yet"
