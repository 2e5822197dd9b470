"""What a subscriber does next with a queue, and what that moves its marks to."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from sqlalchemy import Connection

from queues.receive import parked, upcoming
from queues.receive.consuming import IN_LOG, IN_SNAPSHOT, NOWHERE, Consumed, Standing, standing
from queues.receive.parked import Retry
from queues.receive.upcoming import EntryRow, Limits


class Kind(Enum):
    """The kinds of steps; each is one transaction."""

    ROLLBACK = auto()
    RETRY = auto()
    SNAPSHOT_START = auto()
    SNAPSHOT_ROWS = auto()
    SNAPSHOT_COMPLETE = auto()
    LOG_ENTRIES = auto()


@dataclass(frozen=True, slots=True)
class Step:
    """One transaction of a subscriber: `rows` are delivered and taken off the queue, marks go from `seen` to `to`."""

    kind: Kind
    seen: Consumed
    to: Consumed
    rows: Sequence[EntryRow] = ()
    retry: Retry | None = None
    back_seq: int = NOWHERE

    @property
    def first(self) -> int:
        """The sequence (of a snapshot: the row) that it begins with; 0 when it brings none."""
        return self.rows[0].seq if self.rows else 0

    @property
    def end(self) -> int:
        """The sequence (of a snapshot: the row) up to which nothing is left when it is done."""
        return self.to.row_no if self.kind is Kind.SNAPSHOT_ROWS else self.to.seq

    @property
    def of_snapshot(self) -> bool:
        """Tell whether its rows are a snapshot's."""
        if self.retry is not None:
            return self.retry.identity.kind == parked.SNAPSHOT
        return self.kind is Kind.SNAPSHOT_ROWS

    @property
    def history(self) -> str:
        """What its rows are numbered in: a snapshot's sync_id, else the branch of the log."""
        if self.retry is not None:
            return self.retry.identity.branch
        return self.seen.sync_id if self.of_snapshot else self.to.branch

    @property
    def incomplete(self) -> bool:
        """Tell whether rows of the snapshot were not found; a snapshot's rows are numbered without gaps."""
        return self.kind is Kind.SNAPSHOT_ROWS and len(self.rows) != self.to.row_no - self.seen.row_no

    @property
    def divisible(self) -> bool:
        """Tell whether it brings more than one source transaction."""
        return bool(self.rows) and self.rows[0].transaction_seq != self.rows[-1].transaction_seq


def next_kind(stands: Standing) -> Kind | None:
    """Decide what comes next; None when all is done. Pure.

    A snapshot that was completed at the sink and is not the one being consumed comes before everything else of the
    queue; its rows come before the log. What the source has lost is undone before anything else is applied.
    """
    consumed, received, retry_id, back_seq = stands
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
    return None


def next_step(connection: Connection, queue_id: int, limits: Limits, *, one: bool) -> Step | None:
    """Read what comes next, in a transaction that only reads; None when all is done.

    With *one*, it brings no more than one source transaction.
    """
    stands = standing(connection, queue_id)
    if stands is None:
        return None
    seen, received, retry_id, back_seq = stands
    match next_kind(stands):
        case Kind.ROLLBACK:
            return Step(Kind.ROLLBACK, seen, seen._replace(branch=received.branch, seq=back_seq), back_seq=back_seq)
        case Kind.RETRY:
            retry = parked.requested(connection, retry_id or 0)
            return Step(Kind.RETRY, seen, seen, retry.rows, retry)
        case Kind.SNAPSHOT_START:
            return Step(Kind.SNAPSHOT_START, seen, Consumed(IN_SNAPSHOT, received.sync_id, 0, "", 0))
        case Kind.SNAPSHOT_ROWS:
            found = upcoming.next_snapshot_rows(connection, queue_id, seen, received.sync_rows, limits, one=one)
            return Step(Kind.SNAPSHOT_ROWS, seen, seen._replace(row_no=found.end), found.rows)
        case Kind.SNAPSHOT_COMPLETE:
            to = Consumed(IN_LOG, seen.sync_id, seen.row_no, received.branch, received.base_seq)
            return Step(Kind.SNAPSHOT_COMPLETE, seen, to)
        case Kind.LOG_ENTRIES:
            found = upcoming.next_entries(connection, queue_id, seen.seq, received.boundary_seq, limits, one=one)
            return Step(Kind.LOG_ENTRIES, seen, seen._replace(branch=received.branch, seq=found.end), found.rows)
        case None:
            return None
