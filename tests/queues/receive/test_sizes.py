"""The sizes of stored entries are the same in SQL and in Python."""

import pytest
from sqlalchemy import Engine

from queues.database.transactions import reading, writing
from queues.receive.batches import BatchLimits, next_entries
from queues.receive.consumer_marks import size_between
from queues.receive.entries import ReceivedColumns, append
from queues.receive.entry_ranges import EntryRange, first_sizes
from queues.receive.marks import stored_size

PAYLOADS = [b"", b"12345", b"x" * 300]
HEADERS = [None, '{"a":"b"}', '{"é":"\\u2028","c":"\\\\"}']


@pytest.fixture
def filled(site: Engine) -> Engine:
    with writing(site) as connection:
        append(connection, 1, ReceivedColumns([1, 2, 3], [1, 2, 3], [5] * 3, [None] * 3, PAYLOADS, HEADERS, []))
    return site


def test_the_database_counts_the_bytes_of_headers_as_the_writer_does(filled: Engine) -> None:
    with reading(filled) as connection:
        assert size_between(connection, 1, 0, 3) == stored_size(PAYLOADS, HEADERS)
        assert size_between(connection, 1, 2, 3) == stored_size(PAYLOADS[2:], HEADERS[2:])
        sizes = [size.bytes for size in first_sizes(connection, EntryRange(1, 0, 3), 9)]
    assert sizes == [stored_size([each], [more]) - 64 for each, more in zip(PAYLOADS, HEADERS, strict=True)]


def test_headers_count_for_the_limit_of_a_listener_s_call(filled: Engine) -> None:
    def taken(limit: int) -> list[int]:
        with reading(filled) as connection:
            return [row.seq for row in next_entries(connection, 1, 0, 3, BatchLimits(10, limit)).rows]

    assert taken(len(PAYLOADS[1]) + len('{"a":"b"}')) == [1, 2]
    assert taken(len(PAYLOADS[1]) + len('{"a":"b"}') - 1) == [1]
