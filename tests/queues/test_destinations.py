"""Sets of destinations in memory."""

import pytest

from queues.destinations import destination_set
from queues.names import ClientName

CLIENT = ClientName("policy")


def names(number: int, count: int) -> list[str]:
    return [f"site-{number}-{name}" for name in range(count)]


@pytest.mark.parametrize("count", [1, 32, 33, 1_024, 1_025, 16_384])
def test_a_set_is_made_once_while_it_is_remembered(count: int) -> None:
    first = destination_set(CLIENT, names(0, count))
    assert destination_set(CLIENT, names(0, count)) is first
    assert destination_set(ClientName("other"), names(0, count)) != first


@pytest.mark.parametrize(("count", "others"), [(1_024, 64), (16_384, 4), (16_385, 0)])
def test_the_larger_sets_are_the_fewer_are_remembered(count: int, others: int) -> None:
    first = destination_set(CLIENT, names(0, count))
    for number in range(1, others + 1):
        destination_set(CLIENT, names(number, count))
    again = destination_set(CLIENT, names(0, count))
    assert again == first
    assert again is not first


def test_the_order_of_many_names_and_repeated_ones_make_no_other_set() -> None:
    given = names(0, 100)
    assert destination_set(CLIENT, [*reversed(given), *given]) == destination_set(CLIENT, given)
