"""The receive queue: its headers, its announcement, and the enrolment of its subscriber."""

import threading

import pytest
from sqlalchemy import insert, select, text, update

from queues.database import dialects
from queues.database.tables.consumers import consumers
from queues.database.tables.receive import receive_queues
from queues.database.transactions import writing
from queues.names import client_name, site_id
from queues.positions import Header
from queues.receive import consumer_marks, writer_marks
from queues.receive.entries import KEPT_HEADERS, add_headers
from tests.sink.frames import BRANCH

POLICY, PARIS = client_name("policy"), site_id("paris")


def test_only_a_bounded_number_of_the_newest_headers_is_kept(engine, contents):
    with writing(engine) as connection:
        queue_id = writer_marks.register(connection, POLICY, PARIS, now_us=1)
        pruned = 0
        for seq in range(1, 3000):
            added = [Header(BRANCH, seq, seq, "")]
            then, pruned = add_headers(connection, queue_id, added, version=seq, pruned_seq=pruned)
            dialects.of(connection).run_all(connection, then)
    oldest, *kept = [seq for _, seq, _, _ in contents.headers()]
    assert oldest == 1, "the oldest header bounds replays"
    assert kept == list(range(kept[0], 3000))
    assert KEPT_HEADERS <= len(kept) <= KEPT_HEADERS + 256


def test_a_batch_of_very_many_ticks_keeps_only_the_newest_headers(engine, contents):
    with writing(engine) as connection:
        queue_id = writer_marks.register(connection, POLICY, PARIS, now_us=1)
        headers = [Header(BRANCH, seq, seq, "") for seq in range(1, 5001)]
        then, _ = add_headers(connection, queue_id, headers, version=1)
        dialects.of(connection).run_all(connection, then)
    assert len(contents.headers()) == KEPT_HEADERS
    assert contents.headers()[-1][1] == 5000


def test_a_rolled_back_transaction_announces_no_queue(engine, contents):
    with engine.connect() as connection, connection.begin() as transaction:
        writer_marks.register(connection, POLICY, PARIS, now_us=1)
        transaction.rollback()
    assert contents.queues() == []


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_simultaneous_enrolments_make_one_row_that_the_later_does_not_reset(engine):
    with writing(engine) as connection:
        queue_id = writer_marks.register(connection, POLICY, PARIS, now_us=1)
    with writing(engine) as connection:
        # The other subscriber has come as far as this lock.
        connection.execute(select(receive_queues).with_for_update())
        late = threading.Thread(target=consumer_marks.enroll, args=(engine, queue_id))
        late.start()
        waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
        while not connection.execute(waits).scalar_one():
            pass
        row = {"queue_id": queue_id, "version": 0, "generation": 0, "phase": "log", "sync_id": "", "row_no": 0}
        row |= {"undoes": False, "back_seq": consumer_marks.NOWHERE}
        connection.execute(insert(consumers).values(branch="", seq=0, applied_total=0, updated_us=1, **row))
        connection.execute(update(consumers).values(version=1))
    late.join()
    with engine.connect() as connection:
        assert connection.execute(select(consumers.c.version)).scalars().all() == [1]
