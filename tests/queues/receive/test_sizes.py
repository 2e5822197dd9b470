"""The sizes of received entries, which count for the room of a queue and for a listener's call."""

import pytest
from sqlalchemy import Engine

from queues.blocks import EntryRow
from queues.database.transactions import reading, writing
from queues.receive import log_blocks
from queues.receive.batches import BatchLimits, next_entries
from queues.receive.entry_ranges import EntryRange, first_sizes
from queues.receive.kept_blocks import History, KeptBlocks
from tests.received import insert_block

PAYLOADS = [b"", b"12345", b"x" * 300]
HEADERS = [None, '{"a":"b"}', '{"é":"\\u2028","c":"\\\\"}']


@pytest.fixture
def filled(site: Engine) -> Engine:
    rows = [EntryRow(payload, n, 5, None, HEADERS[n]) for n, payload in enumerate(PAYLOADS)]
    with writing(site) as connection:
        insert_block(connection, 1, 0, 0, rows)
    return site


def test_the_size_of_an_entry_is_that_of_its_payload_and_its_headers(filled: Engine) -> None:
    with reading(filled) as connection:
        sizes = first_sizes(connection, EntryRange(1, 0, 3), 9).bytes
    headers = [len(text.encode()) if text else 0 for text in HEADERS]
    assert sizes == [len(payload) + more for payload, more in zip(PAYLOADS, headers, strict=True)]


def test_a_block_counts_with_its_last_entry(filled: Engine) -> None:
    with writing(filled) as connection:
        more = insert_block(connection, 1, 3, 3, [EntryRow(b"4", 0, 5)])
        assert log_blocks.size_upto(connection, 1, 0, 2) == 0
        assert log_blocks.size_upto(connection, 1, 2, 4) - log_blocks.size_upto(connection, 1, 2, 3) == more


def test_headers_count_for_the_limit_of_a_listener_s_call(filled: Engine) -> None:
    def taken(limit: int) -> list[int]:
        kept = KeptBlocks()
        kept.open(History(1, "", "", 0), 0, 9)
        with reading(filled) as connection:
            return [row.seq for row in next_entries(connection, kept, 0, 3, BatchLimits(10, limit)).rows]

    assert taken(len(PAYLOADS[1]) + len('{"a":"b"}')) == [1, 2]
    assert taken(len(PAYLOADS[1]) + len('{"a":"b"}') - 1) == [1]
