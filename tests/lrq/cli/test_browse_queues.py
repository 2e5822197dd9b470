"""The library behind `lrq browse`: entries, pages and summaries of every queue."""

import pytest
from sqlalchemy import event
from sqlalchemy.orm import Session

from lr_client import LRMessageWithDestinations, RoutingQueueSenderClient
from queues import names
from queues.browse import send_log as browse_log
from queues.browse.api import Page, Wanted, browse, payload_at, summaries
from queues.errors import UsageError
from queues.send_log.port import TickLimits
from tests.lrq.cli.source import SourceSite

LOG = names.SEND_LOG_ENTRIES


def payloads(page: Page) -> list[bytes]:
    return [entry.payload for entry in page.entries]


def log(source: SourceSite, **wanted: object) -> Page:
    return browse(source.engine, LOG, Wanted(**wanted))  # type: ignore[arg-type]


def test_an_entry_is_shown_with_the_tags_of_all_its_destinations(source: SourceSite):
    token = source.transmit(b"hello", to=["tokyo", "lima"], item_key="greeting")
    (entry,) = log(source).entries
    assert entry.tags == ("lrq_logentry_lima", "lrq_logentry_tokyo")
    assert (entry.payload, entry.size, entry.item_key, entry.client) == (b"hello", 5, "greeting", "policy")
    assert entry.source == "paris"
    assert entry.outstanding == ("lima", "tokyo")
    assert entry.transaction == token.transaction
    assert entry.tick is None


def test_an_entry_shows_its_tick_once_the_tick_is_taken(source: SourceSite):
    source.transmit(b"1", b"2", to=["tokyo"])
    source.tick()
    source.transmit(b"3", to=["tokyo"])
    source.tick()
    source.transmit(b"4", to=["tokyo"])
    spans = [(entry.tick.start_seq, entry.tick.end_seq) if entry.tick else None for entry in log(source).entries]
    assert spans == [(0, 2), (0, 2), (2, 3), None]


def test_each_entry_of_a_large_backlog_shows_its_own_tick(source: SourceSite):
    for number in range(6):
        source.transmit(b"%d" % number, to=["tokyo"])
    source.tick(TickLimits(rows=2))
    assert [entry.tick and entry.tick.end_seq for entry in log(source).entries] == [2, 2, 4, 4, 6, 6]


def test_entries_acknowledged_by_all_are_kept_but_not_outstanding(source: SourceSite):
    source.transmit(b"old", to=["tokyo", "lima"])
    end = source.tick()
    source.session("tokyo", end)
    source.session("lima", end)
    source.transmit(b"new", to=["tokyo"])
    assert payloads(log(source)) == [b"new"]
    assert payloads(log(source, everything=True)) == [b"old", b"new"]


def test_an_entry_is_outstanding_only_for_sites_that_do_not_have_it(source: SourceSite):
    source.transmit(b"x", to=["tokyo", "lima"])
    source.session("tokyo", source.tick())
    (entry,) = log(source).entries
    assert entry.outstanding == ("lima",)
    assert payloads(log(source, destination="tokyo")) == []
    assert payloads(log(source, destination="lima")) == [b"x"]


def test_an_acknowledgement_inside_a_window_leaves_exactly_the_later_ticks_outstanding(source: SourceSite):
    for number in range(4):
        source.transmit(b"%d" % number, to=["tokyo"])
    source.tick(TickLimits(rows=2))
    source.session("tokyo", 2)
    assert payloads(log(source)) == [b"2", b"3"]


def test_filters_keep_similar_clients_and_destinations_apart(source: SourceSite):
    source.transmit(b"a", to=["tokyo"], client="policy")
    source.transmit(b"b", to=["tokyo"], client="policy_v2")
    source.transmit(b"c", to=["tokyo_2"], client="policy")
    source.tick()
    assert payloads(log(source, client="policy")) == [b"a", b"c"]
    assert payloads(log(source, destination="tokyo")) == [b"a", b"b"]
    assert payloads(log(source, client="policy", destination="tokyo")) == [b"a"]


def test_pages_follow_one_another_without_loss_or_repetition(source: SourceSite):
    for number in range(5):
        source.transmit(b"%d-0" % number, b"%d-1" % number, to=["tokyo", "lima"][: number % 2 + 1])
    source.tick()
    seen, after = [], ""
    while True:
        page = log(source, limit=3, after=after)
        seen += payloads(page)
        assert len(page.entries) <= 3
        if page.next is None:
            break
        after = page.next
    assert seen == [f"{transaction}-{row}".encode() for transaction in range(5) for row in range(2)]


def test_a_page_ends_before_its_payloads_exceed_the_limit(source: SourceSite):
    source.transmit(b"x" * 600, b"y" * 600, b"z", to=["tokyo"])
    page = log(source, preview_bytes=10_000, page_bytes=1_000)
    assert payloads(page) == [b"x" * 600]
    assert payloads(log(source, after=page.next)) == [b"y" * 128, b"z"]


def test_a_preview_is_the_beginning_of_a_payload(source: SourceSite):
    source.transmit(b"abcdef", b"", to=["tokyo"])
    first, second = log(source, preview_bytes=3).entries
    assert (first.payload, first.size, second.payload, second.size) == (b"abc", 6, b"", 0)


def test_payload_at_returns_the_whole_payload(source: SourceSite):
    source.transmit(b"first", bytes(range(256)) * 100, to=["tokyo"])
    position = log(source).entries[1].position
    assert payload_at(source.engine, LOG, position) == bytes(range(256)) * 100


@pytest.mark.parametrize("position", ["7.99999999", "abc", "", "1.0", "5"])
def test_a_position_without_an_entry_is_an_error(source: SourceSite, position: str):
    source.transmit(b"x", to=["tokyo"])
    with pytest.raises(UsageError, match=r"position|browse"):
        payload_at(source.engine, LOG, position)


def test_a_rare_destination_is_found_without_reading_the_entries_of_others(source: SourceSite):
    sender = RoutingQueueSenderClient("policy")
    with Session(source.engine) as session, session.begin():
        sender.transmit_log_entry_messages(session, [LRMessageWithDestinations(b"x", ["tokyo"])] * 3_000)
        sender.transmit_log_entry_message(session, b"rare", ["lima"])
    fetched = 0

    def count(_conn: object, cursor: object, statement: str, *_rest: object) -> None:
        nonlocal fetched
        fetched += statement.count("lrq_log_entries") > 0

    event.listen(source.engine, "after_cursor_execute", count)
    assert payloads(log(source, destination="lima")) == [b"rare"]
    event.remove(source.engine, "after_cursor_execute", count)
    assert fetched < 40


def test_pages_are_the_same_above_the_limit_of_single_set_lookups(source: SourceSite, monkeypatch: pytest.MonkeyPatch):
    for number in range(6):
        source.transmit(b"%d" % number, to=[f"site{number}", "tokyo"])
    source.session("tokyo", source.tick())
    one_by_one = log(source, destination="site3").entries, log(source).entries
    monkeypatch.setattr(browse_log, "MAX_SETS", 3)
    assert (log(source, destination="site3").entries, log(source).entries) == one_by_one


def test_a_page_that_stops_at_the_scan_limit_gives_the_next_position(
    source: SourceSite, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(browse_log, "MAX_SETS", 0)
    monkeypatch.setattr(browse_log, "MAX_SCANNED", 10)
    source.transmit(*[b"x"] * 40, to=["tokyo"])
    source.transmit(b"rare", to=["lima"])
    seen, after, looks = [], "", 0
    while after is not None:
        page = log(source, destination="lima", limit=5, after=after)
        seen += payloads(page)
        after, looks = page.next, looks + 1
    assert seen == [b"rare"]
    assert looks > 1


def test_the_summary_counts_entries_outstanding_and_in_no_tick(source: SourceSite):
    source.transmit(b"1", b"2", to=["tokyo"])
    source.session("tokyo", source.tick())
    source.transmit(b"3", to=["tokyo"])
    summary = summaries(source.engine)[0]
    assert (summary.name, summary.outstanding.entries) == (LOG, 1)
    assert summary.detail == "newest tick ends at 2; 1 in no tick yet"


def test_an_empty_site_has_two_empty_send_queues(source: SourceSite):
    assert [(s.name, s.outstanding.entries, s.oldest_us) for s in summaries(source.engine)] == [
        (names.SEND_LOG_ENTRIES, 0, 0),
        (names.SEND_SNAP_SYNC, 0, 0),
    ]
    assert log(source).entries == []


def test_an_unknown_queue_is_an_error(source: SourceSite):
    with pytest.raises(UsageError, match="no queue 'LRQ_Recv_nobody_nowhere'"):
        browse(source.engine, "LRQ_Recv_nobody_nowhere")
