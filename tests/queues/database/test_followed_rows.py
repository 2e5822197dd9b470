"""The order in which the rows of followed tables are sent."""

import pytest

from queues.database.followed_rows import parents_first


@pytest.mark.parametrize(
    ("references", "order"),
    [
        ([], "abc"),
        ([("a", "b")], "bca"),
        ([("a", "c"), ("c", "b")], "bca"),
        ([("a", "a"), ("b", "x"), ("x", "c")], "abc"),
        ([("a", "b"), ("b", "a")], "abc"),
    ],
)
def test_parents_come_first(references: list[tuple[str, str]], order: str):
    assert parents_first(list("abc"), references) == list(order)
