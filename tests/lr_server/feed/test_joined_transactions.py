"""Transactions of a tick that a replaced row joins."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from lr_server.feed.router import encoded, entry_rows
from queues.blocks import EntryRow
from queues.send_log.port import LogRow


def rows_of(*transactions: str) -> list[LogRow]:
    """Return the rows of *transactions*; each word is a row, and `a1` has the item `a`, while `-` has none."""
    rows: list[LogRow] = []
    for number, words in enumerate(transactions, start=1):
        for word in words.split():
            item = None if word.startswith("-") else word[0]
            rows.append(LogRow(number, number, len(rows) + 1, "policy", 1, item, 0, word.encode()))
    return rows


def calls(entries: Sequence[EntryRow]) -> list[list[str]]:
    """Return the payloads that one call of a listener brings at least: those with one transaction index."""
    found: dict[int, list[str]] = {}
    for entry in entries:
        found.setdefault(entry.transaction_index, []).append(entry.payload.decode())
    return list(found.values())


def test_every_transaction_has_the_index_of_its_first_row() -> None:
    entries = entry_rows(rows_of("-1 -2", "-3", "-4 -5"))
    assert [entry.transaction_index for entry in entries] == [0, 0, 2, 3, 3]


def test_the_last_row_of_an_item_stays_where_it_is() -> None:
    entries = entry_rows(rows_of("a1 -1 b1 a2 b2"))
    assert [(entry.payload, entry.item_key) for entry in entries] == [(b"-1", None), (b"a2", "a"), (b"b2", "b")]


def test_transactions_are_joined_up_to_the_row_that_replaces_one_of_theirs() -> None:
    assert calls(entry_rows(rows_of("-1", "a1 -2", "-3", "a2 -4", "-5"))) == [["-1"], ["-2", "-3", "a2", "-4"], ["-5"]]


def test_a_replaced_transaction_without_other_rows_joins_the_following_ones_too() -> None:
    assert calls(entry_rows(rows_of("a1", "-1", "a2", "-2"))) == [["-1", "a2"], ["-2"]]


def test_rows_replaced_within_one_transaction_join_no_other() -> None:
    assert calls(entry_rows(rows_of("a1 a2", "-1"))) == [["a2"], ["-1"]]


def test_the_number_of_replaced_rows_is_known() -> None:
    assert encoded(rows_of("a1 a2", "a3 -1")).replaced == 2
    assert encoded([]) == (None, 0, 0)


def state_after(rows: Sequence[bytes]) -> tuple[dict[str, str], list[str]]:
    """Return the state of a table that applies *rows*: the word of each item, and the words without an item."""
    words = [row.decode() for row in rows]
    return {word[0]: word for word in words if word[0] != "-"}, [word for word in words if word[0] == "-"]


@given(st.lists(st.lists(st.sampled_from("ab-"), min_size=1, max_size=4), max_size=8))
def test_each_call_ends_in_a_state_that_the_source_had_after_a_transaction(items: list[list[str]]) -> None:
    counter = iter(range(1_000))
    rows = rows_of(*(" ".join(f"{item}{next(counter)}" for item in transaction) for transaction in items))
    states = [state_after([row.payload for row in rows if row.transaction <= upto]) for upto in range(len(items) + 1)]
    applied: list[bytes] = []
    for call in calls(entry_rows(rows)):
        applied += [word.encode() for word in call]
        assert state_after(applied) in states
    assert state_after(applied) == states[-1]
