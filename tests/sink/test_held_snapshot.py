"""Finding the newest marks stays fast while a held snapshot keeps every old version of their rows."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Connection, Engine, TextClause, text

from queues.database import dialects
from queues.database.leases import Lease
from queues.names import client_name, site_id
from queues.positions import Header
from queues.receive import consumer_marks, consumer_moves, entries, writer_marks
from queues.receive.writer_marks import LockedMarks
from tests.fresh_statistics import tell_statistics

UPDATES = 3_000
HEADERS = text(
    "SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::int FROM pg_statio_user_tables"
    " WHERE relname = 'lrq_receive_headers'"
)
BLOCKS = text(
    "SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::int FROM pg_statio_user_tables"
    " WHERE relname IN ('lrq_receive_marks', 'lrq_consumers')"
)


@pytest.fixture
def postgres(new_site) -> Iterator[Engine]:
    """A site's database with a held snapshot, so that PostgreSQL keeps old versions of rows."""
    engine = new_site("tokyo")
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as holder:
        holder.execute(text("SELECT count(*) FROM lrq_site"))
        yield engine


def blocks(engine: Engine, of_tables: TextClause = BLOCKS) -> int:
    """Return the number of blocks read so far, from the disk or the cache."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SELECT pg_stat_clear_snapshot()"))
        return connection.execute(of_tables).scalar_one()


def receive(connection: Connection) -> None:
    stored = writer_marks.find(connection, client_name("policy"), site_id("paris"))
    assert stored is not None
    marks = replace(stored.marks, source_seq=stored.marks.source_seq + 1)
    LockedMarks(stored).save(connection, marks, now_us=1)


def consume(connection: Connection) -> None:
    stands = consumer_marks.queue_state(connection, 1)
    assert stands is not None
    to = stands.consumed._replace(seq=stands.consumed.seq + 1)
    assert consumer_moves.move(connection, 1, Lease("subscriber", "me", 1), stands.consumed, to)
    consumer_moves.still_received(connection, 1, stands.consumed, to)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize("act", [receive, consume])
def test_the_newest_marks_are_found_in_few_blocks_after_thousands_of_updates(
    postgres: Engine, act: Callable[[Connection], None]
):
    with postgres.begin() as connection:
        assert writer_marks.register(connection, client_name("policy"), site_id("paris"), now_us=1) == 1
    consumer_marks.enroll(postgres, 1)
    with postgres.begin() as connection:
        for _ in range(UPDATES):
            act(connection)
    with postgres.begin() as connection:
        connection.execute(text("ANALYZE lrq_receive_marks, lrq_consumers"))  # as autovacuum does
        tell_statistics(connection)
    before = blocks(postgres)
    with postgres.begin() as connection:
        act(connection)
        tell_statistics(connection)
    assert 0 < blocks(postgres) - before < 40


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_old_headers_are_pruned_in_few_blocks_after_thousands_of_pruned_ones(postgres: Engine):
    with postgres.begin() as connection:
        queue_id = writer_marks.register(connection, client_name("policy"), site_id("paris"), now_us=1)

    def add(first: int, count: int, version: int, pruned_seq: int) -> int:
        new = [Header("b1", seq, seq, "") for seq in range(first, first + count)]
        with postgres.begin() as connection:
            added = entries.add_headers(connection, queue_id, new, version=version, pruned_seq=pruned_seq)
            dialects.of(connection).run_all(connection, added.statements)
            tell_statistics(connection)
        return added.pruned_seq

    pruned = 0
    for first in range(1, 20_001, 1_000):
        pruned = add(first, 1_000, 1, pruned)
    with postgres.begin() as connection:
        connection.execute(text("ANALYZE lrq_receive_headers"))  # as autovacuum does
    add(20_001, 4, 1, pruned)
    before = blocks(postgres, HEADERS)
    assert add(20_005, 0, 64, pruned) == pruned + 4
    assert 0 < blocks(postgres, HEADERS) - before < 300
