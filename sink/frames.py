"""Frames of a session, stored in a receive queue by the decisions of `sink.protocol`."""

from queues.receive import told_members
from queues.wire import replication_pb2 as pb
from sink import log_frames, snapshot_frames
from sink.inbox import Inbox
from sink.protocol.log_rules import Refuse
from sink.wire import active_of, position_of


def hear(inbox: Inbox, frame: pb.Frame) -> None:
    """Store the word of *frame* about the member that serves, if there is one."""
    if frame.HasField("active"):
        told = active_of(frame.active)
        told_members.note(inbox.connection, inbox.client, inbox.source, **told._asdict())


def take(inbox: Inbox, frame: pb.Frame, limit: int) -> Refuse | None:
    """Store the new rows of *frame*, at most *limit* bytes of them; return the refusal, if any.

    Raises `CorruptFrameError` for rows that cannot be unpacked; the transaction must then be rolled back.
    """
    match frame.WhichOneof("kind"):
        case "batch":
            return log_frames.take_batch(inbox, frame.batch, limit)
        case "snapshot_begin":
            return snapshot_frames.begin(inbox, frame.snapshot_begin.sync_id)
        case "snapshot_chunk":
            return snapshot_frames.take_chunk(inbox, frame.snapshot_chunk, limit)
        case "snapshot_end":
            return snapshot_frames.end(inbox, frame.snapshot_end)
        case "end_of_stream":
            return log_frames.end_stream(inbox, position_of(frame.end_of_stream.end))
        case _:
            return Refuse(pb.Refusal.PROTOCOL, "the frame is of a kind that this sink does not know")
