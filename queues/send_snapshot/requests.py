"""Request, find and cancel snapshot syncs, or mark them applied; `queues.send_snapshot.attempts` builds them.

A request is one INSERT in the caller's transaction: it waits for no lock and locks no other row. Of several requests
for one (client, destination), the newest counts from its commit on. Older unfinished ones are superseded, even while
their `state` still differs; `cancel_superseded` updates that state.
"""

import uuid
from collections.abc import Iterable
from types import SimpleNamespace

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
    or_,
    select,
    update,
)

from queues.database import dialects
from queues.database.tables.sessions import sessions
from queues.database.tables.snapshots import snapshots
from queues.names import ClientName, SiteId, site_id
from queues.positions import Position
from queues.send_snapshot.providers import SILENCE, providers
from queues.send_snapshot.states import (
    EVERY_SITE,
    UNFINISHED,
    SnapshotSync,
    finish,
    snapshot_of,
    superseded,
)
from queues.states import SnapshotState
from queues.words import cleaned

#: The transferred rows of the destination's session; they belong to the one snapshot that is ready.
_SENT_ROWS = (
    select(sessions.c.transferred_rows)
    .where(sessions.c.client == snapshots.c.client, sessions.c.destination == snapshots.c.destination)
    .scalar_subquery()
)
_WITH_SENT_ROWS = select(snapshots, func.coalesce(_SENT_ROWS, 0).label("sent_rows"))
_NAMES = [column.name for column in _WITH_SENT_ROWS.selected_columns]
_NEWEST_OF_EACH = _WITH_SENT_ROWS.where(not_(superseded()))

_NUMBERS = (
    "attempt", "base_seq", "pinned_us", "expected_rows", "row_count", "byte_count", "checksum", "retry_us",
)  # fmt: skip


def request(connection: Connection, client: ClientName, destinations: Iterable[str] | None, reason: str) -> list[str]:
    """Request a snapshot for each destination, or for every site with None; return the sync ids.

    The call may be the first statement of the caller's transaction. A request for every site is one row (destination
    `EVERY_SITE`). The server's `expand` turns this row into one request for each site.
    """
    wanted = [EVERY_SITE] if destinations is None else [site_id(name) for name in dict.fromkeys(destinations)]
    now = dialects.of(connection).now_us(connection)
    return [_insert(connection, client, destination, reason, now) for destination in wanted]


def _insert(connection: Connection, client: ClientName, destination: SiteId, reason: str, now: int) -> str:
    sync_id = uuid.uuid4().hex
    # The clock may have been set back; a newer request must still be the later one.
    last = func.coalesce(func.max(snapshots.c.requested_us), 0)
    requested_us = case((last >= now, last + 1), else_=literal(now, BigInteger))
    values = {
        "sync_id": literal(sync_id, Text),
        "client": literal(client, Text),
        "destination": literal(destination, Text),
        "state": literal(SnapshotState.REQUESTED.value, Text),
        "reason": literal(cleaned(reason), Text),
        "requested_us": requested_us,
        "updated_us": literal(now, BigInteger),
        **{name: literal("", Text) for name in ("owner", "build", "branch", "cut", "progress", "error")},
        **{name: cast(literal(0), snapshots.c[name].type) for name in _NUMBERS},
    }
    earlier = snapshots.c.client == client, snapshots.c.destination == destination
    connection.execute(insert(snapshots).from_select(list(values), select(*values.values()).where(*earlier)))
    return sync_id


def expand(
    connection: Connection, client: ClientName, destinations: Iterable[SiteId], asked_for: SiteId = EVERY_SITE
) -> list[str]:
    """Turn the requests for every site, or for the group *asked_for*, into one for each of *destinations*.

    Return the new sync ids.

    A destination with a newer request of its own is skipped. The call reads before it writes, so it needs a transaction
    of `queues.database.transactions.writing`.
    """
    every = (snapshots.c.client == client, snapshots.c.destination == asked_for)
    asked = connection.execute(select(snapshots).where(*every).order_by(snapshots.c.requested_us.desc())).first()
    if asked is None:
        return []
    connection.execute(delete(snapshots).where(*every, snapshots.c.requested_us <= asked.requested_us))
    wanted = [site for site in destinations if not _requested_after(connection, client, site, asked.requested_us)]
    return request(connection, client, wanted, asked.reason)


def _requested_after(connection: Connection, client: ClientName, destination: SiteId, requested_us: int) -> bool:
    last = newest(connection, client, destination)
    return last is not None and last.requested_us > requested_us


def newest(connection: Connection, client: ClientName, destination: SiteId) -> SnapshotSync | None:
    """Return the newest request for this client and destination, finished or not; None without any."""
    row = connection.execute(
        _WITH_SENT_ROWS.where(snapshots.c.client == client, snapshots.c.destination == destination)
        .order_by(snapshots.c.requested_us.desc(), snapshots.c.sync_id.desc())
        .limit(1)
    ).first()
    return None if row is None else snapshot_of(row)


def newest_of_each(connection: Connection, *, last: bool = False) -> list[SnapshotSync]:
    """Return the newest request of every client and destination, finished or not.

    *last*: no statement follows in the transaction.
    """
    [rows] = dialects.of(connection).run_all(connection, [(_NEWEST_OF_EACH, {})], last=last)
    return [snapshot_of(SimpleNamespace(**dict(zip(_NAMES, row, strict=True)))) for row in rows]


def unprovided(connection: Connection) -> list[SnapshotSync]:
    """Return the newest request of each session that waits for a provider, while no provider of its client runs."""
    served = {each.client for each in providers(connection) if each.alive}
    silent_from = dialects.of(connection).now_us(connection) - int(SILENCE * 1_000_000)
    return [
        each
        for each in newest_of_each(connection)
        if each.client not in served
        and (
            each.state is SnapshotState.REQUESTED
            or (each.state is SnapshotState.BUILDING and each.updated_us < silent_from)
        )
    ]


def find(connection: Connection, sync_id: str) -> SnapshotSync | None:
    """Return the snapshot with this id; None if it is unknown or deleted."""
    row = connection.execute(_WITH_SENT_ROWS.where(snapshots.c.sync_id == sync_id)).first()
    return None if row is None else snapshot_of(row)


def of_build(connection: Connection, build: str) -> SnapshotSync | None:
    """Return one of the snapshots that a build serves; None if it serves none any more."""
    row = connection.execute(_WITH_SENT_ROWS.where(snapshots.c.build == build).limit(1)).first()
    return None if row is None else snapshot_of(row)


def listing(connection: Connection, client: ClientName | None = None, *, limit: int = 100) -> list[SnapshotSync]:
    """Return the newest *limit* requests, newest first, of one client or of all."""
    wanted = _WITH_SENT_ROWS.order_by(snapshots.c.requested_us.desc(), snapshots.c.sync_id.desc()).limit(limit)
    if client is not None:
        wanted = wanted.where(snapshots.c.client == client)
    return [snapshot_of(row) for row in connection.execute(wanted)]


def clients_to_cancel(connection: Connection, destination: SiteId | None = None) -> list[str]:
    """Return the clients with unfinished snapshots, for one destination or all, in order."""
    wanted = select(snapshots.c.client).distinct().where(snapshots.c.state.in_(UNFINISHED), not_(superseded()))
    if destination is not None:
        wanted = wanted.where(snapshots.c.destination == destination)
    return sorted(connection.execute(wanted).scalars())


def cancel(
    connection: Connection, client: ClientName, destination: SiteId | None = None, *, reason: str = "cancelled"
) -> int:
    """Cancel the unfinished snapshots of *client*, for one destination or all; return their number."""
    chosen = [snapshots.c.client == client]
    if destination is not None:
        chosen.append(snapshots.c.destination == destination)
    return finish(connection, SnapshotState.CANCELLED, reason, *chosen)


def applied_bases(connection: Connection, client: ClientName, destination: SiteId) -> list[Position]:
    """Return the bases of the applied snapshots of *client* at *destination* whose rows still exist."""
    applied = (
        snapshots.c.client == client,
        snapshots.c.destination == destination,
        snapshots.c.state == SnapshotState.APPLIED,
    )
    columns = snapshots.c.branch, snapshots.c.base_seq, snapshots.c.cut
    return [Position(*row) for row in connection.execute(select(*columns).where(*applied))]


def has_cut(connection: Connection, sync_id: str, cut: str) -> bool:
    """Return whether the snapshot *sync_id* was built at this *cut*, as far as this database knows."""
    built = snapshots.c.sync_id == sync_id, snapshots.c.cut == cut
    return connection.execute(select(snapshots.c.sync_id).where(*built)).first() is not None


def lacked_base(connection: Connection, client: ClientName, destination: SiteId, sync_id: str) -> int:
    """Return the base of the newest snapshot that was applied at *destination*, which has *sync_id* now.

    Return -1 if the destination has that snapshot or a later one, and without an applied one. A snapshot of a ring has
    no cut. The members do not know all snapshots of each other, so a later one may end at the same base.
    """
    own = snapshots.c.client == client, snapshots.c.destination == destination
    order = snapshots.c.requested_us.desc(), snapshots.c.sync_id.desc()
    counts = or_(snapshots.c.state == SnapshotState.APPLIED, snapshots.c.sync_id == sync_id)
    columns = snapshots.c.sync_id, snapshots.c.base_seq, snapshots.c.cut
    found = connection.execute(select(*columns).where(*own, counts).order_by(*order).limit(1)).first()
    if found is None or found.sync_id == sync_id:
        return -1
    return int(found.base_seq) if found.cut else int(found.base_seq) - 1


def has_unfinished(connection: Connection) -> bool:
    """Return whether any request is waiting, being built or ready."""
    unfinished = select(snapshots.c.sync_id).where(snapshots.c.state.in_(UNFINISHED)).limit(1)
    return connection.execute(unfinished).first() is not None


def cancel_all(connection: Connection, reason: str) -> int:
    """Cancel all unfinished snapshots, also complete ones; return their number."""
    return finish(connection, SnapshotState.CANCELLED, reason)


def withdraw(connection: Connection, sync_id: str) -> None:
    """Delete a request of the caller's own transaction."""
    connection.execute(delete(snapshots).where(snapshots.c.sync_id == sync_id))


def forget(connection: Connection, client: ClientName, destination: SiteId) -> None:
    """Delete all requests of *client* for *destination*; `collect_garbage` deletes rows that serve no other site."""
    own = (snapshots.c.client == client) & (snapshots.c.destination == destination)
    connection.execute(delete(snapshots).where(own))


def cancel_exactly(connection: Connection, sync_id: str, reason: str) -> bool:
    """Cancel one unfinished snapshot, also a complete one, and no newer request; return whether there was one."""
    return finish(connection, SnapshotState.CANCELLED, reason, snapshots.c.sync_id == sync_id) > 0


def cancel_one(connection: Connection, sync_id: str, reason: str) -> None:
    """Cancel one snapshot that is not ready; later states stay."""
    waiting = snapshots.c.state.in_([SnapshotState.REQUESTED, SnapshotState.BUILDING])
    finish(connection, SnapshotState.CANCELLED, reason, snapshots.c.sync_id == sync_id, waiting)


def mark_applied(connection: Connection, sync_id: str) -> bool:
    """Record that the sink has the whole snapshot, so that its rows can be deleted; return whether that is new."""
    now = dialects.of(connection).now_us(connection)
    ready = snapshots.c.sync_id == sync_id, snapshots.c.state == SnapshotState.READY
    marked = connection.execute(update(snapshots).where(*ready).values(state=SnapshotState.APPLIED, updated_us=now))
    return marked.rowcount > 0
