"""One receive queue in one transaction; carries out the decisions of `sink.protocol` about a frame."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from queues.block_limits import Extent, too_many
from queues.blocks import SnapshotColumns, check_packed, decode_snapshot, encode_snapshot
from queues.database import dialects
from queues.database.dialect import Statement
from queues.names import ClientName, SiteId
from queues.positions import Header, Position
from queues.receive import entries as receive_entries
from queues.receive import replays, snapshot_blocks, told_members, writer_marks
from queues.receive.entries import NO_BLOCKS
from queues.receive.log_blocks import NewBlocks
from queues.receive.marks import ReceiveState, stored_size, with_rows
from queues.receive.optimistic_marks import ExpectedMarks
from queues.receive.replays import ReplayState
from queues.receive.writer_marks import LockedMarks, LockedProgress, Stored
from queues.wire import replication_pb2 as pb
from sink.protocol import log_rules, replay_rules, snapshot_rules
from sink.protocol.log_rules import Advance, FrameTick, Refuse
from sink.protocol.replay_rules import QueueFacts
from sink.protocol.room import counted_from, refuse_full, room_left
from sink.wire import (
    ReplayWord,
    active_of,
    claim_of,
    group_of,
    header_of,
    position_of,
    to_header,
    to_position,
    to_replay,
)

#: The most headers in one answer to a negotiation.
ANSWERED_HEADERS = 256


@dataclass(slots=True)
class Inbox:
    """A receive queue in one transaction; the queue is registered when its first state is stored.

    `marks` equal those of `kept`. If `kept` is None, the queue is not registered and its marks are only in memory. An
    inbox with expected marks serves a single batch. `receive_bytes` limits the unapplied log entries; 0 for no limit.
    """

    connection: Connection
    client: ClientName
    source: SiteId
    now_us: int
    marks: ReceiveState
    kept: LockedMarks | ExpectedMarks | None
    receive_bytes: int = 0

    def hear(self, frame: pb.Frame) -> None:
        """Store the word of *frame* about the member that serves, if there is one."""
        if frame.HasField("active"):
            told = active_of(frame.active)
            told_members.note(self.connection, self.client, self.source, **told._asdict())

    def take(self, frame: pb.Frame, limit: int) -> Refuse | None:
        """Store the new rows of *frame*, at most *limit* bytes of them; return the refusal, if any.

        Raises `CorruptFrameError` for rows that cannot be unpacked; the transaction must then be rolled back.
        """
        match frame.WhichOneof("kind"):
            case "batch":
                return self._batch(frame.batch, limit)
            case "snapshot_begin":
                return self._begin(frame.snapshot_begin.sync_id)
            case "snapshot_chunk":
                return self._chunk(frame.snapshot_chunk, limit)
            case "snapshot_end":
                return self._end(frame.snapshot_end)
            case "end_of_stream":
                return self._end_stream(position_of(frame.end_of_stream.end))
            case _:
                return Refuse(pb.Refusal.PROTOCOL, "the frame is of a kind that this sink does not know")

    def ack(self) -> pb.Ack:
        """Return the acknowledgement that is true once the transaction is committed."""
        return pb.Ack(
            received=to_position(self.marks.received),
            applied_seq=self.applied_seq,
            staging=self._progress(),
            sync_id=self.marks.sync_id,
            room=room_left(self.receive_bytes, self.marks, *self._applied),
            ended=self.kept is not None and self.marks.has_ended,
        )

    def answer(self, site: SiteId, protocol: int) -> pb.NegotiateResponse:
        """Return the facts from which a source decides how the session continues."""
        received, stored = self.marks.received, self.stored()
        headers: Sequence[Header] = []
        if stored is not None:
            headers = receive_entries.newest_headers(self.connection, stored.queue_id, ANSWERED_HEADERS)
        return pb.NegotiateResponse(
            protocol=protocol,
            site=site,
            received=to_position(received),
            boundary=to_position(received._replace(seq=self.marks.boundary_seq)),
            applied_seq=self.applied_seq,
            undoes=stored is not None and stored.undoes,
            headers=map(to_header, headers),
            staging=self._progress(),
            sync_id=self.marks.sync_id,
            room=room_left(self.receive_bytes, self.marks, *self._applied),
            stream=self.version,
            takes_end=True,
            active_generation=told_members.newest_generation(self.connection, self.client, self.source),
            replay=self._ordered_replay(),
        )

    def _ordered_replay(self) -> pb.ReplayOrder | None:
        stored = self.stored()
        order = None if stored is None else replays.waiting(self.connection, stored.queue_id)
        return None if order is None else to_replay(order)

    @property
    def applied_seq(self) -> int:
        """The subscriber's progress."""
        return self._applied[0]

    @property
    def _applied(self) -> tuple[int, int]:
        stored = self.stored()
        return (0, 0) if stored is None else (stored.applied_seq, stored.applied_bytes)

    def stored(self) -> Stored | None:
        """Return the queue as stored once the transaction is committed; None if the queue is not registered."""
        return None if self.kept is None else self.kept.stored

    @property
    def version(self) -> int:
        """The number of changes of the stored marks; 0 if the queue is not registered."""
        stored = self.stored()
        return 0 if stored is None else stored.version

    def fence(self, generation: int) -> None:
        """Refuse lower generations than *generation*, without storing it."""
        self.marks = replace(self.marks, generation=max(generation, self.marks.generation))

    def begin_stream(self, generation: int) -> None:
        """Change the version of the marks, so that all earlier streams are refused from now on, and fence *generation*.

        An unregistered queue has no marks to change: its registration refuses every other stream.
        """
        self.fence(generation)
        if self.kept is not None:
            self._save(self.marks)

    def roll_back(self, target: Position) -> Refuse | None:
        """Delete all rows after the header at *target* and have applied ones undone; return the refusal, if any."""
        known, progress = False, LockedProgress()
        if self.kept is not None:
            queue_id = self.kept.stored.queue_id
            known = receive_entries.keeps_header(self.connection, queue_id, target)
            progress = writer_marks.lock_consumer(self.connection, queue_id, self.marks.sync_id)
        reached_seq, applied_seq = progress.reached_seq, progress.applied_seq
        decision = log_rules.decide_rollback(self.marks, target, reached_seq, known=known, undoes=progress.undoes)
        match decision:
            case Refuse():
                return decision
            case log_rules.RollbackTo(marks):
                queue_id = self._queue_id()
                freed = receive_entries.forget_after(self.connection, queue_id, marks.received.seq, applied_seq)
                marks = replace(marks, bytes_total=marks.bytes_total - freed)
                if marks.received.seq < reached_seq:
                    writer_marks.require_rollback(self.connection, queue_id, marks.received.seq)
                self._save(marks, applied_seq=min(applied_seq, marks.received.seq))
        return None

    def replay(self, answer: ReplayWord) -> None:
        """Carry out the order that a source has granted, or end the one that it has refused.

        An order that does not wait any more, or that another one has replaced, changes nothing.
        """
        order = None if self.kept is None else replays.waiting(self.connection, self.kept.stored.queue_id)
        if order is None or order.order_id != answer.order_id:
            return
        before = self.marks.received.seq
        refusal = answer.refusal or self._go_back(answer.after, undo=order.wish.undo)
        if refusal:
            replays.end(self.connection, order, ReplayState.REFUSED, refusal)
            return
        first, undone = answer.after.seq + 1, "" if order.wish.undo else ", without on_rollback"
        words = f"entries from {first:,} to {before:,} come again{undone}"
        replays.end(self.connection, order, ReplayState.BEGUN, words)

    def _go_back(self, after: Header, *, undo: bool) -> str:
        """Forget all entries after the tick *after*, also applied ones; return the reason if that is not allowed."""
        queue_id = self._queue_id()
        progress = writer_marks.lock_consumer(self.connection, queue_id, self.marks.sync_id)
        marks = replays.read_marks(self.connection, self.client, self.source)
        if marks is None or after.seq > self.marks.boundary_seq:
            return f"no tick that ends at {after.seq:,} was received"
        refusal = replay_rules.refuse_replay(QueueFacts(*marks[1:]), after.seq, undo=undo)
        if refusal:
            return refusal
        gone = replay_rules.gone_back(self.marks, Position(after.branch, after.seq))
        freed = receive_entries.forget_after(self.connection, queue_id, after.seq, progress.applied_seq)
        replays.keep_header(self.connection, queue_id, after)
        if undo:
            writer_marks.require_rollback(self.connection, queue_id, after.seq)
        else:
            replays.set_back(self.connection, queue_id, after.branch, after.seq)
        self._save(replace(gone, bytes_total=gone.bytes_total - freed), applied_seq=after.seq)
        return ""

    def _batch(self, batch: pb.Batch, limit: int) -> Refuse | None:
        if self.kept is None and not batch.groups:
            return None
        refuse = _beyond(extent(group.block for group in batch.groups), limit)
        if refuse is not None:
            return refuse
        groups = [group_of(group) for group in batch.groups]
        start = position_of(batch.start)
        decision = log_rules.decide_batch(self.marks, start, groups, cut_passed=batch.cut_passed)
        if isinstance(decision, Refuse):
            return decision
        before, after = self.marks, decision.marks
        if after.entries_total > before.entries_total and (
            full := refuse_full(self.receive_bytes, before, *self._applied)
        ):
            return full
        new = _packed(batch.groups, groups, decision.steps, limit)
        # The header of an open tick is stored too: it tells the source to which tick the rows belong.
        begun = [header_of(g.header) for g, step in zip(batch.groups, decision.steps, strict=True) if step.begins]
        changes = [*self._adding(begun)]
        if before.received.cut and not after.received.cut:
            # A rollback behind the cut would need the cut again.
            changes.append(receive_entries.forgetting_headers_before(self._queue_id(), after.boundary_seq))
        marks = replace(
            after,
            source_seq=max(before.source_seq, batch.source_seq),
            source_us=max(before.source_us, batch.source_us),
            bytes_total=counted_from(before, *self._applied) + sum(new.size),
        )
        # A frame without ticks only asks for an acknowledgement.
        if batch.groups or marks != before:
            self._save(marks, changes, new, last=True)
        return None

    def _end_stream(self, end: Position) -> Refuse | None:
        decision = log_rules.decide_end_of_stream(self.marks, end)
        match decision:
            case Refuse():
                return decision
            case log_rules.EndHere(marks):
                self._save(marks)
        return None

    def _begin(self, sync_id: str) -> Refuse | None:
        decision = snapshot_rules.decide_begin(self.marks, sync_id)
        match decision:
            case Refuse():
                return decision
            case snapshot_rules.Stage(marks):
                self._restage(marks)
        return None

    def _chunk(self, chunk: pb.SnapshotChunk, limit: int) -> Refuse | None:
        told = extent(chunk.blocks)
        refuse = _beyond(told, limit)
        if refuse is not None:
            return refuse
        decision = snapshot_rules.decide_chunk(self.marks, chunk.sync_id, chunk.first_row, told.rows)
        match decision:
            case Refuse():
                return decision
            case snapshot_rules.TakeRows(skip):
                self._stage(chunk.blocks, skip, limit)
        return None

    def _stage(self, blocks: Iterable[pb.Block], skip: int, limit: int) -> None:
        there = self.marks.staging
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
        dialects.of(self.connection).hasten_commit(self.connection)
        snapshot_blocks.stage(self.connection, self._queue_id(), there.sync_id, there.rows, fresh)
        self._save(replace(self.marks, staging=progress))

    def _end(self, end: pb.SnapshotEnd) -> Refuse | None:
        decision = snapshot_rules.decide_end(self.marks, claim_of(end))
        match decision:
            case Refuse():
                return decision
            case snapshot_rules.StartAgain(marks, refuse):
                self._restage(marks)
                return refuse
            case snapshot_rules.Publish(marks):
                self._publish(marks, end)
        return None

    def _publish(self, marks: ReceiveState, end: pb.SnapshotEnd) -> None:
        queue_id = self._queue_id()
        receive_entries.clear_log(self.connection, queue_id)
        snapshot_blocks.drop_staged(self.connection, queue_id, keep={marks.sync_id})
        header = self._adding([header_of(end.header)]) if end.HasField("header") else ()
        # The subscriber has not begun this snapshot yet, and the log in the queue is empty.
        self._save(replace(marks, bytes_total=self._applied[1]), header, applied_seq=0)

    def _restage(self, marks: ReceiveState) -> None:
        snapshot_blocks.drop_staged(self.connection, self._queue_id(), keep={marks.sync_id})
        self._save(marks)

    def _queue_id(self) -> int:
        return self._registered().stored.queue_id

    def _registered(self) -> LockedMarks | ExpectedMarks:
        if self.kept is None:
            queue_id = writer_marks.register(self.connection, self.client, self.source, self.now_us)
            self.kept = LockedMarks(Stored(queue_id, 0, self.marks, 0, undoes=False))
        return self.kept

    def _adding(self, headers: Sequence[Header]) -> Sequence[Statement]:
        queue = self._registered().stored
        return receive_entries.add_headers(self.connection, queue.queue_id, headers, version=queue.version)

    def _save(
        self,
        marks: ReceiveState,
        changes: Sequence[Statement] = (),
        new: NewBlocks = NO_BLOCKS,
        *,
        last: bool = False,
        applied_seq: int | None = None,
    ) -> None:
        saved = self._registered().save(self.connection, marks, self.now_us, new=new, changes=changes, last=last)
        if applied_seq is not None:
            saved = replace(saved, stored=saved.stored._replace(applied_seq=applied_seq))
        self.kept, self.marks = saved, marks

    def _progress(self) -> pb.SnapshotProgress:
        return pb.SnapshotProgress(sync_id=self.marks.staging.sync_id, rows=self.marks.staging.rows)


def open_inbox(
    connection: Connection,
    client: ClientName,
    source: SiteId,
    writer: int,
    now_us: int,
    *,
    receive_bytes: int = 0,
) -> Inbox:
    """Read and lock the marks of a receive queue; see `writer_marks.find`."""
    stored = writer_marks.find(connection, client, source, writer)
    if stored is None:
        return Inbox(connection, client, source, now_us, ReceiveState(), None, receive_bytes)
    return Inbox(connection, client, source, now_us, stored.marks, LockedMarks(stored), receive_bytes)


def expect_inbox(
    connection: Connection,
    client: ClientName,
    source: SiteId,
    expected: ExpectedMarks,
    now_us: int,
    *,
    receive_bytes: int = 0,
) -> Inbox:
    """Open a receive queue with *expected* marks, for one batch; see `optimistic_marks`."""
    return Inbox(connection, client, source, now_us, expected.stored.marks, expected, receive_bytes)


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


def extent(blocks: Iterable[pb.Block]) -> Extent:
    """Return the declared content of the blocks of one frame."""
    groups = rows = size = 0
    for block in blocks:
        groups += 1
        rows += block.rows
        size += block.plain_size
    return Extent(groups, rows, size)


def _beyond(told: Extent, limit: int) -> Refuse | None:
    if told.bytes > limit:
        return Refuse(
            pb.Refusal.TOO_LARGE,
            f"the frame holds {told.bytes} bytes of rows, this sink takes {limit}: raise max_message_bytes there",
        )
    reason = too_many(told)
    return Refuse(pb.Refusal.TOO_LARGE, reason) if reason else None
