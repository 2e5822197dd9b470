"""Choose the next step of one shard of a queue."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from lr_client.subscriber import steps
from lr_client.subscriber.steps import DeliveryStep, Forgotten, Kind
from queues.errors import NeedsFullSyncError
from queues.names import ClientName
from queues.receive import shard_marks, stored_shard_maps
from queues.receive.batches import BatchLimits
from queues.receive.block_entries import LogEntries, TransactionPart
from queues.receive.consumer_marks import IN_LOG, NOWHERE, QueueState, queue_state
from queues.receive.kept_blocks import History, KeptBlocks
from queues.receive.log_blocks import FETCH_BYTES
from queues.receive.received_rows import LogRowColumns
from queues.receive.registry import is_registered
from queues.receive.shard_marks import ShardRow, StoredChange
from queues.shard_maps import ShardMap
from queues.shard_plan import FIRST, BatchSize, Change, Scan, ShardsView, active_view, next_batch
from queues.shard_stretches import Candidate

#: A shard looks at most at this number of batches of entries, its own and others', in one step.
_SCANNED_BATCHES = 16
#: The blocks that stay for a repeated step, in bytes of `ReceivedBlock.size`.
_KEPT_BYTES = 4 * FETCH_BYTES
_NO_ROW: Final = ShardRow(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class ShardStep(DeliveryStep):
    """A step of one shard in the log: the shard moves from `row` to the end; `lift` as in `shard_plan.ShardBatch`.

    `has_more`: the step ends at a limit, so the next one may follow at once.
    """

    row: ShardRow = _NO_ROW
    lift: int = NOWHERE
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class ShardedQueue:
    """A queue and its shards, read in one state; `newest` is the version of the client's newest map, or 0."""

    queue_id: int
    stands: QueueState
    rows: list[ShardRow]
    changes: list[StoredChange]
    newest: int
    view: ShardsView | None

    @property
    def settled_seq(self) -> int:
        """The position to which the subscriber's marks may move."""
        low, back_seq = (self.view.lowest if self.view else 0), self.stands.back_seq
        return low if back_seq == NOWHERE else min(low, back_seq)

    @property
    def is_applied(self) -> bool:
        """Whether the shards have applied all that was received; only a change of the sink's marks brings work then."""
        consumed, received = self.stands.consumed, self.stands.received
        return self.is_in_log and consumed.seq == received.boundary_seq and self.stands.back_seq == NOWHERE

    @property
    def is_in_log(self) -> bool:
        """Whether the shards deliver the log now, rather than shard 0 a snapshot."""
        consumed, received = self.stands.consumed, self.stands.received
        return consumed.phase == IN_LOG and consumed.sync_id == received.sync_id


class KnownMaps:
    """The maps of one client that were read already; a version of a map never changes."""

    def __init__(self, client: ClientName) -> None:
        """Know no map yet."""
        self._client = client
        self._maps: dict[int, ShardMap] = {}

    def of(self, connection: Connection, versions: list[int]) -> list[ShardMap]:
        """Return the maps of *versions*, and forget all others."""
        missing = [version for version in versions if version not in self._maps]
        if missing:
            self._maps |= stored_shard_maps.of_versions(connection, self._client, missing)
        self._maps = {version: self._maps[version] for version in versions}
        return list(self._maps.values())


def read_shards(
    connection: Connection, queue_id: int, client: ClientName, maps: KnownMaps, *, newest: bool = False
) -> ShardedQueue | None:
    """Read a queue and its shards, and the *newest* version if asked for; None until both sides have marks.

    Raises `Forgotten`.
    """
    stands = queue_state(connection, queue_id)
    if stands is None:
        if not is_registered(connection, queue_id):
            raise Forgotten
        return None
    rows, changes = shard_marks.rows_of(connection, queue_id), shard_marks.changes_of(connection, queue_id)
    known = maps.of(connection, [change.version for change in changes])
    view = None
    if rows:
        held = [Change(change.after, shard_map) for change, shard_map in zip(changes, known, strict=True)]
        view = active_view(shard_marks.positions(rows), held)
    version = stored_shard_maps.newest_version(connection, client) if newest else 0
    return ShardedQueue(queue_id, stands, rows, changes, version, view)


def next_shard_step(
    connection: Connection,
    queue: ShardedQueue,
    shard: int,
    limits: BatchLimits,
    kept: KeptBlocks,
    *,
    one: bool,
    stretch: int = 0,
) -> DeliveryStep | None:
    """Return the next step of *shard*; None when nothing is left, or other shards must move before.

    For *one* and *stretch* see `next_batch` and `BatchSize`.
    """
    row = next((row for row in queue.rows if row.shard == shard), None)
    if row is None or queue.view is None or (shard != FIRST and not queue.is_in_log):
        return None
    if shard == FIRST and (kind := _kind_of_all(queue)) is not Kind.LOG_ENTRIES:
        kept.forget()
        return steps.step_of(kind, connection, queue.queue_id, limits, queue.stands, one=one) if kind else None
    size = BatchSize(limits.entries, limits.bytes, limits.entries * _SCANNED_BATCHES, stretch)
    return _log_step(connection, queue, row, size, kept, one=one)


def _kind_of_all(queue: ShardedQueue) -> Kind | None:
    """Return the kind of the next step of shard 0; `LOG_ENTRIES` is for that shard alone, other kinds are for all."""
    kind = steps.next_kind(queue.stands)
    if kind is Kind.ROLLBACK:
        # The shards apply everything before first: a rollback is a barrier.
        return (
            Kind.ROLLBACK
            if queue.settled_seq == queue.stands.back_seq <= queue.stands.consumed.seq
            else Kind.LOG_ENTRIES
        )
    if kind is None:
        # The marks of the queue may be behind or before the position of shard 0.
        return Kind.LOG_ENTRIES if queue.is_in_log else None
    return kind


def _log_step(
    connection: Connection, queue: ShardedQueue, row: ShardRow, size: BatchSize, kept: KeptBlocks, *, one: bool
) -> ShardStep | None:
    assert queue.view is not None
    stands, received = queue.stands, queue.stands.received
    upto = received.boundary_seq if stands.back_seq == NOWHERE else min(stands.back_seq, received.boundary_seq)
    if row.seq >= upto:
        return None
    kept.open(History(queue.queue_id, received.sync_id, received.branch, row.version), row.seq, upto)
    parts: list[LogRowColumns] = []

    def take(candidate: Candidate) -> None:
        for block, begin, last in candidate.rows:
            parts.append(block.rows(begin, last))

    scan = Scan(queue.view, row.shard)
    found = _Transactions(connection, kept, scan, row.seq, upto)
    batch = next_batch(scan, found, upto, size, one=one, take=take)
    end = min(batch.end, found.upto)
    if end <= row.seq:
        if (problem := found.damage or batch.problem) is not None:
            raise problem
        return None
    seen = stands.consumed._replace(seq=row.seq)
    to = seen._replace(branch=received.branch, seq=end)
    has_more = end < found.upto and not batch.waits
    rows = LogRowColumns.joined(parts)
    return ShardStep(Kind.LOG_ENTRIES, seen, to, rows, version=row.version, row=row, lift=batch.lift, has_more=has_more)


class _Transactions:
    """The source transactions with `after < seq <= upto`; blocks that no step may need are dropped.

    A damaged block ends the iteration: `damage` is then its error, and `upto` is the number before that block.
    """

    def __init__(self, connection: Connection, kept: KeptBlocks, scan: Scan, after: int, upto: int) -> None:
        self.upto = upto
        self.damage: NeedsFullSyncError | None = None
        self._connection = connection
        self._kept = kept
        self._scan = scan
        self._after = after

    def __iter__(self) -> Iterator[Candidate]:
        at, number, begun = self._after, -1, None
        while (block := self._next(at, number, begun)) is not None:
            end = min(block.end_seq, self.upto)
            for part in block.transactions(at, end):
                if begun is not None and part.transaction_seq != number:
                    yield begun
                    begun = None
                number = part.transaction_seq
                begun = self._with(begun, block, part)
            at = end
            if self._kept.size > _KEPT_BYTES:
                self._kept.drop_before(at)
        if begun is not None and begun.end <= self.upto:
            yield begun

    def _next(self, at: int, number: int, begun: Candidate | None) -> LogEntries | None:
        try:
            return self._kept.following(self._connection, at, self.upto)
        except NeedsFullSyncError as damage:
            # The entries before a damaged block come first, if that block continues none of their transactions.
            is_whole = begun is None or self._kept.next_tick(at) >= number
            self.damage, self.upto = damage, at if is_whole or begun is None else begun.first - 1
            return None

    def _with(self, begun: Candidate | None, block: LogEntries, part: TransactionPart) -> Candidate:
        before = begun or Candidate(part.first, part.end, frozenset(), 0, 0, ())
        whole = before._replace(
            end=part.end,
            keys=before.keys | part.keys,
            entries=before.entries + part.entries,
            bytes=before.bytes + part.bytes,
            rows=(*before.rows, (block, part.first - 1, part.end)),
        )
        # The rows of a large transaction of another shard need no memory.
        return whole if self._scan.needs_rows(whole.first, whole.keys) else whole._replace(rows=())
