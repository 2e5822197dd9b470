"""The rows of a tick for one session, and their numbers."""

import itertools

import pytest

from lr_server.feed.router import after_cut, entry_rows, owed_rows, owed_sets
from queues.blocks import EntryRow
from queues.positions import PgSnapshot, Visibility
from tests.lr_server.feed.ticks import LIMA, SETS, TOKYO, owed, row


def test_a_site_is_owed_the_sets_that_name_it():
    assert owed_sets(SETS, TOKYO) == {1, 3}
    assert owed_sets(SETS, LIMA) == {2, 3}
    assert owed_sets({}, LIMA) == frozenset()


def test_a_session_gets_the_rows_of_its_client_and_its_sets_in_order():
    rows = [row(1), row(2, tag_set=2), row(3, tag_set=3), row(4, client="other"), row(5, client="other", tag_set=2)]
    assert [one.id for one in owed_rows(rows, owed(), {1, 3})] == [1, 3]
    assert [one.id for one in owed_rows(rows, owed(client="other"), {1, 3})] == [4]
    assert owed_rows(rows, owed(), ()) == []


def test_rows_keep_their_payloads_times_and_keys():
    (only,) = entry_rows([row(7, item="cdg")])
    assert only == EntryRow(b"entry 7", 0, 1_007, "cdg")


def test_rows_keep_their_headers_and_partition_keys():
    (only,) = entry_rows([row(7)._replace(headers='{"a":"b"}', partition_key="north")])
    assert only == EntryRow(b"entry 7", 0, 1_007, None, '{"a":"b"}', "north")


def test_the_last_row_of_an_item_keeps_its_own_headers():
    rows = [row(1, item="cdg")._replace(headers='{"n":"1"}'), row(2, item="cdg"), row(3, item="ory")]
    assert [(each.payload, each.headers) for each in entry_rows(rows)] == [(b"entry 2", None), (b"entry 3", None)]


def test_each_row_names_the_first_row_of_its_transaction():
    rows = [row(n, transaction=t) for n, t in enumerate([4, 4, 9, 9, 9, 5], start=1)]
    assert [one.transaction_index for one in entry_rows(rows)] == [0, 0, 2, 2, 2, 5]


@pytest.mark.parametrize("items", list(itertools.product([None, "a", "b"], repeat=4)))
def test_only_the_last_row_of_an_item_is_kept_and_the_others_keep_their_order(items: tuple[str | None, ...]):
    rows = [row(n, transaction=1, item=item) for n, item in enumerate(items, start=1)]
    kept = [n for n, item in enumerate(items, start=1) if item is None or item not in items[n:]]
    assert [one.payload for one in entry_rows(rows)] == [f"entry {n}".encode() for n in kept]


def test_no_rows_give_no_entries():
    assert entry_rows([]) == []


@pytest.mark.parametrize("high", range(6))
def test_rows_up_to_the_cut_are_in_the_snapshot_and_not_sent_again(high: int):
    sent = after_cut([row(n) for n in range(1, 6)], Visibility(high=high))
    assert [one.id for one in sent] == list(range(high + 1, 6))


def test_rows_of_transactions_that_the_cut_saw_running_are_sent():
    cut = Visibility(window=PgSnapshot(3, 6, frozenset({3, 5})))
    assert [one.id for one in after_cut([row(n) for n in range(1, 8)], cut)] == [3, 5, 6, 7]


def test_rows_that_were_committed_after_the_end_of_the_cut_are_sent():
    cut = Visibility(window=PgSnapshot(9, 9, frozenset()), base=PgSnapshot(1, 1, frozenset()), upto=3)
    assert [one.id for one in after_cut([row(n) for n in range(1, 6)], cut)] == [4, 5]
