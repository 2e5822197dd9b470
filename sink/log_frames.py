"""Frames of log-entry sync: batches of ticks, and the end of the stream."""

from collections.abc import Sequence
from dataclasses import replace

from queues.blocks import check_packed
from queues.positions import Position
from queues.receive import entries as receive_entries
from queues.receive import snapshot_blocks
from queues.receive.log_blocks import NewBlocks
from queues.receive.marks import stored_size
from queues.wire import replication_pb2 as pb
from sink.inbox import Inbox
from sink.protocol import log_rules
from sink.protocol.frame_size import extent, refuse_large
from sink.protocol.log_rules import Advance, FrameTick, Refuse
from sink.protocol.room import counted_from, refuse_full
from sink.wire import group_of, header_of, position_of


def take_batch(inbox: Inbox, batch: pb.Batch, limit: int) -> Refuse | None:
    """Store the ticks of *batch* that are new; return the refusal, if any."""
    if inbox.kept is None and not batch.groups:
        return None
    refuse = refuse_large(extent(group.block for group in batch.groups), limit)
    if refuse is not None:
        return refuse
    groups = [group_of(group) for group in batch.groups]
    start = position_of(batch.start)
    decision = log_rules.decide_batch(inbox.marks, start, groups, cut_passed=batch.cut_passed)
    if isinstance(decision, Refuse):
        return decision
    before, after = inbox.marks, decision.marks
    if after.entries_total > before.entries_total and (
        full := refuse_full(inbox.receive_bytes, before, *inbox.applied())
    ):
        return full
    new = _packed(batch.groups, groups, decision.steps, limit)
    # The header of an open tick is stored too: it tells the source to which tick the rows belong.
    begun = [header_of(g.header) for g, step in zip(batch.groups, decision.steps, strict=True) if step.begins]
    changes = [*inbox.adding(begun)]
    if before.received.cut and not after.received.cut:
        # A rollback behind the cut would need the cut again.
        changes.append(receive_entries.forgetting_headers_before(inbox.queue_id(), after.boundary_seq))
    if before.staging.sync_id and not after.staging.sync_id:
        changes.append(snapshot_blocks.dropping_staged(inbox.queue_id(), keep=after.sync_id))
    marks = replace(
        after,
        source_seq=max(before.source_seq, batch.source_seq),
        source_us=max(before.source_us, batch.source_us),
        bytes_total=counted_from(before, *inbox.applied()) + sum(new.size),
    )
    # A frame without ticks only asks for an acknowledgement.
    if batch.groups or marks != before:
        inbox.save(marks, changes, new, last=True)
    return None


def end_stream(inbox: Inbox, end: Position) -> Refuse | None:
    """Mark the end of the stream at *end*; return the refusal, if any."""
    decision = log_rules.decide_end_of_stream(inbox.marks, end)
    match decision:
        case Refuse():
            return decision
        case log_rules.EndHere(marks):
            inbox.save(marks)
    return None


def _packed(
    parts: Sequence[pb.TickGroup], groups: Sequence[FrameTick], steps: Sequence[Advance], limit: int
) -> NewBlocks:
    """Return the blocks with new rows, as they came; rows that are known already are left out by their numbers."""
    new = NewBlocks([], [], [], [], [], [])
    for part, group, step in zip(parts, groups, steps, strict=True):
        fresh = group.rows - step.skip
        if fresh > 0:
            check_packed(part.block, limit)
            new.end_seq.append(group.after_seq + group.rows)
            new.row_count.append(fresh)
            new.start_seq.append(group.after_seq)
            new.tick_seq.append(group.start_seq)
            new.size.append(stored_size(part.block.plain_size * fresh // group.rows, fresh))
            new.block.append(part.block.SerializeToString())
    return new
