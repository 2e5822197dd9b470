"""The clients with a snapshot provider at this site: one row each, renewed while the client's transmitter runs."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, insert, select, update

from queues.database import dialects
from queues.database.tables.snapshots import snapshot_providers, snapshots
from queues.names import ClientName
from queues.states import SnapshotState

#: The seconds without a renewal after which a provider counts as dead.
SILENCE: Final = 30.0
#: The seconds for which a provider that has ended is expected back: the time of an application's restart.
ABSENCE: Final = 300.0


@dataclass(frozen=True, slots=True)
class Provider:
    """The transmitter that serves *client*, or, if not `alive`, the last one that did."""

    client: ClientName
    owner: str
    seen_us: int
    alive: bool


def provider_seen(connection: Connection, client: ClientName, owner: str) -> None:
    """Record that *owner* serves snapshot requests of *client* now; repeat the call well within `SILENCE`."""
    seen = {"owner": owner, "seen_us": dialects.of(connection).now_us(connection)}
    known = connection.execute(update(snapshot_providers).where(snapshot_providers.c.client == client).values(seen))
    if not known.rowcount:
        connection.execute(insert(snapshot_providers).values(client=client, **seen))


def provider_gone(connection: Connection, client: ClientName, owner: str) -> None:
    """Record that *owner* has stopped; the client stays known. Without effect if another owner serves the client."""
    mine = snapshot_providers.c.client == client, snapshot_providers.c.owner == owner
    connection.execute(update(snapshot_providers).where(*mine).values(owner=""))


def providers(connection: Connection) -> list[Provider]:
    """Return every client that ever offered snapshots at this site, by name."""
    now = dialects.of(connection).now_us(connection)
    oldest = now - int(SILENCE * 1_000_000)
    return [
        Provider(ClientName(row.client), row.owner, row.seen_us, bool(row.owner) and row.seen_us >= oldest)
        for row in connection.execute(_PROVIDERS)
    ]


def is_provided(connection: Connection, client: ClientName) -> bool:
    """Return whether snapshots of *client* can be expected: its provider runs, or ran within `ABSENCE`.

    The answer is also True if a snapshot was ever completed, because then the client's first state is in snapshots.
    """
    seen = connection.execute(select(snapshot_providers.c.seen_us).where(snapshot_providers.c.client == client))
    seen_us = seen.scalar()
    if seen_us is not None and seen_us >= dialects.of(connection).now_us(connection) - int(ABSENCE * 1_000_000):
        return True
    complete = snapshots.c.client == client, snapshots.c.state.in_([SnapshotState.READY, SnapshotState.APPLIED])
    return connection.execute(select(snapshots.c.sync_id).where(*complete).limit(1)).first() is not None


_PROVIDERS = select(snapshot_providers).order_by(snapshot_providers.c.client)
