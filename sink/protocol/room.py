"""The room that a receive queue has left for log entries. Pure.

Snapshots need no room, because one must arrive whole. A queue holds at most one complete snapshot and one that arrives.
"""

from queues.receive.marks import ReceiveState
from queues.wire.replication_pb2 import Refusal
from sink.protocol.log_rules import Refuse


def unapplied_bytes(marks: ReceiveState, applied_seq: int, applied_bytes: int) -> int:
    """Return the bytes of the received entries that a subscriber could apply and has not applied.

    Rows of an open tick do not count then: no subscriber can apply them before the tick is complete.
    """
    if applied_seq >= marks.boundary_seq:
        return 0
    return max(marks.bytes_total - applied_bytes, 0)


def room_left(limit: int, marks: ReceiveState, applied_seq: int, applied_bytes: int) -> int | None:
    """Return how many bytes a queue with this *limit* still takes; None for no limit (0)."""
    return max(limit - unapplied_bytes(marks, applied_seq, applied_bytes), 0) if limit else None


def refuse_full(limit: int, marks: ReceiveState, applied_seq: int, applied_bytes: int) -> Refuse | None:
    """Return the refusal of new rows for a queue without room; a source that heeds the room never gets one."""
    if room_left(limit, marks, applied_seq, applied_bytes) != 0:
        return None
    waiting = unapplied_bytes(marks, applied_seq, applied_bytes)
    reason = f"{waiting} bytes of entries wait for the subscriber here, and receive_bytes is {limit}"
    return Refuse(Refusal.FULL, f"{reason}: run the subscriber, or raise receive_bytes")


def counted_from(marks: ReceiveState, applied_seq: int, applied_bytes: int) -> int:
    """Return the `bytes_total` to which new entries are added.

    An empty queue has as many received as applied bytes. So a writer or subscriber that does not count is forgotten.
    """
    is_empty = applied_seq >= marks.boundary_seq == marks.received.seq
    return applied_bytes if is_empty else marks.bytes_total


def applied_up_to(marks: ReceiveState, applied_seq: int, applied_bytes: int) -> int:
    """Return the number up to which no received entry waits for a subscriber.

    Without a subscriber *applied_seq* stands still. A queue that holds no entries and no snapshot has all applied.
    """
    holds_snapshot = bool(marks.sync_id) and not applied_seq
    if holds_snapshot or marks.bytes_total != applied_bytes:
        return applied_seq
    return marks.received.seq
