"""Where a batch is cut: whole transactions, as many as fit, at least one."""

from hypothesis import given
from hypothesis import strategies as st

from queues.receive.upcoming import Limits, Size, rows_within

transactions = st.lists(st.lists(st.integers(0, 10), min_size=1, max_size=6), min_size=1, max_size=8)
limits = st.builds(Limits, entries=st.integers(1, 12), bytes=st.integers(1, 60))


def sizes_of(transactions: list[list[int]]) -> list[Size]:
    """Number the rows of *transactions*, given as the sizes of their rows."""
    sizes: list[Size] = []
    for rows in transactions:
        first = len(sizes) + 1
        sizes += [Size(first + n, first, size) for n, size in enumerate(rows)]
    return sizes


def best(transactions: list[list[int]], limits: Limits) -> int:
    """Return the number of rows to take: the plain definition."""
    rows = total = 0
    for n, transaction in enumerate(transactions):
        fits = rows + len(transaction) <= limits.entries and total + sum(transaction) <= limits.bytes
        if n and not fits:
            break
        rows += len(transaction)
        total += sum(transaction)
    return rows


@given(transactions, limits)
def test_as_many_whole_transactions_are_taken_as_fit_and_at_least_one(
    transactions: list[list[int]], limits: Limits
) -> None:
    seen = sizes_of(transactions)[: limits.entries + 1]
    taken = rows_within(seen, limits)
    if len(transactions[0]) > limits.entries:
        assert taken is None  # its end is not in sight
    else:
        assert taken == best(transactions, limits)


@given(transactions, limits)
def test_one_takes_the_first_transaction_and_nothing_else(transactions: list[list[int]], limits: Limits) -> None:
    seen = sizes_of(transactions)[: limits.entries + 1]
    taken = rows_within(seen, limits, one=True)
    first = len(transactions[0])
    assert taken == (first if first <= limits.entries else None)
