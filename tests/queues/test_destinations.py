"""Sets of destinations in memory."""

from queues.destinations import MAX_REMEMBERED_NAMES, destination_set
from queues.names import ClientName

CLIENT = ClientName("policy")


def names(number: int, count: int) -> list[str]:
    return [f"site-{number}-{name}" for name in range(count)]


def test_a_set_of_many_names_is_made_once_while_it_is_remembered() -> None:
    first = destination_set(CLIENT, names(0, 1_000))
    assert destination_set(CLIENT, names(0, 1_000)) is first
    assert destination_set(ClientName("other"), names(0, 1_000)) != first


def test_the_remembered_names_of_large_sets_have_a_limit() -> None:
    first = destination_set(CLIENT, names(0, 1_000))
    for number in range(1, 4):
        destination_set(CLIENT, names(number, MAX_REMEMBERED_NAMES // 3))
    again = destination_set(CLIENT, names(0, 1_000))
    assert again == first
    assert again is not first


def test_the_order_of_many_names_and_repeated_ones_make_no_other_set() -> None:
    given = names(0, 100)
    assert destination_set(CLIENT, [*reversed(given), *given]) == destination_set(CLIENT, given)
