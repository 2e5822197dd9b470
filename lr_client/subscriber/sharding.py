"""Change the shards of a client; running subscriptions take the change over by themselves."""

from collections.abc import Mapping

from sqlalchemy import Engine

from queues import names
from queues.database.engine_check import require_engine
from queues.database.transactions import reading
from queues.errors import UsageError
from queues.names import SiteId
from queues.receive import shard_marks, stored_shard_maps
from queues.receive.registry import registered
from queues.receive.shard_upkeep import MAX_CHANGES
from queues.shard_maps import ShardMap, new_map, with_moves


def shards_of(engine: Engine, client: str) -> ShardMap | None:
    """Return the newest map of *client* in this database; None if it never had several shards."""
    require_engine(engine, "shards_of")
    with reading(engine) as connection:
        return stored_shard_maps.newest(connection, names.client_name(client))


def set_shards(engine: Engine, client: str, shards: int, *, partitioner: str | None = None) -> ShardMap | None:
    """Give *client* that many shards from now on, and return the new map; None if nothing changes.

    As few slots as possible change their shard. Without *partitioner*, the present one stays; a client without one gets
    "hash". Raises `UsageError` for a number out of range, and for a partitioner that is unknown or does not fit. Raises
    `StoreUnavailableError` if another process changes the shards at the same moment.

    Example:
        >>> set_shards(engine, "policy", 8)
    """
    before, name = shards_of(engine, client), names.client_name(client)
    chosen = partitioner or (before.partitioner if before else "hash")
    new = new_map(before.version + 1 if before else 1, shards, chosen, before)
    same = (new.shards, new.partitioner) == ((before.shards, before.partitioner) if before else (1, chosen))
    if same:
        return None
    stored_shard_maps.add(engine, name, new)
    return new


def waiting_sources(engine: Engine, client: str) -> list[SiteId]:
    """Return the sources whose queues of *client* cannot take the newest map yet.

    Such a queue has `MAX_CHANGES` maps in force, because a shard stands still under the first one.
    """
    require_engine(engine, "waiting_sources")
    name = names.client_name(client)
    with reading(engine) as connection:
        newest = stored_shard_maps.newest(connection, name)
        if newest is None:
            return []
        changes = {
            queue.source: shard_marks.changes_of(connection, queue.queue_id) for queue in registered(connection, name)
        }
    return [
        source for source, found in changes.items() if len(found) >= MAX_CHANGES and found[-1].version < newest.version
    ]


def move_slots(engine: Engine, client: str, moves: Mapping[int, int]) -> ShardMap:
    """Give each slot in *moves* to the shard that it names, and return the new map.

    Raises `UsageError` for a client without shards, and for a slot or shard that does not exist. A shard must keep a
    slot. Raises `StoreUnavailableError` as `set_shards` does.

    Example:
        >>> move_slots(engine, "policy", {17: 2, 900: 3})
    """
    before = shards_of(engine, client)
    if before is None or before.shards == 1:
        raise UsageError(f"{client} has one shard here: run `lrq subscribe shards {client} N` first")
    new = with_moves(before, moves)
    stored_shard_maps.add(engine, names.client_name(client), new)
    return new
