"""The store of the sink's side."""

import threading

import pytest
from sqlalchemy import insert, select, text, update

from queues import dialects
from queues.names import client_name, site_id
from queues.positions import Header
from queues.receive import consuming, receiving
from queues.receive.contents import KEPT_HEADERS, add_headers
from queues.tables import consumers, receive_queues
from queues.transactions import writing
from tests.sink.frames import BRANCH

POLICY, PARIS = client_name("policy"), site_id("paris")


def test_only_about_the_newest_headers_are_kept(engine, contents):
    with writing(engine) as connection:
        queue_id = receiving.register(connection, POLICY, PARIS, now_us=1)
        for seq in range(1, 3000):
            then = add_headers(connection, queue_id, [Header(BRANCH, seq, seq, "")], version=seq)
            dialects.of(connection).run_all(connection, then)
    kept = [seq for _, seq, _, _ in contents.headers()]
    assert kept == list(range(kept[0], 3000))
    assert KEPT_HEADERS <= len(kept) <= KEPT_HEADERS + 256


def test_a_batch_of_very_many_ticks_keeps_only_the_newest_headers(engine, contents):
    with writing(engine) as connection:
        queue_id = receiving.register(connection, POLICY, PARIS, now_us=1)
        headers = [Header(BRANCH, seq, seq, "") for seq in range(1, 5001)]
        then = add_headers(connection, queue_id, headers, version=1)
        dialects.of(connection).run_all(connection, then)
    assert len(contents.headers()) == KEPT_HEADERS
    assert contents.headers()[-1][1] == 5000


def test_a_rolled_back_transaction_announces_nothing(engine, contents):
    with engine.connect() as connection, connection.begin() as transaction:
        receiving.register(connection, POLICY, PARIS, now_us=1)
        transaction.rollback()
    assert contents.queues() == []


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_subscriber_that_enrolls_while_another_one_does_and_moves_on_makes_no_second_row(engine):
    with writing(engine) as connection:
        queue_id = receiving.register(connection, POLICY, PARIS, now_us=1)
    with writing(engine) as connection:
        # As far as the other one has come.
        connection.execute(select(receive_queues).with_for_update())
        late = threading.Thread(target=consuming.enroll, args=(engine, queue_id))
        late.start()
        waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
        while not connection.execute(waits).scalar_one():
            pass
        row = {"queue_id": queue_id, "version": 0, "generation": 0, "phase": "log", "sync_id": "", "row_no": 0}
        row |= {"undoes": False, "back_seq": consuming.NOWHERE}
        connection.execute(insert(consumers).values(branch="", seq=0, applied_total=0, updated_us=1, **row))
        connection.execute(update(consumers).values(version=1))
    late.join()
    with engine.connect() as connection:
        assert connection.execute(select(consumers.c.version)).scalars().all() == [1]
