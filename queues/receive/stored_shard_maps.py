"""The maps of slots to shards that are stored for each client; a map is checked before."""

from collections.abc import Collection
from typing import Final

from sqlalchemy import Connection, Engine, bindparam, delete, exc, func, insert, select

from queues.clock import now_us
from queues.database.tables.receive import receive_queues
from queues.database.tables.shards import shard_changes, shard_maps
from queues.database.transactions import writing_briefly
from queues.errors import StoreUnavailableError
from queues.names import ClientName
from queues.shard_maps import ShardMap, checked

#: The newest maps that are kept in any case, because a subscriber may just begin to use one.
_KEPT: Final = 16
_COLUMNS: Final = tuple(shard_maps.c[name] for name in ("version", "shards", "partitioner", "owners"))
_NEWEST: Final = (
    select(*_COLUMNS).where(shard_maps.c.client == bindparam("client")).order_by(shard_maps.c.version.desc()).limit(1)
)
_VERSION: Final = select(func.max(shard_maps.c.version)).where(shard_maps.c.client == bindparam("client"))


def newest(connection: Connection, client: ClientName) -> ShardMap | None:
    """Return the newest map of *client*; None for a client that never had shards."""
    row = connection.execute(_NEWEST, {"client": client}).first()
    return None if row is None else _map(*row)


def newest_version(connection: Connection, client: ClientName) -> int:
    """Return the version of the newest map of *client*; 0 without one."""
    return int(connection.execute(_VERSION, {"client": client}).scalar() or 0)


def of_versions(connection: Connection, client: ClientName, versions: Collection[int]) -> dict[int, ShardMap]:
    """Return the maps of *client* with these versions."""
    own = shard_maps.c.client == client, shard_maps.c.version.in_(versions)
    return {row.version: _map(*row) for row in connection.execute(select(*_COLUMNS).where(*own))}


def add(engine: Engine, client: ClientName, new: ShardMap) -> None:
    """Store *new* as the newest map of *client*, and forget maps that no queue uses.

    Raises `UsageError` for a map that breaks a rule, and `StoreUnavailableError` if another map has that version.
    """
    checked(new)
    used = (
        select(shard_changes.c.version)
        .join(receive_queues, receive_queues.c.queue_id == shard_changes.c.queue_id)
        .where(receive_queues.c.client == client)
    )
    own = shard_maps.c.client == client
    try:
        with writing_briefly(engine) as connection:
            connection.execute(
                insert(shard_maps).values(
                    client=client,
                    version=new.version,
                    shards=new.shards,
                    partitioner=new.partitioner,
                    owners=" ".join(map(str, new.owners)),
                    created_us=now_us(),
                )
            )
            old = own, shard_maps.c.version < new.version - _KEPT, shard_maps.c.version.not_in(used)
            connection.execute(delete(shard_maps).where(*old))
    except exc.IntegrityError as error:
        raise StoreUnavailableError(f"another map of {client} was stored at the same moment: try again") from error


def _map(version: int, shards: int, partitioner: str, owners: str) -> ShardMap:
    return ShardMap(version, shards, partitioner, tuple(map(int, owners.split())))
