"""Balance the shards of a client whose partitioner adapts, by the entries that wait in its receive queues."""

from collections.abc import Iterator
from contextlib import suppress
from functools import reduce
from itertools import islice, takewhile
from operator import add
from typing import Final

from sqlalchemy import Connection, Engine

from discovery.registry import find
from lr_client.subscriber.shard_steps import KnownMaps, ShardedQueue, read_shards
from queues.database.transactions import reading
from queues.errors import NeedsFullSyncError, StoreUnavailableError
from queues.names import ClientName
from queues.receive import log_blocks, stored_shard_maps
from queues.shard_maps import ShardMap, with_moves
from queues.shard_plan import Change, ShardsView
from queues.shard_stretches import Candidate
from queues.slot_moves import NO_WORK, Work, balancing_moves, work_of

#: The most entries of one queue that are looked at.
_LOOK: Final = 4096


def balance(engine: Engine, client: ClientName) -> bool:
    """Store a map with better owners for the hottest slots; return whether there was one."""
    maps = KnownMaps(client)
    with reading(engine, snapshot=True) as connection:
        newest = stored_shard_maps.newest(connection, client)
        if newest is None or newest.shards == 1 or not newest.adapts:
            return False
        found = [_work(connection, queue.queue_id, client, maps, newest) for queue in find(connection, client)]
    moves = balancing_moves(newest, reduce(add, found, NO_WORK))
    if moves:
        with suppress(StoreUnavailableError):  # another process has stored a map at this moment
            stored_shard_maps.add(engine, client, with_moves(newest, moves))
    return bool(moves)


def _work(connection: Connection, queue_id: int, client: ClientName, maps: KnownMaps, newest: ShardMap) -> Work:
    """Return the work in one queue; none while its shards have not taken the newest map."""
    queue = read_shards(connection, queue_id, client, maps)
    if queue is None or not queue.is_in_log:
        return NO_WORK
    view = queue.view or _first_view(queue, newest)
    if view.changes[-1].map.version != newest.version:
        return NO_WORK
    return work_of(view, _waiting(connection, queue_id, view, queue.stands.received.boundary_seq))


def _first_view(queue: ShardedQueue, newest: ShardMap) -> ShardsView:
    """Return the view that a queue without shards will have under its first map."""
    begin = queue.stands.consumed.seq
    return ShardsView(dict.fromkeys(range(newest.shards), begin), [Change(begin, newest)])


def _waiting(connection: Connection, queue_id: int, view: ShardsView, upto: int) -> Iterator[Candidate]:
    """Yield the next transactions; a part of a larger one counts as one."""
    with suppress(NeedsFullSyncError):  # the follower of the shard reports a damaged block
        for block in islice(log_blocks.entries(connection, queue_id, view.lowest, upto), _LOOK):
            if block.first > view.lowest + _LOOK:
                return
            for part in takewhile(lambda each: each.first <= upto, block.transactions(view.lowest, upto)):
                yield Candidate(part.first, part.end, part.keys, part.entries, part.bytes)
