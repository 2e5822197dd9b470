"""The end of a batch: whole transactions, as many as the limits allow, at least one."""

from hypothesis import given
from hypothesis import strategies as st

from queues.receive.batches import BatchLimits, rows_within
from queues.receive.block_entries import Sizes

transactions = st.lists(st.lists(st.integers(0, 10), min_size=1, max_size=6), min_size=1, max_size=8)
limits = st.builds(BatchLimits, entries=st.integers(1, 12), bytes=st.integers(1, 60))


def sizes_of(transactions: list[list[int]]) -> Sizes:
    """Number the rows of *transactions*, given as the sizes of their rows."""
    sizes = Sizes()
    for rows in transactions:
        first = len(sizes) + 1
        sizes.extend(Sizes(list(range(first, first + len(rows))), [first] * len(rows), rows))
    return sizes


def seen_of(transactions: list[list[int]], limits: BatchLimits) -> Sizes:
    """Return the sizes of one row more than the limit, if there are so many."""
    all_sizes, seen = sizes_of(transactions), limits.entries + 1
    return Sizes(all_sizes.seqs[:seen], all_sizes.transactions[:seen], all_sizes.bytes[:seen])


def best(transactions: list[list[int]], limits: BatchLimits) -> int:
    """Return the number of rows to take, by the plain definition."""
    rows = total = 0
    for n, transaction in enumerate(transactions):
        fits = rows + len(transaction) <= limits.entries and total + sum(transaction) <= limits.bytes
        if n and not fits:
            break
        rows += len(transaction)
        total += sum(transaction)
    return rows


@given(transactions, limits)
def test_a_batch_is_the_most_whole_transactions_within_the_limits_or_the_first_one(
    transactions: list[list[int]], limits: BatchLimits
) -> None:
    seen = seen_of(transactions, limits)
    taken = rows_within(seen, limits)
    if len(transactions[0]) > limits.entries:
        assert taken is None  # the end of the first transaction is not among the rows seen
    else:
        assert taken == best(transactions, limits)


@given(transactions, limits)
def test_one_takes_only_the_first_transaction(transactions: list[list[int]], limits: BatchLimits) -> None:
    seen = seen_of(transactions, limits)
    taken = rows_within(seen, limits, one=True)
    first = len(transactions[0])
    assert taken == (first if first <= limits.entries else None)
