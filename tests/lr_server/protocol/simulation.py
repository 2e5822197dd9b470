"""One session between two sites in memory: the machine, its edge, and an unreliable network."""

from collections import deque
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import assert_never

from lr_server.protocol import effects as do
from lr_server.protocol import events as happened
from lr_server.protocol.events import Event
from lr_server.protocol.histories import StagedSnapshot
from lr_server.protocol.machine import advance
from lr_server.protocol.negotiation import InitialSync, Resume, decide
from lr_server.protocol.states import BackingOff, Failed, Idle, LogEntrySync, SnapshotAwaiting, State
from lr_server.protocol.window import Window
from queues.positions import Position
from tests.lr_server.protocol.model import Ack, Batch, Begin, Chunk, End, Frame, Sink, Source, chunks


@dataclass
class LogCursor:
    position: Position
    read_after: int


@dataclass
class SnapshotCursor:
    sync_id: str
    frames: deque[Frame]
    row: int


@dataclass
class Simulation:
    """Source, sink, and the session between them, without randomness: the test draws each step."""

    initial_sync: InitialSync = "snapshot"
    source: Source = field(default_factory=Source)
    sink: Sink = field(default_factory=Sink)
    state: State = field(default_factory=Idle)
    network_up: bool = True
    wire: deque[tuple[int, Frame]] = field(default_factory=deque)
    acks: deque[Ack] = field(default_factory=deque)
    events: deque[Event] = field(default_factory=deque)
    sending: LogCursor | SnapshotCursor | None = None
    stream: int = 0
    retry_asked: bool = False
    answer: Event | None = None
    staged: StagedSnapshot | None = None
    ignored: list[str] = field(default_factory=list)
    numbers: "count[int]" = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.window = self._new_window()

    @staticmethod
    def _new_window() -> Window:
        return Window(max_frames=3, max_bytes=6)

    # --- the session's loop -----------------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        self.events.append(event)

    def pump(self, *, answered: bool = True) -> None:
        """Take every event and carry out its effects; the sink's answer, if any, only when *answered*."""
        for _ in range(200):
            if not self.events and answered and self.answer is not None:
                self.events.append(self.answer)
                self.answer = None
            if not self.events:
                return
            for effect in self.step(self.events.popleft()):
                self._carry_out(effect)
        raise AssertionError(f"the session is busy with itself: {self.state}")

    def step(self, event: Event) -> tuple[do.Effect, ...]:
        """Let the machine take *event*; return its effects."""
        self.state, effects = advance(self.state, event)
        return effects

    def _carry_out(self, effect: do.Effect) -> None:
        match effect:
            case do.Negotiate():
                self._negotiate()
            case do.RollBack(to=to):
                refusal = self.sink.roll_back(to)
                received = self.sink.received
                self.post(happened.RolledBack(received) if refusal is None else happened.Refused(refusal, "no"))
            case do.RequestSnapshot(reason=reason):
                self.request(reason)
            case do.WatchSnapshot(sync_id=sync_id):
                self._tell_snapshot(sync_id)
            case do.TransferSnapshot(sync_id=sync_id):
                self._transfer(sync_id)
            case do.MarkSnapshotApplied(sync_id=sync_id):
                snapshot = self.source.find(sync_id)
                if snapshot is not None and snapshot.state == "ready":
                    snapshot.state = "applied"
            case do.DiscardSnapshot():
                self.source.request(f"s{next(self.numbers)}")
            case do.StreamLog(position=position, read_after=read_after):
                self.sending, self.window = LogCursor(position, read_after), self._new_window()
            case do.EndStream() | do.MarkFinished():
                raise AssertionError("no link ends here")
            case do.StopSending():
                self.sending = None
            case do.Disconnect() | do.Leave():
                self.wire.clear()
                self.acks.clear()
                self.answer = None
                self.sending, self.window = None, self._new_window()
            case do.RetryAfter():
                self.retry_asked = True
            case do.Ignored(why=why):
                self.ignored.append(why)
            case do.Report():
                pass
            case _:
                assert_never(effect)

    def _negotiate(self) -> None:
        self.answer = None
        self.wire.clear()
        self.acks.clear()
        self.sending, self.window = None, self._new_window()
        if not self.network_up:
            self.post(happened.PeerLost("unreachable"))
            return
        self.stream = self.sink.stream = next(self.numbers)
        sink = self.sink.history()
        self.staged = sink.staged
        decision = decide(self.source.history(sink), sink, initial_sync=self.initial_sync)
        if isinstance(decision, Resume):
            assert decision.position == sink.received
            if sink.is_empty:
                kept = [row for tick in self.source.ticks if tick.key.seq > decision.read_after for row in tick.rows]
                gone = len(self.source.rows) - len(kept) - len(self.source.unticked)
                self.sink.skipped = sum(row.owed for row in self.source.rows[:gone])
                assert self.initial_sync == "log" or not self.sink.skipped
        self.answer = happened.Negotiated(decision)

    # --- snapshots at the source ------------------------------------------------------------------------------

    def request(self, reason: str) -> None:
        sync_id = f"s{next(self.numbers)}"
        self.source.request(sync_id)
        self.post(happened.SnapshotRequested(sync_id, reason))

    def build(self) -> None:
        newest = self.source.newest_request
        if newest is not None and newest.state == "requested":
            self.source.build(newest)
            self._tell_snapshot(newest.sync_id)

    def fail_to_build(self) -> None:
        newest = self.source.newest_request
        if newest is not None and newest.state == "requested":
            self.post(happened.SnapshotAttemptFailed(newest.sync_id, "no luck"))

    def cancel(self) -> None:
        newest = self.source.newest_request
        if newest is not None and newest.state in ("requested", "ready"):
            newest.state = "cancelled"
            self.post(happened.SnapshotCancelled(newest.sync_id))

    def _tell_snapshot(self, sync_id: str) -> None:
        match self.source.status(sync_id):
            case "requested":
                pass
            case "ready":
                self.post(happened.SnapshotReady(sync_id))
            case _:
                self.post(happened.SnapshotCancelled(sync_id))

    def _transfer(self, sync_id: str) -> None:
        snapshot = self.source.find(sync_id)
        if snapshot is None or self.source.status(sync_id) != "ready":
            self.post(happened.SnapshotCancelled(sync_id))
            return
        after_row = self.staged.rows if self.staged is not None and self.staged.sync_id == sync_id else 0
        assert self.sink.staging_id != sync_id or after_row == len(self.sink.staged), "rows are sent again"
        self.sending = SnapshotCursor(sync_id, deque(chunks(snapshot, after_row, 2)), after_row)
        self.window = self._new_window()

    # --- sending ----------------------------------------------------------------------------------------------

    def send(self) -> bool:
        """Send one frame, if one is due and the window has room; return whether one was sent."""
        if self.window.full:
            return False
        match self.sending:
            case LogCursor():
                return self._send_log(self.sending)
            case SnapshotCursor(frames=frames) if frames:
                self._send_snapshot(self.sending, frames.popleft())
                return True
        return False

    def _send_log(self, cursor: LogCursor) -> bool:
        if max(cursor.position.seq, cursor.read_after) < self.source.trimmed_seq:
            self.post(happened.Trimmed(cursor.position.seq, self.source.trimmed_seq))
            return True
        batch = self.source.after(cursor.position, cursor.read_after, limit=2)
        if batch is None:
            return False
        cut = "" if batch.cut_passed else cursor.position.cut
        cursor.position = Position(batch.tick.branch, batch.end, cut)
        self.window.add(batch.end, len(batch.values))
        self.wire.append((self.stream, batch))
        return True

    def _send_snapshot(self, cursor: SnapshotCursor, frame: Frame) -> None:
        if isinstance(frame, Chunk):
            cursor.row += len(frame.values)
        if isinstance(frame, End):
            self.post(happened.SnapshotSent(cursor.sync_id))
        self.window.add(cursor.row, 1)
        self.wire.append((self.stream, frame))

    # --- the network ------------------------------------------------------------------------------------------

    def deliver(self, *, twice: bool = False) -> bool:
        """Let the sink take the next frame; *twice*, the frame comes a second time."""
        if not self.wire:
            return False
        stream, frame = self.wire.popleft()
        for _ in range(2 if twice else 1):
            ack = self.sink.take(frame)
            assert stream == self.sink.stream
            self.acks.append(ack)
            if ack.refusal is not None:
                self.wire.clear()
                break
        return True

    def receive(self) -> bool:
        """Let the session take the next acknowledgement."""
        if not self.acks:
            return False
        ack = self.acks.popleft()
        if ack.refusal is not None:
            self.post(happened.Refused(ack.refusal, "refused"))
            return True
        match ack.frame:
            case Batch():
                self.window.ack(ack.received.seq)
                self.post(happened.BatchAcked(ack.received))
            case Begin(sync_id=sync_id) | Chunk(sync_id=sync_id) | End(sync_id=sync_id):
                self._snapshot_ack(ack, sync_id)
        return True

    def _snapshot_ack(self, ack: Ack, sync_id: str) -> None:
        if ack.sync_id == sync_id:
            snapshot = self.source.find(sync_id)
            base = ack.received if snapshot is None else snapshot.base
            self.post(happened.SnapshotApplied(sync_id, base))
        elif ack.staged is not None and ack.staged.sync_id == sync_id:
            self.window.ack(ack.staged.rows)
            self.post(happened.ChunkAcked(sync_id, ack.staged.rows))

    def cut(self, delivered: int) -> None:
        """Break the connection: the sink takes *delivered* more frames, and their acknowledgements are lost."""
        for _ in range(min(delivered, len(self.wire))):
            self.deliver()
        self.wire.clear()
        self.acks.clear()
        self.post(happened.PeerLost("cut"))

    def change(self, delivered: int) -> None:
        """Ask for another connection; the sink takes *delivered* more frames of this one."""
        for _ in range(min(delivered, len(self.wire))):
            self.deliver()
        self.post(happened.ChangeWanted())

    def crash(self, delivered: int) -> None:
        """Kill the source's server and start another one."""
        self.cut(delivered)
        self.events.clear()
        self.state, self.sending, self.retry_asked, self.answer = Idle(), None, False, None
        self.window = self._new_window()
        self.post(happened.Started())

    def restore_source(self, backup: Source, *, branch: str | None) -> None:
        """Put the source back to *backup*; with *branch*, the source notices and begins a new history."""
        self.crash(delivered=0)
        self.source = deepcopy(backup)
        if branch is not None:
            self.source.branches.append(type(backup.branches[0])(branch, self.source.newest_seq))

    def restore_sink(self, backup: Sink) -> None:
        """Put the sink back to *backup*, which ends its connections."""
        self.cut(delivered=0)
        stream = self.sink.stream
        self.sink = deepcopy(backup)
        self.sink.stream = stream

    # --- the end ----------------------------------------------------------------------------------------------

    def retry(self) -> None:
        if self.retry_asked:
            self.retry_asked = False
            self.post(happened.RetryDue())

    def settle(self, steps: int = 2_000) -> None:
        """Work without faults until the session is idle; raise after *steps* steps."""
        self.network_up = True
        self.source.tick(next(self.numbers))
        for _ in range(steps):
            self.pump()
            if isinstance(self.state, BackingOff | Failed):
                self.retry()
            elif isinstance(self.state, SnapshotAwaiting):
                self.build()
            moved = (self.send(), self.deliver(), self.receive())
            self.sink.consume(3)
            if not any(moved) and not self.events and self.answer is None and self._is_done():
                return
        raise AssertionError(f"no end: {self.state}, sink {self.sink}, source {self.source}")

    def settle_snapshot(self, steps: int = 200) -> None:
        """Work until the snapshot in progress is published; send no entry of the log."""
        for _ in range(steps):
            self.pump()
            if isinstance(self.state, LogEntrySync):
                self.sink.consume(0)
                return
            self.build()
            self.send()
            self.deliver()
            self.receive()
        raise AssertionError(f"no end: {self.state}")

    def _is_done(self) -> bool:
        log = self.sending
        caught_up = isinstance(log, LogCursor) and max(log.position.seq, log.read_after) == self.source.newest_seq
        consumed = not self.sink.queue and self.sink.pending is None
        newest = self.source.newest_request
        honoured = newest is None or newest.state in ("applied", "cancelled")
        return isinstance(self.state, LogEntrySync) and caught_up and consumed and honoured
