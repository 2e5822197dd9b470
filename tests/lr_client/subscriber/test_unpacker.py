"""Blocks are unpacked once, in a thread beside the followers, and damage is left to the follower."""

import threading

import pytest

from lr_client.subscriber.unpacker import Unpacker
from queues.blocks import EntryRow, encode_entries
from queues.errors import NeedsFullSyncError
from queues.receive.kept_blocks import KeptBlock
from queues.receive.log_blocks import ReceivedBlock
from tests.waiting import eventually


def block(end: int, body: bytes | None = None) -> KeptBlock:
    packed = encode_entries([EntryRow(b"entry %d" % end, 0, 5)]).SerializeToString() if body is None else body
    return KeptBlock(ReceivedBlock(end, 1, end - 1, end - 1, 9, packed))


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
    mine.join(10)
    assert not mine.is_alive()
    late = block(2)
    unpacker.begin([late])
    assert late.is_packed
