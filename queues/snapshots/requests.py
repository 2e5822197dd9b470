"""Snapshot syncs of a source: asked for, looked up, cancelled, applied. Building them: `queues.snapshots.attempts`.

A request is one INSERT in the transaction of whoever asks: it waits for nobody and locks no row that others want.
Of several requests for one (client, destination) only the newest counts, from its commit on; older ones that are not
finished are superseded, whatever their `state` still says, until `cancel_superseded` writes it down.
"""

import uuid
from collections.abc import Iterable

from sqlalchemy import (
    BigInteger,
    Connection,
    Text,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    not_,
    select,
    update,
)

from queues import dialects
from queues.names import ClientName, SiteId, site_id
from queues.positions import Position
from queues.snapshots.states import (
    EVERY_SITE,
    MAX_WORDS,
    Snapshot,
    SnapshotState,
    finish,
    snapshot_of,
    superseded,
)
from queues.tables import sessions, snapshots

#: How far the transfer of the site's session is: of interest for the one snapshot that is ready.
_SENT_ROWS = (
    select(sessions.c.transferred_rows)
    .where(sessions.c.client == snapshots.c.client, sessions.c.destination == snapshots.c.destination)
    .scalar_subquery()
)
_WITH_SENT_ROWS = select(snapshots, func.coalesce(_SENT_ROWS, 0).label("sent_rows"))
_NEWEST_OF_EACH = _WITH_SENT_ROWS.where(not_(superseded()))

_NUMBERS = (
    "attempt", "base_seq", "pinned_us", "expected_rows", "row_count", "byte_count", "checksum", "retry_us",
)  # fmt: skip


def request(connection: Connection, client: ClientName, destinations: Iterable[str] | None, reason: str) -> list[str]:
    """Ask for a snapshot for each destination, or with None for every site; return the sync ids.

    In the caller's transaction, whose first statement it may be. The request for every site is one row
    (destination `EVERY_SITE`), which the server turns into one request a site with `expand`.
    """
    wanted = [EVERY_SITE] if destinations is None else [site_id(name) for name in dict.fromkeys(destinations)]
    now = dialects.of(connection).now_us(connection)
    return [_insert(connection, client, destination, reason, now) for destination in wanted]


def _insert(connection: Connection, client: ClientName, destination: SiteId, reason: str, now: int) -> str:
    sync_id = uuid.uuid4().hex
    # A clock that was set back must not make a newer request look older.
    last = func.coalesce(func.max(snapshots.c.requested_us), 0)
    requested_us = case((last >= now, last + 1), else_=literal(now, BigInteger))
    values = {
        "sync_id": literal(sync_id, Text),
        "client": literal(client, Text),
        "destination": literal(destination, Text),
        "state": literal(SnapshotState.REQUESTED.value, Text),
        "reason": literal(reason[:MAX_WORDS], Text),
        "requested_us": requested_us,
        "updated_us": literal(now, BigInteger),
        **{name: literal("", Text) for name in ("owner", "build", "branch", "cut", "progress", "error")},
        **{name: cast(literal(0), snapshots.c[name].type) for name in _NUMBERS},
    }
    earlier = snapshots.c.client == client, snapshots.c.destination == destination
    connection.execute(insert(snapshots).from_select(list(values), select(*values.values()).where(*earlier)))
    return sync_id


def expand(connection: Connection, client: ClientName, destinations: Iterable[SiteId]) -> list[str]:
    """Turn the requests for every site into one for each of *destinations*; return the sync ids of those.

    A destination whose own newest request came after the one for every site is left alone. Needs a transaction of
    `queues.transactions.writing`: it reads before it writes.
    """
    every = (snapshots.c.client == client, snapshots.c.destination == EVERY_SITE)
    asked = connection.execute(select(snapshots).where(*every).order_by(snapshots.c.requested_us.desc())).first()
    if asked is None:
        return []
    connection.execute(delete(snapshots).where(*every, snapshots.c.requested_us <= asked.requested_us))
    wanted = [site for site in destinations if not _requested_after(connection, client, site, asked.requested_us)]
    return request(connection, client, wanted, asked.reason)


def _requested_after(connection: Connection, client: ClientName, destination: SiteId, requested_us: int) -> bool:
    last = newest(connection, client, destination)
    return last is not None and last.requested_us > requested_us


def newest(connection: Connection, client: ClientName, destination: SiteId) -> Snapshot | None:
    """Return the request that counts for this client and destination, finished or not; None if there was never one."""
    row = connection.execute(
        _WITH_SENT_ROWS.where(snapshots.c.client == client, snapshots.c.destination == destination)
        .order_by(snapshots.c.requested_us.desc(), snapshots.c.sync_id.desc())
        .limit(1)
    ).first()
    return None if row is None else snapshot_of(row)


def newest_of_each(connection: Connection) -> list[Snapshot]:
    """Return the request that counts of every client and destination, finished or not."""
    return [snapshot_of(row) for row in connection.execute(_NEWEST_OF_EACH)]


def find(connection: Connection, sync_id: str) -> Snapshot | None:
    """Return the snapshot with this id; None when it is not (or no longer) known."""
    row = connection.execute(_WITH_SENT_ROWS.where(snapshots.c.sync_id == sync_id)).first()
    return None if row is None else snapshot_of(row)


def of_build(connection: Connection, build: str) -> Snapshot | None:
    """Return one of the snapshots that a build serves; None when it serves none any more."""
    row = connection.execute(_WITH_SENT_ROWS.where(snapshots.c.build == build).limit(1)).first()
    return None if row is None else snapshot_of(row)


def listing(connection: Connection, client: ClientName | None = None, *, limit: int = 100) -> list[Snapshot]:
    """Return the newest *limit* requests, newest first, of one client or of all."""
    wanted = _WITH_SENT_ROWS.order_by(snapshots.c.requested_us.desc(), snapshots.c.sync_id.desc()).limit(limit)
    if client is not None:
        wanted = wanted.where(snapshots.c.client == client)
    return [snapshot_of(row) for row in connection.execute(wanted)]


def needed_base(connection: Connection, client: ClientName, destination: SiteId) -> Position | None:
    """Return the base after which the log must be kept for a snapshot that is being built or sent; None if none is."""
    last = newest(connection, client, destination)
    if last is None or last.state not in (SnapshotState.BUILDING, SnapshotState.READY) or not last.base.branch:
        return None
    return last.base


def cancel(
    connection: Connection, client: ClientName, destination: SiteId | None = None, *, reason: str = "cancelled"
) -> int:
    """Cancel what is unfinished of *client*, for one destination or all; return how many were."""
    chosen = [snapshots.c.client == client]
    if destination is not None:
        chosen.append(snapshots.c.destination == destination)
    return finish(connection, SnapshotState.CANCELLED, reason, *chosen)


def mark_applied(connection: Connection, sync_id: str) -> None:
    """Note that the sink has the whole of it, so that its rows can be collected. Repeating it is harmless."""
    now = dialects.of(connection).now_us(connection)
    ready = snapshots.c.sync_id == sync_id, snapshots.c.state == SnapshotState.READY
    connection.execute(update(snapshots).where(*ready).values(state=SnapshotState.APPLIED, updated_us=now))


def mark_failed(connection: Connection, sync_id: str, error: str) -> None:
    """Give it up for good: nobody tries again until someone requests another. A finished one stays as it is."""
    finish(connection, SnapshotState.FAILED, error, snapshots.c.sync_id == sync_id)
