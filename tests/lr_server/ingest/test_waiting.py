"""Requests wait in a bounded queue, and producers take turns."""

import threading

import pytest

from lr_server.ingest.pending import Pending, Slot
from lr_server.ingest.waiting import Room, Waiting, full, is_enough, turn
from queues.clock import SYSTEM_CLOCK
from queues.names import ClientName
from queues.send_log.producers import ProducerKey, Production
from tests.waiting import eventually


def pending(producer: str, sequence: int, size: int = 1) -> Pending:
    return Pending(Production(ProducerKey(ClientName("c"), producer), sequence, ()), Slot(size), lambda _replies: None)


def names(group: list[Pending]) -> list[tuple[str, int]]:
    return [(each.production.key.producer, each.production.sequence) for each in group]


@pytest.mark.parametrize(
    ("taken", "own", "size", "refused"),
    [
        (Room(0, 0), Room(0, 0), 1_000, ""),
        (Room(7, 7), Room(1, 1), 1, ""),
        (Room(8, 8), Room(0, 0), 1, "8 requests wait at this server"),
        (Room(7, 39), Room(0, 0), 1, ""),
        (Room(7, 39), Room(0, 0), 2, "7 requests wait at this server"),
        (Room(2, 2), Room(2, 2), 1, "2 requests of this producer wait"),
        (Room(1, 9), Room(1, 9), 1, ""),
        (Room(1, 9), Room(1, 9), 2, "1 requests of this producer wait"),
    ],
)
def test_a_request_waits_only_within_the_room_of_all_and_of_its_producer(
    taken: Room, own: Room, size: int, refused: str
) -> None:
    assert full(taken, own, Room(1, size), Room(8, 40)).startswith(refused)
    assert bool(full(taken, own, Room(1, size), Room(8, 40))) == bool(refused)


@pytest.mark.parametrize(
    ("waiting", "expected", "size", "enough"),
    [(1, 1, 1, True), (1, 2, 1, False), (2, 2, 1, True), (1, 9, 10, True), (4, 9, 1, True), (3, 9, 1, False)],
)
def test_a_group_waits_for_more_only_while_more_is_likely(waiting: int, expected: int, size: int, enough: bool) -> None:
    assert is_enough(waiting, expected, size, Room(4, 10)) == enough


def test_producers_take_turns_and_each_keeps_its_order() -> None:
    queue = Waiting(Room(100, 100), Room(5, 100), SYSTEM_CLOCK)
    for sequence in range(1, 7):
        assert queue.put([pending("loud", sequence)]) == ""
    assert queue.put([pending("quiet", 1)]) == ""
    assert names(queue.take()) == [("loud", number) for number in range(1, 6)]
    assert names(queue.take()) == [("quiet", 1), ("loud", 6)]
    assert len(queue) == 0


@pytest.mark.parametrize(
    ("producers", "most"), [(0, 64), (1, 64), (64, 64), (65, 63), (1_000, 4), (4_096, 1), (9_999, 1)]
)
def test_the_more_producers_wait_the_shorter_is_a_turn(producers: int, most: int) -> None:
    assert turn(producers, 1_024) == most


def test_a_request_beside_many_loud_producers_waits_for_four_groups_at_most() -> None:
    queue = Waiting(Room(100_000, 100_000), Room(20, 100_000), SYSTEM_CLOCK)
    for number in range(30):
        queue.put([pending(f"loud{number}", sequence) for sequence in range(1, 51)])
    queue.put([pending("quiet", 1)])
    groups = [names(queue.take()) for _ in range(4)]
    assert any(("quiet", 1) in group for group in groups)


def test_requests_that_come_together_wait_together_or_not_at_all() -> None:
    queue = Waiting(Room(16, 1_000), Room(9, 1_000), SYSTEM_CLOCK)
    queue.put([pending("p", 1), pending("p", 2)])
    assert "2 requests of this producer wait" in queue.put([pending("p", number) for number in (3, 4, 5)])
    assert queue.put([pending("p", 3), pending("p", 4)]) == ""
    assert len(queue) == 4


def test_a_group_ends_at_its_bytes_but_has_at_least_one_request() -> None:
    queue = Waiting(Room(100, 1_000), Room(5, 10), SYSTEM_CLOCK)
    for sequence, size in enumerate((50, 6, 5, 5), 1):
        assert queue.put([pending(f"p{sequence}", sequence, size)]) == ""
    assert [len(queue.take()) for _ in range(3)] == [1, 1, 2]


def test_a_full_queue_takes_more_after_a_group_was_taken() -> None:
    queue = Waiting(Room(4, 100), Room(5, 100), SYSTEM_CLOCK)
    assert queue.put([pending("p", 1)]) == ""
    assert "of this producer" in queue.put([pending("p", 2)])
    queue.take()
    assert queue.put([pending("p", 2)]) == ""


def test_the_end_of_the_queue_wakes_the_thread_that_takes() -> None:
    queue = Waiting(Room(100, 100), Room(5, 100), SYSTEM_CLOCK)
    taken: list[list[Pending]] = []
    thread = threading.Thread(target=lambda: taken.append(queue.take()))
    thread.start()
    assert queue.close("it stops") == []
    eventually(lambda: taken == [[]])
    thread.join()
    assert queue.put([pending("p", 1)]) == "it stops"


def test_requests_that_wait_at_the_end_are_returned() -> None:
    queue = Waiting(Room(100, 100), Room(5, 100), SYSTEM_CLOCK)
    queue.put([pending("p", 1)])
    assert names(queue.close("it stops")) == [("p", 1)]
    assert queue.take() == []
