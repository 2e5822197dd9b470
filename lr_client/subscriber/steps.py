"""Choose the next step of a subscriber in a queue, and the marks after that step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from sqlalchemy import Connection

from queues.receive import batches, parked_retries, parked_rows, snapshot_batches
from queues.receive.batches import BatchLimits, Fetched
from queues.receive.consumer_marks import IN_LOG, IN_SNAPSHOT, NOWHERE, Consumed, QueueState, queue_state
from queues.receive.kept_blocks import History, KeptBlocks
from queues.receive.marks import NOT_ENDED
from queues.receive.parked_retries import Retry
from queues.receive.received_rows import LogRowColumns, ReceivedRow
from queues.receive.registry import is_registered


class Forgotten(Exception):  # noqa: N818 - no error, only a reason to end
    """An operator has forgotten the queue."""


class Kind(Enum):
    """The kinds of steps; each is one transaction."""

    ROLLBACK = auto()
    RETRY = auto()
    SNAPSHOT_START = auto()
    SNAPSHOT_ROWS = auto()
    SNAPSHOT_COMPLETE = auto()
    LOG_ENTRIES = auto()
    STREAM_END = auto()


@dataclass(frozen=True, slots=True)
class DeliveryStep:
    """One transaction of a subscriber: `rows` are delivered and removed, and the marks move from `seen` to `to`.

    `back_seq` is the sequence to which a pending rollback goes back, or `NOWHERE`. `version` is the version of the
    subscriber's marks. Both are read with the step. `blocks` of the log have their last row here; they count `freed`
    bytes.
    """

    kind: Kind
    seen: Consumed
    to: Consumed
    rows: Sequence[ReceivedRow] = ()
    retry: Retry | None = None
    back_seq: int = NOWHERE
    version: int = 0
    blocks: int = 0
    freed: int = 0

    @property
    def first(self) -> int:
        """The sequence of the first row (in a snapshot: its row number); 0 for a step without rows."""
        return self.rows[0].seq if self.rows else 0

    @property
    def end(self) -> int:
        """The sequence (in a snapshot: the row number) up to which this step empties the queue."""
        return self.to.row_no if self.kind is Kind.SNAPSHOT_ROWS else self.to.seq

    @property
    def of_snapshot(self) -> bool:
        """Whether the rows belong to a snapshot."""
        if self.retry is not None:
            return self.retry.identity.kind == parked_rows.SNAPSHOT
        return self.kind is Kind.SNAPSHOT_ROWS

    @property
    def history(self) -> str:
        """The history in which the rows are numbered: the sync_id of a snapshot, or the branch of the log."""
        if self.retry is not None:
            return self.retry.identity.branch
        return self.seen.sync_id if self.of_snapshot else self.to.branch

    @property
    def incomplete(self) -> bool:
        """Whether rows of the snapshot are missing; a snapshot's rows are numbered without gaps."""
        return self.kind is Kind.SNAPSHOT_ROWS and len(self.rows) != self.to.row_no - self.seen.row_no

    def delays(self, now_us: int) -> list[float]:
        """Return the seconds from the commit of each source transaction until *now_us*; never below 0."""
        rows = self.rows
        if isinstance(rows, LogRowColumns):
            committed = dict(zip(rows.transaction_seq, rows.committed_us, strict=True))
        else:
            committed = {row.transaction_seq: row.committed_us for row in rows}
        return [max(now_us - at_us, 0) / 1_000_000 for at_us in committed.values()]

    @property
    def divisible(self) -> bool:
        """Whether the step brings more than one source transaction."""
        return bool(self.rows) and self.rows[0].transaction_seq != self.rows[-1].transaction_seq


def next_kind(stands: QueueState) -> Kind | None:
    """Return the kind of the next step; None when nothing is left. Pure.

    Entries that the source has lost are undone first, unless a newer snapshot replaces them. Requested retries
    come next, then a newer complete snapshot, then the rows of the current snapshot, then the log. The end of the
    stream is last.
    """
    consumed, received, retry_id, back_seq, _ = stands
    if back_seq != NOWHERE and received.sync_id == consumed.sync_id:
        return Kind.ROLLBACK
    if retry_id is not None:
        return Kind.RETRY
    if received.sync_id != consumed.sync_id:
        return Kind.SNAPSHOT_START
    if consumed.phase == IN_SNAPSHOT:
        return Kind.SNAPSHOT_ROWS if consumed.row_no < received.sync_rows else Kind.SNAPSHOT_COMPLETE
    if consumed.seq < received.boundary_seq:
        return Kind.LOG_ENTRIES
    if received.ended_seq == consumed.seq != consumed.ended_seq:
        return Kind.STREAM_END
    return None


def next_step(
    connection: Connection, queue_id: int, limits: BatchLimits, kept: KeptBlocks, *, one: bool
) -> DeliveryStep | None:
    """Read the next step in a read-only transaction; return None when nothing is left. Raises `Forgotten`.

    With *one*, the step brings at most one source transaction. Blocks of the log are taken from *kept*, and kept there.
    """
    stands = queue_state(connection, queue_id)
    if stands is None:
        if not is_registered(connection, queue_id):
            raise Forgotten
        return None
    kind = next_kind(stands)
    if kind is Kind.LOG_ENTRIES:
        return _log_step(connection, queue_id, limits, stands, kept, one=one)
    kept.forget()
    return None if kind is None else step_of(kind, connection, queue_id, limits, stands, one=one)


def step_after(
    seen: Consumed, version: int, queue_id: int, limits: BatchLimits, kept: KeptBlocks
) -> DeliveryStep | None:
    """Return the step of the log after the marks *seen* of *version*, if *kept* has all of it; else None.

    The database is not asked. If the queue has changed since the blocks were read, the claim of the step fails.
    """
    if not kept.is_of(History(queue_id, seen.sync_id, seen.branch, version)):
        return None
    found = batches.kept_entries(kept, seen.seq, limits)
    return found and step_to(found, seen, seen.branch, version)


def _log_step(
    connection: Connection, queue_id: int, limits: BatchLimits, stands: QueueState, kept: KeptBlocks, *, one: bool
) -> DeliveryStep:
    seen, received, _, _, version = stands
    kept.open(History(queue_id, received.sync_id, received.branch, version), seen.seq, received.boundary_seq)
    found = batches.next_entries(connection, kept, seen.seq, received.boundary_seq, limits, one=one)
    # The next batch is unpacked while this one is applied.
    kept.read_ahead(connection, found.end, received.boundary_seq)
    return step_to(found, seen, received.branch, version)


def step_to(found: Fetched, seen: Consumed, branch: str, version: int) -> DeliveryStep:
    """Return the step of the log that brings *found* to a subscriber with the marks *seen* of *version*. Pure."""
    to = seen._replace(branch=branch, seq=found.end)
    return DeliveryStep(Kind.LOG_ENTRIES, seen, to, found.rows, version=version, blocks=found.blocks, freed=found.freed)


def step_of(
    kind: Kind, connection: Connection, queue_id: int, limits: BatchLimits, stands: QueueState, *, one: bool
) -> DeliveryStep | None:
    """Read a step of *kind*, which is not `LOG_ENTRIES`; None if the step must wait for parked transactions."""
    step = _step_of(kind, connection, queue_id, limits, stands, one=one)
    return step and replace(step, version=stands.version)


def _step_of(
    kind: Kind, connection: Connection, queue_id: int, limits: BatchLimits, stands: QueueState, *, one: bool
) -> DeliveryStep | None:
    seen, received, retry_id, back_seq, _ = stands
    match kind:
        case Kind.ROLLBACK:
            to = seen._replace(branch=received.branch, seq=back_seq, ended_seq=NOT_ENDED)
            return DeliveryStep(Kind.ROLLBACK, seen, to, back_seq=back_seq)
        case Kind.RETRY:
            retry = parked_retries.requested(connection, retry_id or 0)
            return DeliveryStep(Kind.RETRY, seen, seen, retry.rows, retry, back_seq)
        case Kind.SNAPSHOT_START:
            return DeliveryStep(Kind.SNAPSHOT_START, seen, Consumed(IN_SNAPSHOT, received.sync_id, 0, "", 0))
        case Kind.SNAPSHOT_ROWS:
            found = snapshot_batches.next_snapshot_rows(connection, queue_id, seen, received.sync_rows, limits, one=one)
            return DeliveryStep(Kind.SNAPSHOT_ROWS, seen, seen._replace(row_no=found.end), found.rows)
        case Kind.SNAPSHOT_COMPLETE:
            to = Consumed(IN_LOG, seen.sync_id, seen.row_no, received.branch, received.base_seq)
            return DeliveryStep(Kind.SNAPSHOT_COMPLETE, seen, to)
        case Kind.STREAM_END:
            # Nothing comes after the end, also no parked transaction.
            if parked_rows.has_any(connection, queue_id):
                return None
            return DeliveryStep(Kind.STREAM_END, seen, seen._replace(ended_seq=received.ended_seq))
        case _:
            raise AssertionError(f"a step of {kind} is read in blocks")
