"""Finding the newest marks stays fast while a held snapshot keeps every old version of their rows."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Connection, Engine, text

from queues.database.leases import Lease
from queues.names import client_name, site_id
from queues.receive import consumer_marks, consumer_moves, writer_marks
from queues.receive.writer_marks import LockedMarks
from tests.fresh_statistics import tell_statistics

UPDATES = 3_000
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


def blocks(engine: Engine) -> int:
    """Return the number of blocks read so far, from the disk or the cache."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SELECT pg_stat_clear_snapshot()"))
        return connection.execute(BLOCKS).scalar_one()


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
