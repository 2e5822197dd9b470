"""The stored state of each snapshot sync, its attempts and parts, and the rule for which request counts."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, exists, select, tuple_, update

from queues.database import dialects
from queues.database.tables.snapshots import snapshots
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.states import SnapshotState
from queues.words import cleaned

UNFINISHED: Final = (SnapshotState.REQUESTED, SnapshotState.BUILDING, SnapshotState.READY)

#: The destination of a request for every site; `queues.send_snapshot.expand` turns it into one request for each site.
EVERY_SITE: Final = SiteId("*")

#: The numbers for parts of attempt a lie in [a << BITS, (a + 1) << BITS). Each try to write a part has its own number.
PART_ATTEMPT_BITS: Final = 40

#: The `last_ord` of the block that tells the end of a part; rows are numbered from 1.
END_ORD: Final = 0


def transmitter_lease(client: ClientName) -> str:
    """Return the name of the lease under which *client*'s snapshots are built."""
    return f"transmitter/{client}"


@dataclass(frozen=True, slots=True)
class SnapshotSync:
    """One request for a full snapshot of *client* for *destination*, and its progress.

    `base` and `pinned_us` are set once the cut is pinned; before that, the base has no branch. `rows`, `bytes` and
    `checksum` grow during the build, to about `expected_rows` (0: unknown). Once the snapshot is ready, they are final.
    `sent_rows` of a ready snapshot have arrived at its site.
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
    requested_us: int
    updated_us: int
    build: str = ""
    pinned_us: int = 0
    expected_rows: int = 0
    sent_rows: int = 0

    @property
    def stored_under(self) -> str:
        """The id that the rows are stored under; snapshots of several sites may share one build."""
        return stored_under(self.build)

    @property
    def finished(self) -> bool:
        """Whether the state is final."""
        return self.state not in UNFINISHED


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to build one snapshot; every later try has a higher `number`.

    An attempt may also serve the sites in `others`: the rows are stored once, under `sync_id`, for all.
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
        """The name of the build, stored in each row of `lrq_snapshots` that the attempt serves."""
        return build_name(self.sync_id, self.number)

    def part_attempt(self, chance: int = 0) -> int:
        """Return a number to write a part under; *chance*, at random, keeps repeated writers of one part apart."""
        return part_attempts_from(self.number) + chance % (1 << PART_ATTEMPT_BITS)


def build_name(sync_id: str, number: int) -> str:
    """Return the name of the build of attempt *number*."""
    return f"{sync_id}.{number}"


def stored_under(build: str) -> str:
    """Return the id that the rows of a build are stored under."""
    return build.rpartition(".")[0]


def build_number(build: str) -> int:
    """Return the number of a build's attempt."""
    return int(build.rpartition(".")[2])


def part_attempts_from(number: int) -> int:
    """Return the lowest number for parts of attempt *number*; all numbers of earlier attempts are below."""
    return number << PART_ATTEMPT_BITS


@dataclass(frozen=True, slots=True)
class Part:
    """The rows `ord` = 1..rows that were written under (sync_id, part, attempt)."""

    part: int
    attempt: int
    rows: int
    bytes: int
    checksum: int


def snapshot_of(row: Any) -> SnapshotSync:  # noqa: ANN401 - a row has its columns as attributes
    """Convert one row of `lrq_snapshots`."""
    return SnapshotSync(
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
        requested_us=row.requested_us,
        updated_us=row.updated_us,
        build=row.build,
        pinned_us=row.pinned_us,
        expected_rows=row.expected_rows,
        sent_rows=getattr(row, "sent_rows", 0),
    )


def superseded() -> ColumnElement[bool]:
    """Return the condition that a row of `lrq_snapshots` has a newer request for the same client and destination.

    Newer is the later request; of two at the same microsecond, the one with the greater sync_id.
    """
    newer = snapshots.alias("newer")
    return exists().where(
        newer.c.client == snapshots.c.client,
        newer.c.destination == snapshots.c.destination,
        tuple_(newer.c.requested_us, newer.c.sync_id) > tuple_(snapshots.c.requested_us, snapshots.c.sync_id),
    )


def ended_builds(connection: Connection, builds: Collection[str]) -> list[str]:
    """Return those of *builds* that write no more, although this database knows their snapshot."""
    building = snapshots.c.state == SnapshotState.BUILDING
    running = set(connection.execute(select(snapshots.c.build).where(building)).scalars())
    own = snapshots.c.sync_id.in_(sorted(map(stored_under, builds)))
    known = set(connection.execute(select(snapshots.c.sync_id).where(own)).scalars())
    return [each for each in builds if stored_under(each) in known and each not in running]


def cancel_superseded(connection: Connection, client: ClientName | None = None) -> int:
    """Store the state cancelled in superseded requests; return their number."""
    chosen = [superseded()]
    if client is not None:
        chosen.append(snapshots.c.client == client)
    return finish(connection, SnapshotState.CANCELLED, "a newer request replaced it", *chosen)


def finish(connection: Connection, state: SnapshotState, error: str, *chosen: ColumnElement[bool]) -> int:
    """Set the unfinished snapshots of *chosen* to a final *state*; return their number."""
    now = dialects.of(connection).now_us(connection)
    finished = connection.execute(
        update(snapshots)
        .where(snapshots.c.state.in_(UNFINISHED), *chosen)
        .values(state=state, error=cleaned(error), updated_us=now)
    )
    return finished.rowcount
