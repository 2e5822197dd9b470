"""What a source keeps of each snapshot sync, its attempts and parts, and which of several requests counts."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, exists, tuple_, update

from queues import dialects
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.tables import snapshots


class SnapshotState(StrEnum):
    """How far a snapshot sync has come.

    requested -> building -> ready -> applied; from each of the first three also to cancelled or failed. An
    attempt that fails goes from building back to requested, its error kept.
    """

    REQUESTED = "requested"
    BUILDING = "building"
    READY = "ready"
    APPLIED = "applied"
    CANCELLED = "cancelled"
    FAILED = "failed"


UNFINISHED: Final = (SnapshotState.REQUESTED, SnapshotState.BUILDING, SnapshotState.READY)

#: The destination of a request for every site; `queues.snapshots.expand` turns it into one request a site.
EVERY_SITE: Final = SiteId("*")

#: Longest reason, progress or error that is kept, in characters.
MAX_WORDS: Final = 500

#: Each try to write one part has a number; those of the snapshot's attempt a lie in [a << BITS, (a + 1) << BITS).
PART_ATTEMPT_BITS: Final = 40


def transmitter_lease(client: ClientName) -> str:
    """Name the lease of those who build *client*'s snapshots."""
    return f"transmitter/{client}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One request for a full snapshot of *client* for *destination*, and what has become of it.

    `base` and `pinned_us` are known once its cut is pinned (before that its branch is empty); `rows`, `bytes` and
    `checksum` are those of the whole once it is ready, and grow while it is being built, to about `expected_rows`
    (0: nobody knows); `sent_rows` of a ready one have arrived at its site.
    """

    sync_id: str
    client: ClientName
    destination: SiteId
    state: SnapshotState
    reason: str
    attempt: int
    owner: str
    base: Position
    rows: int
    bytes: int
    checksum: int
    progress: str
    error: str
    retry_us: int
    requested_us: int
    updated_us: int
    build: str = ""
    pinned_us: int = 0
    expected_rows: int = 0
    sent_rows: int = 0

    @property
    def stored_under(self) -> str:
        """The id under which its rows are kept: several sites' snapshots may be one build."""
        return stored_under(self.build)

    @property
    def finished(self) -> bool:
        """Nothing will happen to it any more."""
        return self.state not in UNFINISHED


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to build one snapshot; `number` grows with every try, whoever makes it.

    It may serve `others`, sites that have asked for the same: its rows are stored once, under `sync_id`, for all.
    """

    sync_id: str
    client: ClientName
    destination: SiteId
    reason: str
    owner: str
    number: int
    others: tuple[SiteId, ...] = ()

    @property
    def build(self) -> str:
        """What the rows of `lrq_snapshots` that it serves are marked with."""
        return build_name(self.sync_id, self.number)

    def part_attempt(self, chance: int = 0) -> int:
        """Return a number to write a part under; a part that may be written more than once takes *chance* at random."""
        return part_attempts_from(self.number) + chance % (1 << PART_ATTEMPT_BITS)


def build_name(sync_id: str, number: int) -> str:
    """Name the build that attempt *number* of a snapshot is."""
    return f"{sync_id}.{number}"


def stored_under(build: str) -> str:
    """Return the id that the rows of a build are stored under."""
    return build.rpartition(".")[0]


def build_number(build: str) -> int:
    """Return which attempt a build is."""
    return int(build.rpartition(".")[2])


def part_attempts_from(number: int) -> int:
    """Return the lowest number that attempt *number* writes parts under; those of earlier attempts are all below it."""
    return number << PART_ATTEMPT_BITS


@dataclass(frozen=True, slots=True)
class Part:
    """The rows `ord` = 1..rows that were written under (sync_id, part, attempt)."""

    part: int
    attempt: int
    rows: int
    bytes: int
    checksum: int


def snapshot_of(row: Row[Any]) -> Snapshot:
    """Read one row of `lrq_snapshots`."""
    return Snapshot(
        sync_id=row.sync_id,
        client=ClientName(row.client),
        destination=SiteId(row.destination),
        state=SnapshotState(row.state),
        reason=row.reason,
        attempt=row.attempt,
        owner=row.owner,
        base=Position(row.branch, row.base_seq, row.cut),
        rows=row.row_count,
        bytes=row.byte_count,
        checksum=row.checksum,
        progress=row.progress,
        error=row.error,
        retry_us=row.retry_us,
        requested_us=row.requested_us,
        updated_us=row.updated_us,
        build=row.build,
        pinned_us=row.pinned_us,
        expected_rows=row.expected_rows,
        sent_rows=getattr(row, "sent_rows", 0),
    )


def superseded() -> ColumnElement[bool]:
    """Be true of a row of `lrq_snapshots` when a newer request for the same client and destination is there.

    Newer is what was requested later; of two at the same microsecond, the one with the greater sync_id.
    """
    newer = snapshots.alias("newer")
    return exists().where(
        newer.c.client == snapshots.c.client,
        newer.c.destination == snapshots.c.destination,
        tuple_(newer.c.requested_us, newer.c.sync_id) > tuple_(snapshots.c.requested_us, snapshots.c.sync_id),
    )


def cancel_superseded(connection: Connection, client: ClientName | None = None) -> int:
    """Write down that requests with a newer one behind them are cancelled; return how many were."""
    chosen = [superseded()]
    if client is not None:
        chosen.append(snapshots.c.client == client)
    return finish(connection, SnapshotState.CANCELLED, "a newer request replaced it", *chosen)


def finish(connection: Connection, state: SnapshotState, error: str, *chosen: ColumnElement[bool]) -> int:
    """Put what is unfinished of *chosen* into a final *state*; return how many were."""
    now = dialects.of(connection).now_us(connection)
    finished = connection.execute(
        update(snapshots)
        .where(snapshots.c.state.in_(UNFINISHED), *chosen)
        .values(state=state, error=error[:MAX_WORDS], updated_us=now)
    )
    return finished.rowcount
