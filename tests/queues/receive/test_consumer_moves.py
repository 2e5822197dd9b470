"""The moves of a subscriber: how far the log reaches, and which entries a move removes."""

import pytest
from sqlalchemy import Engine

from queues.database.transactions import writing
from queues.receive import consumer_moves
from queues.receive.consumer_marks import IN_LOG, Consumed
from tests.lr_client.subscriber.arrivals import BRANCH, Arrivals


@pytest.fixture
def tokyo(site: Engine) -> Arrivals:
    """A queue that has received the entries 1 to 3, one a tick."""
    made = Arrivals(site)
    for payload in (b"1", b"2", b"3"):
        made.tick([payload])
    return made


def at(seq: int, *, branch: str = BRANCH, sync_id: str = "") -> Consumed:
    return Consumed(IN_LOG, sync_id, 0, branch, seq)


def reached(tokyo: Arrivals, to: Consumed) -> bool:
    with writing(tokyo.engine) as connection:
        return consumer_moves.still_received(connection, tokyo.queue_id(connection), at(0, sync_id=to.sync_id), to)


def test_the_log_reaches_its_end_and_not_one_entry_further(tokyo: Arrivals):
    assert [reached(tokyo, at(seq)) for seq in range(6)] == [True, True, True, True, False, False]


@pytest.mark.parametrize("kept", range(4))
def test_after_a_rollback_the_log_reaches_the_place_where_the_sink_went_back(tokyo: Arrivals, kept: int):
    tokyo.go_back(kept)
    assert [reached(tokyo, at(seq)) for seq in range(4)] == [seq <= kept for seq in range(4)]


def test_an_incomplete_tick_is_not_reached(tokyo: Arrivals):
    tokyo.part_of_a_tick([b"4"])
    assert not reached(tokyo, at(4))
    tokyo.complete_the_tick()
    assert reached(tokyo, at(4))


def test_another_branch_or_snapshot_is_not_reached(tokyo: Arrivals):
    assert not reached(tokyo, at(3, branch="branch-2"))
    assert not reached(tokyo, at(3, sync_id="s1"))


@pytest.mark.parametrize(("after", "end"), [(0, 1), (0, 3), (1, 2), (2, 3), (3, 3)])
def test_exactly_the_entries_between_two_places_are_removed(tokyo: Arrivals, after: int, end: int):
    with writing(tokyo.engine) as connection:
        queue_id = tokyo.queue_id(connection)
        assert consumer_moves.remove_entries(connection, queue_id, at(after), BRANCH, end) == end - after
    assert tokyo.left == 3 - (end - after)
