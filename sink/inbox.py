"""One receive queue under one transaction: carries out what the inbox rule decides about a frame."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from queues import dialects
from queues.blocks import EntryColumns, SnapshotColumns, decode_entries, decode_snapshot, encode_snapshot
from queues.dialects.statements import Statement
from queues.leases import Lease
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.receive import contents, receiving, snapshot
from queues.receive.contents import ReceivedColumns
from queues.receive.marks import Marks, with_rows
from queues.receive.moving import moving as moving_marks
from queues.receive.receiving import Stored
from queues.wire import replication_pb2 as pb
from sink import machine, staging
from sink.machine import Group, Refuse, Step
from sink.wire import claim_of, group_of, header_of, position_of, to_header, to_position

#: Most headers in one answer to a negotiation.
ANSWERED_HEADERS = 256


@dataclass(slots=True)
class Inbox:
    """A receive queue whose marks are locked; it is registered when something is first kept for it."""

    connection: Connection
    client: ClientName
    source: SiteId
    now_us: int
    queue_id: int | None
    version: int
    marks: Marks
    applied_seq: int
    undoes: bool = False
    #: What replaces the marks although they are not locked; it fails when they are not the known ones any more.
    moving: Callable[[Marks], Statement] | None = None

    def take(self, frame: pb.Frame, limit: int) -> Refuse | None:
        """Store what is new in *frame*, of at most *limit* bytes of rows; tell why not.

        Raises `CorruptFrameError` for rows that cannot be unpacked: the transaction must be rolled back then.
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
            case _:
                return Refuse(pb.Refusal.PROTOCOL, "the frame is of a kind that this sink does not know")

    def ack(self) -> pb.Ack:
        """Tell where the session stands once the transaction is committed."""
        return pb.Ack(
            received=to_position(self.marks.received),
            applied_seq=self.applied_seq,
            staging=self._progress(),
            sync_id=self.marks.sync_id,
        )

    def answer(self, site: SiteId, protocol: int) -> pb.NegotiateResponse:
        """Tell all that a source needs to decide where the session continues."""
        received = self.marks.received
        queue_id = self.queue_id
        headers = [] if queue_id is None else contents.newest_headers(self.connection, queue_id, ANSWERED_HEADERS)
        return pb.NegotiateResponse(
            protocol=protocol,
            site=site,
            received=to_position(received),
            boundary=to_position(received._replace(seq=self.marks.boundary_seq)),
            applied_seq=self.applied_seq,
            undoes=self.undoes,
            headers=map(to_header, headers),
            staging=self._progress(),
            sync_id=self.marks.sync_id,
        )

    def stored(self) -> Stored | None:
        """Return the queue as it stands once the transaction is committed; None when there is none."""
        if self.queue_id is None:
            return None
        return Stored(self.queue_id, self.version, self.marks, self.applied_seq, self.undoes)

    def fence(self, generation: int) -> None:
        """Refuse lower generations than *generation* from now on."""
        if generation > self.marks.generation:
            self.marks = replace(self.marks, generation=generation)
            if self.queue_id is not None:
                self._save(self.marks)

    def roll_back(self, target: Position) -> Refuse | None:
        """Forget what came after the header at *target*, and have undone what is applied of it; tell why not."""
        known, applied_seq, undoes = False, 0, False
        if self.queue_id is not None:
            known = contents.keeps_header(self.connection, self.queue_id, target)
            applied_seq, undoes = receiving.lock_consumer(self.connection, self.queue_id, self.marks.sync_id)
        decision = machine.decide_rollback(self.marks, target, applied_seq, known=known, undoes=undoes)
        match decision:
            case Refuse():
                return decision
            case machine.Rollback(marks):
                contents.forget_after(self.connection, self._queue(), marks.received.seq)
                if marks.received.seq < applied_seq:
                    receiving.have_undone(self.connection, self._queue(), marks.received.seq)
                self.applied_seq = min(applied_seq, marks.received.seq)
                self._save(marks)
        return None

    def _batch(self, batch: pb.Batch, limit: int) -> Refuse | None:
        if self.queue_id is None and not batch.groups:
            return None
        size = sum(group.block.plain_size for group in batch.groups)
        if size > limit:
            return _too_large(size, limit)
        groups = [group_of(group) for group in batch.groups]
        start = position_of(getattr(batch, "from"))
        decision = machine.decide_batch(self.marks, start, groups, cut_passed=batch.cut_passed)
        if isinstance(decision, Refuse):
            return decision
        before, after = self.marks, decision.marks
        new = _unpacked(batch.groups, groups, decision.steps, limit)
        queue_id = self._queue()
        # Of an open tick too: its header tells the source whose rows those are.
        begun = [header_of(g.header) for g, step in zip(batch.groups, decision.steps, strict=True) if step.begins]
        source_seq = max(before.source_seq, batch.source_seq)
        marks = replace(after, source_seq=source_seq, source_us=max(before.source_us, batch.source_us))
        then = [*contents.add_headers(self.connection, queue_id, begun, version=self.version)]
        if before.received.cut and not after.received.cut:
            # Going back behind the cut would need it again.
            then.append(contents.forgetting_headers_before(queue_id, after.boundary_seq))
        saving = self._saving(marks)
        if self.moving is None:
            contents.append(self.connection, queue_id, new, then=[*then, saving])
        else:
            (((self.applied_seq, *_),),) = contents.append(self.connection, queue_id, new, first=[saving], then=then)
        return None

    def _begin(self, sync_id: str) -> Refuse | None:
        decision = staging.decide_begin(self.marks, sync_id)
        match decision:
            case Refuse():
                return decision
            case staging.Stage(marks):
                self._restage(marks)
        return None

    def _chunk(self, chunk: pb.SnapshotChunk, limit: int) -> Refuse | None:
        size, rows = sum(block.plain_size for block in chunk.blocks), sum(block.rows for block in chunk.blocks)
        if size > limit:
            return _too_large(size, limit)
        decision = staging.decide_chunk(self.marks, chunk.sync_id, chunk.first_row, rows)
        match decision:
            case Refuse():
                return decision
            case staging.TakeRows(skip):
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
        snapshot.stage(self.connection, self._queue(), there.sync_id, there.rows, fresh)
        self._save(replace(self.marks, staging=progress))

    def _end(self, end: pb.SnapshotEnd) -> Refuse | None:
        decision = staging.decide_end(self.marks, claim_of(end))
        match decision:
            case Refuse():
                return decision
            case staging.StartAgain(marks, refuse):
                self._restage(marks)
                return refuse
            case staging.Publish(marks):
                self._publish(marks, end)
        return None

    def _publish(self, marks: Marks, end: pb.SnapshotEnd) -> None:
        queue_id = self._queue()
        contents.clear_log(self.connection, queue_id)
        snapshot.drop_staged(self.connection, queue_id, keep={marks.sync_id})
        then: Sequence[Statement] = ()
        if end.HasField("header"):
            then = contents.add_headers(self.connection, queue_id, [header_of(end.header)], version=self.version)
        # The subscriber has yet to begin with it.
        self.applied_seq = 0
        self._save(marks, then)

    def _restage(self, marks: Marks) -> None:
        snapshot.drop_staged(self.connection, self._queue(), keep={marks.sync_id})
        self._save(marks)

    def _queue(self) -> int:
        if self.queue_id is None:
            self.queue_id = receiving.register(self.connection, self.client, self.source, self.now_us)
        return self.queue_id

    def _save(self, marks: Marks, before: Sequence[Statement] = ()) -> None:
        dialects.of(self.connection).run_all(self.connection, [*before, self._saving(marks)])

    def _saving(self, marks: Marks) -> Statement:
        if self.moving is None:
            statement = receiving.saving(self._queue(), self.version, marks, self.now_us)
        else:
            statement = self.moving(marks)
        self.version, self.marks = self.version + 1, marks
        return statement

    def _progress(self) -> pb.SnapshotProgress:
        return pb.SnapshotProgress(sync_id=self.marks.staging.sync_id, rows=self.marks.staging.rows)


def open_inbox(connection: Connection, client: ClientName, source: SiteId, lease: Lease | None, now_us: int) -> Inbox:
    """Lock and read what there is of a receive queue; see `receiving.find`."""
    stored = receiving.find(connection, client, source, lease)
    if stored is None:
        return Inbox(connection, client, source, now_us, None, 0, Marks(), 0)
    return Inbox(connection, client, source, now_us, *stored)


def remembered_inbox(
    connection: Connection, client: ClientName, source: SiteId, known: Stored, lease: Lease | None, now_us: int
) -> Inbox:
    """Open a receive queue that is believed to stand as *known*, to take one batch: see `queues.receive.moving`."""

    def moving(marks: Marks) -> Statement:
        return moving_marks(known, marks, now_us, lease)

    return Inbox(connection, client, source, now_us, *known, moving=moving)


def _unpacked(
    parts: Sequence[pb.TickGroup], groups: Sequence[Group], steps: Sequence[Step], limit: int
) -> ReceivedColumns:
    new = ReceivedColumns([], [], [], [], [])
    for part, group, step in zip(parts, groups, steps, strict=True):
        if step.skip < group.rows:
            _add(new, group, decode_entries(part.block, limit), step.skip)
    return new


def _add(new: ReceivedColumns, group: Group, entries: EntryColumns, skip: int) -> None:
    """Add the *entries* of *group* but for the first *skip*."""
    first_seq = group.start_seq + 1
    new.seq.extend(range(group.after_seq + 1 + skip, group.after_seq + 1 + len(entries.payloads)))
    new.transaction_seq.extend([first_seq + index for index in entries.transaction_indexes[skip:]])
    new.committed_us.extend(entries.committed_us[skip:])
    new.item_key.extend(entries.item_keys[skip:])
    new.payload.extend(entries.payloads[skip:])


def _too_large(size: int, limit: int) -> Refuse:
    return Refuse(
        pb.Refusal.TOO_LARGE,
        f"the frame holds {size} bytes of rows, this sink takes {limit}: raise max_message_bytes there",
    )
