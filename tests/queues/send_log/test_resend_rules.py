"""The rules about ranges that are sent again."""

import pytest

from queues.destinations import destination_set
from queues.entry_headers import MAX_HEADERS, checked_headers, parse
from queues.names import ClientName
from queues.send_log.port import LogRow
from queues.send_log.resend_rules import (
    RESENT,
    LogExtent,
    NumberedRow,
    SeqRange,
    again,
    numbered,
    portions,
    refuse_range,
    sent_rows,
)

LOG = LogExtent(trimmed_seq=10, newest_seq=50, regrouped_seq=20)


def row(number: int, *, transaction: int = 1, item_key: str | None = None, **more: object) -> LogRow:
    return LogRow(transaction, number, number, "policy", 7, item_key, 0, b"%d" % number, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [
        (21, 50, ""),
        (21, 21, ""),
        (22, 21, "the range ends at 21, before its first entry 22"),
        (21, 51, "the log has entries up to 50"),
        (10, 50, "entries up to 10 are trimmed: begin with 11"),
        (20, 50, "the groups of replicas have changed at 20, so earlier entries have other numbers: begin with 21"),
    ],
)
def test_a_range_must_be_in_the_log_as_a_whole(first: int, last: int, words: str) -> None:
    refusal = refuse_range(SeqRange(first, last), LOG)
    assert refusal.startswith(words)
    assert bool(refusal) is bool(words)


def test_the_cure_for_a_log_without_any_entry_names_no_number() -> None:
    refusal = refuse_range(SeqRange(9, 10), LOG._replace(newest_seq=10, regrouped_seq=0))
    assert refusal.startswith("entries up to 10 are trimmed: write them again")


def test_each_source_transaction_within_the_range_is_a_portion_of_its_own() -> None:
    rows = [row(1), row(2), row(3, transaction=2), row(4, transaction=2, request=1), row(5, transaction=2, request=1)]
    found = list(portions(numbered(rows, 30), 31, 34))
    assert [[each.seq for each in portion.rows] for portion in found] == [[32], [33], [34]]
    assert [portion.end_seq for portion in found] == [32, 33, 34]


def test_entries_with_an_item_key_are_left_out_and_counted() -> None:
    rows = [row(1), row(2, item_key="a"), row(3, transaction=2, item_key="a")]
    found = list(portions(numbered(rows, 0), 0, 3))
    assert [(len(portion.rows), portion.end_seq, portion.left_out) for portion in found] == [(1, 2, 1), (0, 3, 1)]


def test_the_numbers_are_those_of_the_session_which_never_sent_replaced_entries() -> None:
    rows = [row(1, item_key="a"), row(2), row(3, item_key="a"), row(4)]
    assert [(each.seq, each.row.id) for each in numbered(sent_rows(rows), 0)] == [(1, 2), (2, 3), (3, 4)]


def test_a_new_entry_keeps_everything_and_tells_its_place_of_before() -> None:
    to = destination_set(ClientName("policy"), ["tokyo"])
    made = again(NumberedRow(5, row(1, headers=checked_headers({"a": "b"}), partition_key="k")), "main", to)
    assert (made.payload, made.destinations, made.item_key, made.partition_key) == (b"1", to, None, "k")
    assert parse(made.headers or "") == {"a": "b", RESENT: "main@5"}


def test_headers_without_room_stay_as_they_are() -> None:
    full = checked_headers({str(number): "" for number in range(MAX_HEADERS)})
    to = destination_set(ClientName("policy"), ["tokyo"])
    assert again(NumberedRow(5, row(1, headers=full)), "main", to).headers == full
