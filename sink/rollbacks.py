"""A receive queue goes back to an earlier tick: by a rollback of the source, or by an ordered replay."""

from dataclasses import replace

from queues.positions import Header, Position
from queues.receive import consumer_lock, replay_marks, replays
from queues.receive import entries as receive_entries
from queues.receive.consumer_lock import LockedProgress
from queues.receive.replays import ReplayState
from sink.inbox import Inbox
from sink.protocol import log_rules, replay_rules
from sink.protocol.log_rules import Refuse
from sink.protocol.replay_rules import QueueFacts
from sink.wire import ReplayWord


def roll_back(inbox: Inbox, target: Position) -> Refuse | None:
    """Delete all rows after the header at *target* and have applied ones undone; return the refusal, if any."""
    known, progress = False, LockedProgress()
    if inbox.kept is not None:
        queue_id = inbox.kept.stored.queue_id
        known = receive_entries.keeps_header(inbox.connection, queue_id, target)
        progress = consumer_lock.lock_consumer(inbox.connection, queue_id, inbox.marks.sync_id)
    reached_seq, applied_seq = progress.reached_seq, progress.applied_seq
    decision = log_rules.decide_rollback(inbox.marks, target, reached_seq, known=known, undoes=progress.undoes)
    match decision:
        case Refuse():
            return decision
        case log_rules.RollbackTo(marks):
            queue_id = inbox.queue_id()
            freed = receive_entries.forget_after(inbox.connection, queue_id, marks.received.seq, applied_seq)
            marks = replace(marks, bytes_total=marks.bytes_total - freed)
            if marks.received.seq < reached_seq:
                consumer_lock.require_rollback(inbox.connection, queue_id, marks.received.seq)
            inbox.save(marks, applied_seq=min(applied_seq, marks.received.seq))
    return None


def replay(inbox: Inbox, answer: ReplayWord) -> None:
    """Carry out the order that a source has granted, or end the one that it has refused.

    An order that does not wait any more, or that another one has replaced, changes nothing.
    """
    order = None if inbox.kept is None else replays.waiting(inbox.connection, inbox.kept.stored.queue_id)
    if order is None or order.order_id != answer.order_id:
        return
    before = inbox.marks.received.seq
    refusal = answer.refusal or _go_back(inbox, answer.after, undo=order.wish.undo)
    if refusal:
        replays.end(inbox.connection, order, ReplayState.REFUSED, refusal)
        return
    first, undone = answer.after.seq + 1, "" if order.wish.undo else ", without on_rollback"
    words = f"entries from {first:,} to {before:,} come again{undone}"
    replays.end(inbox.connection, order, ReplayState.BEGUN, words)


def _go_back(inbox: Inbox, after: Header, *, undo: bool) -> str:
    """Forget all entries after the tick *after*, also applied ones; return the reason if that is not allowed."""
    queue_id = inbox.queue_id()
    progress = consumer_lock.lock_consumer(inbox.connection, queue_id, inbox.marks.sync_id)
    marks = replay_marks.read_marks(inbox.connection, inbox.client, inbox.source)
    if marks is None or after.seq > inbox.marks.boundary_seq:
        return f"no tick that ends at {after.seq:,} was received"
    refusal = replay_rules.refuse_replay(QueueFacts(*marks[1:]), after.seq, undo=undo)
    if refusal:
        return refusal
    gone = replay_rules.gone_back(inbox.marks, Position(after.branch, after.seq))
    freed = receive_entries.forget_after(inbox.connection, queue_id, after.seq, progress.applied_seq)
    replay_marks.keep_header(inbox.connection, queue_id, after)
    if undo:
        consumer_lock.require_rollback(inbox.connection, queue_id, after.seq)
    else:
        replay_marks.set_back(inbox.connection, queue_id, after.branch, after.seq)
    inbox.save(replace(gone, bytes_total=gone.bytes_total - freed), applied_seq=after.seq)
    return ""
