"""The store of the sink's side."""

from queues.names import client_name, site_id
from queues.positions import Header
from queues.receive import receiving
from queues.receive.receiving import KEPT_HEADERS
from queues.transactions import writing
from tests.sink.frames import BRANCH

POLICY, PARIS = client_name("policy"), site_id("paris")


def test_only_about_the_newest_headers_are_kept(engine, contents):
    with writing(engine) as connection:
        queue_id = receiving.register(connection, POLICY, PARIS, now_us=1)
        for seq in range(1, 3000):
            receiving.add_headers(connection, queue_id, [Header(BRANCH, seq, seq, "")], before=seq - 1)
    kept = [seq for _, seq, _, _ in contents.headers()]
    assert kept == list(range(kept[0], 3000))
    assert KEPT_HEADERS <= len(kept) <= KEPT_HEADERS + 256


def test_a_batch_of_very_many_ticks_keeps_only_the_newest_headers(engine, contents):
    with writing(engine) as connection:
        queue_id = receiving.register(connection, POLICY, PARIS, now_us=1)
        headers = [Header(BRANCH, seq, seq, "") for seq in range(1, 5001)]
        receiving.add_headers(connection, queue_id, headers, before=0)
    assert len(contents.headers()) == KEPT_HEADERS
    assert contents.headers()[-1][1] == 5000


def test_a_rolled_back_transaction_announces_nothing(engine, contents):
    with engine.connect() as connection, connection.begin() as transaction:
        receiving.register(connection, POLICY, PARIS, now_us=1)
        transaction.rollback()
    assert contents.queues() == []
