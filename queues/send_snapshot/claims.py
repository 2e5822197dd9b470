"""Find due requests and start attempts for them: one attempt for each request, or one for all."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, func, not_, or_, select, update

from queues.database import dialects
from queues.database.tables.snapshots import snapshots
from queues.names import ClientName, SiteId
from queues.send_snapshot.states import EVERY_SITE, Attempt, build_name, cancel_superseded, superseded
from queues.states import SnapshotState

#: The most sites that one attempt serves.
MOST_TOGETHER = 1_000
#: A request so many seconds in the future is from before the clock was set back, and waits no longer.
CLOCK_SET_BACK = 10.0


def due_in(
    connection: Connection, client: ClientName, *, running: Collection[str] = (), window: float = 0.0
) -> float | None:
    """Return the seconds until the oldest request has waited *window* seconds for further ones; None without requests.

    At 0, `claim` finds a request.
    """
    now = dialects.of(connection).now_us(connection)
    oldest = connection.execute(select(func.min(snapshots.c.requested_us)).where(*_due(client, now, running))).scalar()
    if oldest is None:
        return None
    age = (now - int(oldest)) / 1_000_000
    return 0.0 if age < -CLOCK_SET_BACK else max(0.0, window - age)


def is_asked_for_by_all(
    connection: Connection, client: ClientName, sites: Collection[SiteId], *, running: Collection[str] = ()
) -> bool:
    """Return whether each of *sites*, at least one, has a request that waits for an attempt: none can follow soon."""
    waiting = select(snapshots.c.destination).where(*_due(client, dialects.of(connection).now_us(connection), running))
    return bool(sites) and set(sites) <= set(connection.execute(waiting).scalars())


def claim(
    connection: Connection,
    client: ClientName,
    owner: str,
    *,
    limit: int,
    running: Collection[str] = (),
    together: bool = False,
) -> list[Attempt]:
    """Start up to *limit* attempts for due requests, oldest first; with *together*, one attempt for all.

    Due are requests after their backoff, and builds without a living builder. The caller holds the client's lease, and
    its own builds are *running* (names of builds). Any other builder has therefore ended or lost the lease.
    """
    cancel_superseded(connection, client)
    now = dialects.of(connection).now_us(connection)
    found = connection.execute(
        select(snapshots)
        .where(*_due(client, now, running))
        .order_by(snapshots.c.requested_us, snapshots.c.sync_id)
        .limit(MOST_TOGETHER if together else limit)
    ).all()
    groups = [found] if together and found else [[row] for row in found]
    begun = (_begin(connection, group, owner, now) for group in groups)
    return [attempt for attempt in begun if attempt is not None]


def _begin(connection: Connection, group: Sequence[Row[Any]], owner: str, now: int) -> Attempt | None:
    first, number = group[0], group[0].attempt + 1
    taken = [row for row in group if _take(connection, row, owner, build_name(first.sync_id, number), now)]
    if not taken:
        return None
    destination, *others = [SiteId(row.destination) for row in taken]
    client, reason = ClientName(first.client), taken[0].reason
    return Attempt(first.sync_id, client, destination, reason, owner, number, tuple(others))


def _take(connection: Connection, row: Row[Any], owner: str, build: str, now: int) -> bool:
    unchanged = (
        snapshots.c.sync_id == row.sync_id,
        snapshots.c.state == row.state,
        snapshots.c.attempt == row.attempt,
    )
    fresh = {"branch": "", "cut": "", "progress": ""}
    fresh_numbers = dict.fromkeys(("base_seq", "pinned_us", "expected_rows", "row_count", "byte_count"), 0)
    taken = connection.execute(
        update(snapshots)
        .where(*unchanged)
        .values(
            state=SnapshotState.BUILDING,
            owner=owner,
            build=build,
            attempt=row.attempt + 1,
            updated_us=now,
            **fresh,
            **fresh_numbers,
        )
    )
    return bool(taken.rowcount)


def _due(client: ClientName, now: int, running: Iterable[str]) -> tuple[ColumnElement[bool], ...]:
    from_the_future = snapshots.c.updated_us > now + int(CLOCK_SET_BACK * 1_000_000)
    is_over = or_(snapshots.c.retry_us <= now, from_the_future)
    waiting = and_(snapshots.c.state == SnapshotState.REQUESTED, is_over)
    abandoned = and_(snapshots.c.state == SnapshotState.BUILDING, snapshots.c.build.not_in(list(running)))
    return (
        snapshots.c.client == client,
        snapshots.c.destination != EVERY_SITE,
        or_(waiting, abandoned),
        not_(superseded()),
    )
