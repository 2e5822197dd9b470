"""Blocks are unpacked once, in a thread beside the followers, and damage is left to the follower."""

import threading
from contextlib import closing

import pytest
from sqlalchemy import Engine

from discovery import registry
from lr_client.subscriber.followed_queue import FollowedQueue, Options
from lr_client.subscriber.follower import Follower
from lr_client.subscriber.sleepers import sleepers_of
from lr_client.subscriber.unpacker import Unpacker
from queues.blocks import EntryRow, encode_entries
from queues.clock import SYSTEM_CLOCK
from queues.database import leases
from queues.database.transactions import reading
from queues.errors import NeedsFullSyncError
from queues.receive.batches import BatchLimits
from queues.receive.block_entries import ReceivedBlock
from queues.receive.kept_blocks import KeptBlock
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from tests.lr_client.subscriber.applying import Apply
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.waiting import eventually

ONE_ENTRY = Options(BatchLimits(1, 1 << 20), "block", max_tries=1, backoff=0.01, max_backoff=0.01, idle=0.01)


def block(end: int, body: bytes | None = None) -> KeptBlock:
    packed = encode_entries([EntryRow(b"entry %d" % end, 0, 5)]).SerializeToString() if body is None else body
    return KeptBlock(ReceivedBlock(end, 1, end - 1, end - 1, 9, packed))


#: Blocks of such sizes are fetched one by one: a fetch has about a megabyte.
SIZES = (1_100_000, 600_000, 600_000)


def test_the_blocks_after_a_batch_are_read_and_unpacked_while_the_listener_works(sink: Engine, tokyo: Arrivals) -> None:
    ends = [tokyo.tick([bytes(size)]) for size in SIZES]
    with reading(sink) as connection:
        [queue] = registry.find(connection, tokyo.client)
    lease = leases.acquire(sink, "subscriber/policy", "me", ttl=60)
    stopping, unpacker = threading.Event(), Unpacker()
    seen: list[int] = []

    def unpacked() -> list[int]:
        return [each.end_seq for each in follower._kept._blocks if not each.is_packed]

    def look(_entry: RoutingTableEntryMsg) -> None:
        stopping.set()
        seen.extend(eventually(lambda: unpacked() if unpacked() == ends else []))

    with closing(sleepers_of(sink).sleeper(queue.queue_id, SYSTEM_CLOCK)) as sleeper:
        followed = FollowedQueue(
            engine=sink, listener=Apply(look), queue=queue, lease=lease, options=ONE_ENTRY,
            stopping=stopping, report=unexpected, sleeper=sleeper, unpacker=unpacker, clock=SYSTEM_CLOCK,
        )  # fmt: skip
        follower = Follower(followed)
        follower.run()
    unpacker.close()
    assert seen == ends


def unexpected(_source: str, error: Exception) -> None:
    raise error


def unpackers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lrq-unpacker"]


def test_blocks_are_unpacked_beside_their_follower_and_only_once():
    unpacker = Unpacker()
    blocks = [block(1), block(2)]
    unpacker.begin(blocks)
    eventually(lambda: not any(each.is_packed for each in blocks))
    entries = blocks[0].entries()
    assert [row.payload for row in entries.rows(0, 1)] == [b"entry 1"]
    assert blocks[0].entries() is entries
    unpacker.close()


def test_a_damaged_block_is_left_to_its_follower_and_the_next_block_is_unpacked():
    unpacker = Unpacker()
    damaged, sound = block(1, b"no block"), block(2)
    unpacker.begin([damaged, sound])
    eventually(lambda: not sound.is_packed)
    assert damaged.is_packed
    with pytest.raises(NeedsFullSyncError, match="entries from 1 to 1 are damaged"):
        damaged.entries()
    unpacker.close()


def test_the_thread_begins_with_the_first_block_and_ends_with_close():
    before = set(unpackers())
    unpacker = Unpacker()
    unpacker.begin([])
    assert set(unpackers()) == before
    one = block(1)
    unpacker.begin([one])
    eventually(lambda: not one.is_packed)
    (mine,) = set(unpackers()) - before
    unpacker.close()
    unpacker.close()
    mine.join(60)
    assert not mine.is_alive()
    late = block(2)
    unpacker.begin([late])
    assert late.is_packed
