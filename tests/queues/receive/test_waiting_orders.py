"""A quick question tells whether any order of a replay waits."""

import pytest
from sqlalchemy import Engine, insert

from queues.database.tables.receive import receive_queues
from queues.database.transactions import reading, writing
from queues.receive import replays
from queues.receive.replays import ReplayState, ReplayWish, all_waiting, is_any_waiting

QUEUE = {"queue_id": 1, "client": "policy", "source": "oslo", "name": "LRQ_Recv", "tag": "tag", "registered_us": 0}


def waits(site: Engine) -> bool:
    with reading(site) as connection:
        found = is_any_waiting(connection)
    with reading(site) as connection:
        assert found is bool(all_waiting(connection))
    return found


@pytest.mark.parametrize("end", [ReplayState.BEGUN, ReplayState.REFUSED, ReplayState.CANCELLED])
def test_an_order_waits_until_it_has_an_answer(site: Engine, end: ReplayState) -> None:
    assert not waits(site)
    with writing(site) as connection:
        connection.execute(insert(receive_queues).values(QUEUE))
        replays.place(connection, 1, ReplayWish(from_seq=1), "ada")
    assert waits(site)
    with writing(site) as connection:
        [order] = all_waiting(connection)
        assert replays.end(connection, order, end, "done")
    assert not waits(site)
