"""Frames of snapshot sync: rows are staged, and published together at the end."""

from collections.abc import Iterable
from dataclasses import replace

from queues.blocks import SnapshotColumns, decode_snapshot, encode_snapshot
from queues.database import dialects
from queues.receive import entries as receive_entries
from queues.receive import snapshot_blocks
from queues.receive.marks import ReceiveState, with_rows
from queues.wire import replication_pb2 as pb
from sink.inbox import Inbox
from sink.protocol import snapshot_rules
from sink.protocol.frame_size import extent, refuse_large
from sink.protocol.log_rules import Refuse
from sink.wire import claim_of, header_of


def begin(inbox: Inbox, sync_id: str) -> Refuse | None:
    """Stage the snapshot *sync_id* from now on; return the refusal, if any."""
    decision = snapshot_rules.decide_begin(inbox.marks, sync_id)
    match decision:
        case Refuse():
            return decision
        case snapshot_rules.Stage(marks):
            _restage(inbox, marks)
    return None


def take_chunk(inbox: Inbox, chunk: pb.SnapshotChunk, limit: int) -> Refuse | None:
    """Stage the rows of *chunk* that are new; return the refusal, if any."""
    told = extent(chunk.blocks)
    refuse = refuse_large(told, limit)
    if refuse is not None:
        return refuse
    decision = snapshot_rules.decide_chunk(inbox.marks, chunk.sync_id, chunk.first_row, told.rows)
    match decision:
        case Refuse():
            return decision
        case snapshot_rules.TakeRows(skip):
            _stage(inbox, chunk.blocks, skip, limit)
    return None


def end(inbox: Inbox, end: pb.SnapshotEnd) -> Refuse | None:
    """Publish the staged snapshot in place of the queue's content; return the refusal, if any."""
    decision = snapshot_rules.decide_end(inbox.marks, claim_of(end))
    match decision:
        case Refuse():
            return decision
        case snapshot_rules.StartAgain(marks, refuse):
            _restage(inbox, marks)
            return refuse
        case snapshot_rules.Publish(marks):
            _publish(inbox, marks, end)
    return None


def _stage(inbox: Inbox, blocks: Iterable[pb.Block], skip: int, limit: int) -> None:
    there = inbox.marks.staging
    fresh, progress = [], there
    for block in blocks:
        rows = decode_snapshot(block, limit)
        if skip < block.rows:
            left = SnapshotColumns(rows.payloads[skip:], rows.item_keys[skip:])
            fresh.append(encode_snapshot(left) if skip else block)
            progress = with_rows(progress, *left)
        skip = max(skip - block.rows, 0)
    # The source keeps all rows, and asks for the staged ones after a crash. The publication is durable, and so is
    # everything before it.
    dialects.of(inbox.connection).hasten_commit(inbox.connection)
    snapshot_blocks.stage(inbox.connection, inbox.queue_id(), there.sync_id, there.rows, fresh)
    inbox.save(replace(inbox.marks, staging=progress))


def _publish(inbox: Inbox, marks: ReceiveState, end: pb.SnapshotEnd) -> None:
    queue_id = inbox.queue_id()
    receive_entries.clear_log(inbox.connection, queue_id)
    snapshot_blocks.drop_staged(inbox.connection, queue_id, keep=marks.sync_id)
    header = inbox.adding([header_of(end.header)]) if end.HasField("header") else ()
    # The subscriber has not begun this snapshot yet, and the log in the queue is empty.
    _, applied_bytes = inbox.applied()
    inbox.save(replace(marks, bytes_total=applied_bytes), header, applied_seq=0)


def _restage(inbox: Inbox, marks: ReceiveState) -> None:
    snapshot_blocks.drop_staged(inbox.connection, inbox.queue_id(), keep=marks.sync_id)
    inbox.save(marks)
