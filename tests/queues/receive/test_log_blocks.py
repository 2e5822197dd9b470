"""The blocks of a receive queue: a rollback cuts them anywhere, and a reader sees the entries that are left."""

import pytest
from sqlalchemy import Connection, Engine, select, update

from queues.blocks import EntryRow
from queues.database.tables.receive import receive_blocks
from queues.database.transactions import reading, writing
from queues.errors import NeedsFullSyncError
from queues.receive import log_blocks
from queues.receive.batches import BatchLimits, Fetched, next_entries
from queues.receive.entry_ranges import EntryRange, count_entries, end_and_count, entries_in, every_nth, first_sizes
from queues.receive.kept_blocks import History, KeptBlocks
from tests.received import insert_block

QUEUE = 1
#: Blocks of the entries 1 to 4, 7 to 8, and 9 to 12. Other destinations have the entries 5 and 6.
SPANS = [(0, 4), (6, 8), (8, 12)]
SEQS = [seq for before, end in SPANS for seq in range(before + 1, end + 1)]


def texts(*seqs: int) -> list[bytes]:
    return [b"entry %d" % seq for seq in seqs]


@pytest.fixture
def sizes(site: Engine) -> list[int]:
    """Fill a queue; give the sizes of its blocks. Each entry is a transaction of its own, and the block is a tick."""
    with writing(site) as connection:
        return [
            insert_block(
                connection,
                QUEUE,
                before,
                before,
                [EntryRow(b"entry %d" % (before + n), n - 1, 1_000 + before + n) for n in range(1, end - before + 1)],
            )
            for before, end in SPANS
        ]


def stored(connection: Connection) -> list[int]:
    return [row.seq for row in log_blocks.rows(connection, QUEUE, 0)]


def stored_size(connection: Connection) -> int:
    return sum(connection.execute(select(receive_blocks.c.size)).scalars())


@pytest.mark.parametrize("seq", range(13))
def test_a_cut_keeps_the_entries_before_it_and_frees_the_size_of_the_others(
    site: Engine, sizes: list[int], seq: int
) -> None:
    with writing(site) as connection:
        freed = log_blocks.cut_after(connection, QUEUE, seq, applied_seq=-1)
        assert stored(connection) == [each for each in SEQS if each <= seq]
        assert freed + stored_size(connection) == sum(sizes)
        rows = list(log_blocks.rows(connection, QUEUE, 0))
        assert [row.payload for row in rows] == texts(*(row.seq for row in rows))
        assert [row.transaction_seq for row in rows] == [row.seq for row in rows]


@pytest.mark.parametrize("seq", range(13))
@pytest.mark.parametrize("applied", [0, 2, 8, 10, 12])
def test_no_block_stays_whose_last_entry_is_applied(site: Engine, sizes: list[int], seq: int, applied: int) -> None:
    with writing(site) as connection:
        # The subscriber has deleted the blocks that end with an applied entry.
        connection.execute(receive_blocks.delete().where(receive_blocks.c.end_seq <= applied))
        before = stored_size(connection)
        freed = log_blocks.cut_after(connection, QUEUE, seq, applied_seq=applied)
        progress = min(applied, seq)
        left = [row.seq for row in log_blocks.rows(connection, QUEUE, progress)]
        assert left == [each for each in SEQS if progress < each <= seq]
        assert bool(connection.execute(select(receive_blocks)).first()) == bool(left)
        assert freed + stored_size(connection) == before


def test_a_block_that_was_cut_is_followed_by_other_entries(site: Engine, sizes: list[int]) -> None:
    with writing(site) as connection:
        log_blocks.cut_after(connection, QUEUE, 10, applied_seq=0)
        insert_block(connection, QUEUE, 10, 10, [EntryRow(b"other 11", 0, 5), EntryRow(b"other 12", 0, 5)])
        found = [row.payload for row in log_blocks.rows(connection, QUEUE, 8)]
    assert found == [*texts(9, 10), b"other 11", b"other 12"]


@pytest.mark.parametrize("after", range(13))
@pytest.mark.parametrize("upto", [3, 5, 8, 11, 12])
def test_a_range_is_counted_measured_and_read_alike(site: Engine, sizes: list[int], after: int, upto: int) -> None:
    wanted, expected = EntryRange(QUEUE, after, upto), [seq for seq in SEQS if after < seq <= upto]
    with reading(site) as connection:
        assert count_entries(connection, wanted) == len(expected)
        assert [row.seq for row in entries_in(connection, wanted)] == expected
        assert first_sizes(connection, wanted, 3).seqs == expected[:3]
        assert end_and_count(connection, wanted) == (expected[-1] if expected else None, len(expected))
        for step in (1, 2, 3, 20):
            assert every_nth(connection, wanted, step, len(expected)) == expected[step - 1 : -1 : step]
        assert log_blocks.count(connection, QUEUE, after, 100) == len([seq for seq in SEQS if seq > after])
        left = [seq for seq in SEQS if seq > after]
        assert log_blocks.oldest_us(connection, QUEUE, after) == (1_000 + left[0] if left else 0)


# --- batches ----------------------------------------------------------------------------------------------------


def fetch(site: Engine, kept: KeptBlocks, after: int, entries: int, *, version: int = 0, upto: int = 12) -> Fetched:
    with reading(site) as connection:
        kept.open(History(QUEUE, "", "b1", version), after, upto)
        return next_entries(connection, kept, after, upto, BatchLimits(entries, 1 << 20))


@pytest.mark.parametrize("entries", range(1, 12))
@pytest.mark.parametrize("is_kept", [True, False], ids=["kept blocks", "blocks read again"])
def test_batches_bring_every_entry_once_and_count_each_block_once(
    site: Engine, sizes: list[int], entries: int, is_kept: bool
) -> None:
    kept, after, found, blocks, freed = KeptBlocks(), 0, [], 0, 0
    while after < 12:
        batch = fetch(site, kept if is_kept else KeptBlocks(), after, entries)
        assert 0 < len(batch.rows) <= entries
        after, blocks, freed = batch.end, blocks + batch.blocks, freed + batch.freed
        found += [row.payload for row in batch.rows]
    assert (found, blocks, freed) == (texts(*SEQS), 3, sum(sizes))


def test_a_batch_before_the_end_of_a_block_ends_no_block(site: Engine, sizes: list[int]) -> None:
    batch = fetch(site, KeptBlocks(), 0, 10, upto=3)
    assert ([row.seq for row in batch.rows], batch.end, batch.blocks, batch.freed) == ([1, 2, 3], 3, 0, 0)


def test_entries_of_another_version_of_the_marks_are_read_again(site: Engine, sizes: list[int]) -> None:
    kept = KeptBlocks()
    assert [row.payload for row in fetch(site, kept, 0, 2).rows] == texts(1, 2)
    kept.moved(0)
    with writing(site) as connection:
        log_blocks.cut_after(connection, QUEUE, 2, applied_seq=2)
        insert_block(connection, QUEUE, 2, 2, [EntryRow(b"other 3", 0, 5)])
    # The blocks of the moved marks are kept, and those of any other version are not.
    assert [row.payload for row in fetch(site, kept, 2, 2, version=1, upto=3).rows] == texts(3)
    assert [row.payload for row in fetch(site, kept, 2, 2, version=2, upto=3).rows] == [b"other 3"]


def test_a_batch_may_be_read_again_from_its_beginning(site: Engine, sizes: list[int]) -> None:
    kept = KeptBlocks()
    assert list(fetch(site, kept, 0, 7).rows) == list(fetch(site, kept, 0, 7).rows)
    assert [row.seq for row in fetch(site, kept, 2, 3).rows] == [3, 4, 7]
    assert [row.seq for row in fetch(site, kept, 0, 3).rows] == [1, 2, 3]


def test_the_blocks_after_a_batch_are_read_ahead_and_wait_packed(site: Engine, sizes: list[int]) -> None:
    kept = KeptBlocks()
    assert [row.seq for row in fetch(site, kept, 0, 4, upto=4).rows] == [1, 2, 3, 4]
    assert kept.packed_after(4) == []
    with reading(site) as connection:
        kept.read_ahead(connection, 4, 4)
        assert kept.packed_after(4) == []
        kept.read_ahead(connection, 4, 12)
        assert [(block.end_seq, block.is_packed) for block in kept.packed_after(4)] == [(8, True), (12, True)]
        kept.read_ahead(connection, 4, 12)
        assert len(kept.packed_after(4)) == 2, "each block is read once"
    kept.moved(0)
    with writing(site) as connection:
        log_blocks.clear(connection, QUEUE)
    rows = fetch(site, kept, 4, 9, version=1).rows
    assert [row.payload for row in rows] == texts(*SEQS[4:]), "the blocks read ahead suffice"


def damage(site: Engine, end_seq: int) -> None:
    """Change the last byte of the stored block that ends with entry *end_seq*."""
    with writing(site) as connection:
        own = receive_blocks.c.end_seq == end_seq
        block = bytes(connection.execute(select(receive_blocks.c.block).where(own)).scalar_one())
        position = block.index(b"entry")
        broken = block[:position] + b"ENTRY" + block[position + 5 :]
        connection.execute(update(receive_blocks).where(own).values(block=broken))


def test_a_damaged_block_is_named_and_the_entries_before_it_are_read(site: Engine, sizes: list[int]) -> None:
    damage(site, 8)
    kept = KeptBlocks()
    assert [row.seq for row in fetch(site, kept, 0, 3).rows] == [1, 2, 3]
    before = fetch(site, kept, 3, 3)
    assert ([row.seq for row in before.rows], before.end, before.blocks, before.freed) == ([4], 4, 1, sizes[0])
    with pytest.raises(NeedsFullSyncError, match=r"entries from 7 to 8 are damaged .*: request a snapshot"):
        fetch(site, kept, 6, 3)
    with reading(site) as connection:
        assert log_blocks.oldest_us(connection, QUEUE, 6) == 0


def test_a_block_with_fewer_rows_than_it_says_is_damaged(site: Engine, sizes: list[int]) -> None:
    with writing(site) as connection:
        connection.execute(update(receive_blocks).where(receive_blocks.c.end_seq == 12).values(start_seq=7))
    with pytest.raises(NeedsFullSyncError, match="the block has only 4 rows"):
        fetch(site, KeptBlocks(), 8, 3)


def test_a_transaction_that_goes_on_in_a_damaged_block_is_not_delivered_in_part(site: Engine) -> None:
    with writing(site) as connection:
        insert_block(connection, QUEUE, 0, 0, [EntryRow(b"entry 1", 0, 5), EntryRow(b"entry 2", 1, 5)])
        insert_block(connection, QUEUE, 0, 2, [EntryRow(b"entry 3", 1, 5), EntryRow(b"entry 4", 3, 5)])
    damage(site, 4)
    assert [row.seq for row in fetch(site, KeptBlocks(), 0, 1).rows] == [1]
    with pytest.raises(NeedsFullSyncError, match="entries from 3 to 4"):
        fetch(site, KeptBlocks(), 1, 1)
