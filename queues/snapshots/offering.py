"""Which clients' applications offer snapshots at this site: a row a client, renewed while its transmitter runs."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, insert, select, update

from queues import dialects
from queues.names import ClientName
from queues.tables import snapshot_providers

#: A provider that was not seen for so long has died without a word, in seconds.
SILENCE: Final = 30.0


@dataclass(frozen=True, slots=True)
class Provider:
    """The transmitter that serves *client*, or did last: `alive` tells which."""

    client: ClientName
    owner: str
    seen_us: int
    alive: bool


def provider_seen(connection: Connection, client: ClientName, owner: str) -> None:
    """Note that *owner* serves snapshot requests of *client* just now; repeat it well within `SILENCE`."""
    seen = {"owner": owner, "seen_us": dialects.of(connection).now_us(connection)}
    known = connection.execute(update(snapshot_providers).where(snapshot_providers.c.client == client).values(seen))
    if not known.rowcount:
        connection.execute(insert(snapshot_providers).values(client=client, **seen))


def provider_gone(connection: Connection, client: ClientName, owner: str) -> None:
    """Note that *owner* has stopped; the client stays known. Nothing happens when another one serves it by now."""
    mine = snapshot_providers.c.client == client, snapshot_providers.c.owner == owner
    connection.execute(update(snapshot_providers).where(*mine).values(owner=""))


def providers(connection: Connection) -> list[Provider]:
    """Return every client that ever offered snapshots here, by name."""
    now = dialects.of(connection).now_us(connection)
    oldest = now - int(SILENCE * 1_000_000)
    return [
        Provider(ClientName(row.client), row.owner, row.seen_us, bool(row.owner) and row.seen_us >= oldest)
        for row in connection.execute(_PROVIDERS)
    ]


_PROVIDERS = select(snapshot_providers).order_by(snapshot_providers.c.client)
