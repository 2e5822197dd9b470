"""A source and a sink in memory: the contents of two sites' databases for one session.

The model decides without the product's code, but for `Visibility` and the types.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from lr_server.protocol.events import RefusalKind
from lr_server.protocol.histories import Branch, OfferedSnapshot, SinkHistory, SourceHistory, StagedSnapshot, TickKey
from queues.positions import ORIGIN, Position, Visibility

# --- frames and answers ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    start: Position
    tick: TickKey
    tick_start: int
    first_index: int
    values: tuple[int, ...]
    complete: bool
    cut_passed: bool

    @property
    def end(self) -> int:
        return self.tick.seq if self.complete else self.tick_start + self.first_index + len(self.values)


@dataclass(frozen=True)
class Begin:
    sync_id: str


@dataclass(frozen=True)
class Chunk:
    sync_id: str
    first_row: int
    values: tuple[int, ...]


@dataclass(frozen=True)
class End:
    sync_id: str
    base: Position
    values: tuple[int, ...]  # stands for the checksum
    header: TickKey | None


Frame = Batch | Begin | Chunk | End


@dataclass(frozen=True)
class Ack:
    frame: Frame
    received: Position
    staged: StagedSnapshot | None
    sync_id: str
    refusal: RefusalKind | None = None


# --- the source -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    id: int
    value: int
    owed: bool


@dataclass(frozen=True)
class Tick:
    key: TickKey
    start: int
    rows: tuple[Row, ...]
    high: int

    def owed(self, cut: str) -> list[int]:
        covered = Visibility.parse(cut).high if cut else 0
        return [row.value for row in self.rows if row.owed and row.id > covered]


@dataclass
class Snapshot:
    sync_id: str
    state: str = "requested"
    base: Position = ORIGIN
    header: TickKey | None = None
    values: tuple[int, ...] = ()


@dataclass
class Source:
    branches: list[Branch] = field(default_factory=lambda: [Branch("b1", 0)])
    rows: list[Row] = field(default_factory=list)
    ticks: list[Tick] = field(default_factory=list)
    trimmed_seq: int = 0
    lost_seq: int = 0
    snapshots: list[Snapshot] = field(default_factory=list)
    keeps_ticks: bool = True

    @property
    def newest_seq(self) -> int:
        return self.ticks[-1].key.seq if self.ticks else 0

    @property
    def owed(self) -> list[int]:
        return [row.value for row in self.rows if row.owed]

    @property
    def unticked(self) -> list[Row]:
        high = self.ticks[-1].high if self.ticks else 0
        return self.rows[high:]

    def commit(self, value: int, *, owed: bool) -> None:
        self.rows.append(Row(len(self.rows) + 1, value, owed))

    def tick(self, uid: int) -> None:
        rows = tuple(self.unticked)
        if rows:
            key = TickKey(self.branches[-1].branch, self.newest_seq + len(rows), uid)
            self.ticks.append(Tick(key, self.newest_seq, rows, rows[-1].id))

    def trim(self, upto: int) -> None:
        for tick in self.ticks:
            if tick.key.seq <= upto:
                self.trimmed_seq = max(self.trimmed_seq, tick.key.seq)
                if tick.owed(""):
                    self.lost_seq = max(self.lost_seq, tick.key.seq)

    @property
    def newest_request(self) -> Snapshot | None:
        return self.snapshots[-1] if self.snapshots else None

    def find(self, sync_id: str) -> Snapshot | None:
        return next((snapshot for snapshot in self.snapshots if snapshot.sync_id == sync_id), None)

    def status(self, sync_id: str) -> str:
        """Return the effective state: a newer request cancels an unfinished older one."""
        snapshot = self.find(sync_id)
        if snapshot is None or (snapshot is not self.newest_request and snapshot.state != "applied"):
            return "cancelled"
        return snapshot.state

    def request(self, sync_id: str) -> Snapshot:
        self.snapshots.append(Snapshot(sync_id))
        return self.snapshots[-1]

    def build(self, snapshot: Snapshot) -> None:
        """Complete the snapshot with the present entries; its cut covers ticks, and rows that no tick holds yet."""
        cut = str(Visibility(high=len(self.rows)))
        snapshot.state = "ready"
        snapshot.base = Position(self.branches[-1].branch, self.newest_seq, cut)
        snapshot.header = self.ticks[-1].key if self.ticks else None
        snapshot.values = tuple(self.owed)

    def history(self, sink: SinkHistory) -> SourceHistory:
        newest = self.newest_request
        offered = None
        if newest is not None and newest.state in ("requested", "ready"):
            offered = OfferedSnapshot(newest.sync_id, newest.state == "ready", newest.base, len(newest.values))
        kept = {tick.key for tick in self.ticks if self.keeps_ticks or tick.key.seq >= self.trimmed_seq}
        return SourceHistory(
            tuple(self.branches),
            self.newest_seq,
            self.trimmed_seq,
            self.lost_seq,
            frozenset(sink.headers) & kept,
            offered,
            is_whole=self.trimmed_seq == 0,
            is_provided=any(snapshot.state in ("ready", "applied") for snapshot in self.snapshots),
        )

    def after(self, position: Position, read_after: int, limit: int) -> Batch | None:
        """Return the batch after *position*, with at most *limit* rows of one tick; skip quiet ticks but the last."""
        seq = max(position.seq, read_after)
        for tick in self.ticks:
            if tick.key.seq <= seq:
                continue
            skip = max(position.seq - tick.start, 0)
            values = tick.owed(position.cut)[skip:]
            if not values and not skip and tick is not self.ticks[-1]:
                continue
            complete = len(values) <= limit
            passed = complete and bool(position.cut) and tick.high >= Visibility.parse(position.cut).high
            part = tuple(values[:limit])
            return Batch(position, tick.key, tick.start, skip, part, complete, passed)
        return None


def chunks(snapshot: Snapshot, after_row: int, limit: int) -> Iterator[Frame]:
    """Yield the frames of a transfer to a sink that has the first *after_row* rows."""
    yield Begin(snapshot.sync_id)
    for row in range(after_row, len(snapshot.values), limit):
        yield Chunk(snapshot.sync_id, row + 1, snapshot.values[row : row + limit])
    yield End(snapshot.sync_id, snapshot.base, snapshot.values, snapshot.header)


# --- the sink -------------------------------------------------------------------------------------------------


@dataclass
class Sink:
    """`view` holds the entries that the application has applied; it began after the `skipped` oldest entries.

    `undoable` holds the sequence numbers of the newest entries of `view`, those from the log.
    """

    tells_open_tick: bool = True
    undoes: bool = False
    is_fenced: bool = False
    stream: int = 0
    received: Position = ORIGIN
    boundary: int = 0
    headers: list[TickKey] = field(default_factory=list)
    open_tick: TickKey | None = None
    staging_id: str = ""
    staged: list[int] = field(default_factory=list)
    sync_id: str = ""
    base_seq: int = 0
    pending: tuple[int, ...] | None = None
    queue: list[tuple[int, int]] = field(default_factory=list)
    consumed_seq: int = 0
    view: list[int] = field(default_factory=list)
    undoable: list[int] = field(default_factory=list)
    skipped: int = 0

    def history(self) -> SinkHistory:
        headers = list(self.headers)
        if self.tells_open_tick and self.open_tick is not None:
            headers.append(self.open_tick)
        staged = StagedSnapshot(self.staging_id, len(self.staged)) if self.staging_id else None
        applied = 0 if self.pending is not None else self.consumed_seq
        return SinkHistory(
            self.received, self.boundary, applied, tuple(reversed(headers)), staged, self.sync_id, self.undoes
        )

    def consume(self, count: int) -> None:
        if self.pending is not None:
            self.view, self.skipped, self.undoable = list(self.pending), 0, []
            self.pending, self.consumed_seq = None, self.base_seq
        due = [entry for entry in self.queue if entry[0] <= self.boundary][:count]
        self.view += [value for _, value in due]
        self.undoable += [seq for seq, _ in due]
        self.queue = self.queue[len(due) :]
        if due:
            self.consumed_seq = due[-1][0]
        if not any(seq <= self.boundary for seq, _ in self.queue):
            self.consumed_seq = self.boundary

    def roll_back(self, to: Position) -> RefusalKind | None:
        is_applied = to.seq < self.history().applied_seq
        if is_applied and not self.undoes:
            return RefusalKind.CONSUMED
        if to.seq != self.boundary and to.seq not in [header.seq for header in self.headers]:
            return RefusalKind.NO_STREAM_BEGIN
        self.received = Position(to.branch, to.seq, self.received.cut)
        self.boundary, self.open_tick = to.seq, None
        self.headers = [header for header in self.headers if header.seq <= to.seq]
        self.queue = [entry for entry in self.queue if entry[0] <= to.seq]
        if is_applied:
            self._undo(to.seq)
        return None

    def _undo(self, seq: int) -> None:
        kept = [number for number in self.undoable if number <= seq]
        self.view = self.view[: len(self.view) - (len(self.undoable) - len(kept))]
        self.undoable, self.consumed_seq = kept, seq

    def take(self, frame: Frame) -> Ack:
        if self.is_fenced:
            return Ack(frame, self.received, None, self.sync_id, RefusalKind.STALE_LEADER)
        match frame:
            case Batch():
                refusal = self._batch(frame)
            case Begin():
                refusal = self._begin(frame)
            case Chunk():
                refusal = self._chunk(frame)
            case End():
                refusal = self._end(frame)
        staged = StagedSnapshot(self.staging_id, len(self.staged)) if self.staging_id else None
        return Ack(frame, self.received, staged, self.sync_id, refusal)

    def _batch(self, batch: Batch) -> RefusalKind | None:
        if batch.start.seq > self.received.seq:
            return RefusalKind.GAP
        if batch.tick.seq <= self.boundary:
            return None
        is_open = self.received.seq > self.boundary
        if batch.tick_start < self.boundary or (is_open and batch.tick_start > self.boundary):
            return RefusalKind.NO_STREAM_BEGIN
        known = self.received.seq - self.boundary if is_open else 0
        if batch.first_index > known:
            return RefusalKind.GAP
        first = batch.tick_start + batch.first_index + 1
        new = [(first + index, value) for index, value in enumerate(batch.values)][known - batch.first_index :]
        self.queue += new
        cut = "" if batch.cut_passed else self.received.cut
        if batch.complete:
            self.boundary, self.open_tick = batch.tick.seq, None
            self.headers = [*(self.headers if cut == self.received.cut else ()), batch.tick]
            self.received = Position(batch.tick.branch, batch.tick.seq, cut)
        else:
            self.boundary, self.open_tick = batch.tick_start, batch.tick
            reached = max(self.received.seq, batch.end)
            self.received = Position(batch.tick.branch, reached, self.received.cut)
        return None

    def _begin(self, begin: Begin) -> RefusalKind | None:
        if begin.sync_id not in (self.sync_id, self.staging_id):
            self.staging_id, self.staged = begin.sync_id, []
        return None

    def _chunk(self, chunk: Chunk) -> RefusalKind | None:
        if chunk.sync_id == self.sync_id:
            return None
        if chunk.sync_id != self.staging_id:
            return RefusalKind.OTHER_SNAPSHOT
        skip = len(self.staged) + 1 - chunk.first_row
        if skip < 0:
            return RefusalKind.GAP
        self.staged += chunk.values[skip:]
        return None

    def _end(self, end: End) -> RefusalKind | None:
        if end.sync_id == self.sync_id:
            return None
        if end.sync_id != self.staging_id:
            return RefusalKind.OTHER_SNAPSHOT
        if tuple(self.staged) != end.values:
            self.staged = []
            return RefusalKind.CORRUPT
        self.received, self.boundary, self.open_tick = end.base, end.base.seq, None
        self.headers = [] if end.header is None else [end.header]
        self.staging_id, self.staged, self.sync_id = "", [], end.sync_id
        self.base_seq, self.pending, self.queue = end.base.seq, end.values, []
        return None
