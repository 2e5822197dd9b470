"""The answers of a sink to a source: the facts for a negotiation, and the acknowledgement of a frame."""

from collections.abc import Sequence

from queues.names import SiteId
from queues.positions import Header
from queues.receive import entries as receive_entries
from queues.receive import replays, told_members
from queues.wire import replication_pb2 as pb
from sink.inbox import Inbox
from sink.protocol.room import applied_up_to, room_left
from sink.wire import to_header, to_position, to_replay

#: The most headers in one answer to a negotiation.
ANSWERED_HEADERS = 256


def ack(inbox: Inbox) -> pb.Ack:
    """Return the acknowledgement that is true once the transaction is committed."""
    marks, applied = inbox.marks, inbox.applied()
    return pb.Ack(
        received=to_position(marks.received),
        applied_seq=applied_up_to(marks, *applied),
        staging=_progress(inbox),
        sync_id=marks.sync_id,
        room=room_left(inbox.receive_bytes, marks, *applied),
        ended=inbox.kept is not None and marks.has_ended,
    )


def answer(inbox: Inbox, site: SiteId, protocol: int) -> pb.NegotiateResponse:
    """Return the facts from which a source decides how the session continues."""
    marks, stored, applied = inbox.marks, inbox.stored(), inbox.applied()
    headers: Sequence[Header] = []
    if stored is not None:
        headers = receive_entries.newest_headers(inbox.connection, stored.queue_id, ANSWERED_HEADERS)
    return pb.NegotiateResponse(
        protocol=protocol,
        site=site,
        received=to_position(marks.received),
        boundary=to_position(marks.received._replace(seq=marks.boundary_seq)),
        applied_seq=applied[0],
        undoes=stored is not None and stored.undoes,
        headers=map(to_header, headers),
        staging=_progress(inbox),
        sync_id=marks.sync_id,
        room=room_left(inbox.receive_bytes, marks, *applied),
        stream=inbox.version,
        takes_end=True,
        active_generation=told_members.newest_generation(inbox.connection, inbox.client, inbox.source),
        replay=_ordered_replay(inbox),
    )


def _ordered_replay(inbox: Inbox) -> pb.ReplayOrder | None:
    stored = inbox.stored()
    order = None if stored is None else replays.waiting(inbox.connection, stored.queue_id)
    return None if order is None else to_replay(order)


def _progress(inbox: Inbox) -> pb.SnapshotProgress:
    return pb.SnapshotProgress(sync_id=inbox.marks.staging.sync_id, rows=inbox.marks.staging.rows)
