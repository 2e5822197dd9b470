"""A range of the log is sent again as new entries: each entry once, in order, in spite of interruptions."""

from collections.abc import Iterator
from datetime import UTC, datetime
from threading import Barrier, Event, Thread
from typing import Any

import pytest
from sqlalchemy import Engine, event, update

from lr_client import cancel_resend, continue_resend, resend_entries, resend_orders
from lrq.cli import link_actions
from queues.clock import now_us
from queues.database import actions
from queues.database.tables.log import log_head
from queues.database.transactions import writing
from queues.entry_headers import parse
from queues.errors import InvalidPositionError, LinkEndedError, StoreUnavailableError, UsageError
from queues.names import SiteId
from queues.send_log import resends
from queues.send_log.opening import open_log
from queues.send_log.port import LoggedEntry, TickLimits
from queues.send_log.resend_rules import ResendPortion, SeqRange, portions
from queues.send_log.resends import ResendOrder, ResendState
from tests.lrq.cli.source import SourceSite
from tests.resending import interrupted

#: A transaction above these limits is a large tick.
SMALL = TickLimits(rows=2)
EARLY = datetime(2001, 1, 1, tzinfo=UTC)


@pytest.fixture
def source(site: Engine) -> SourceSite:
    """Give a source with a session to tokyo."""
    made = SourceSite(site)
    made.session("tokyo")
    return made


def send(source: SourceSite, *texts: str, **more: Any) -> int:
    """Commit a transaction and take its tick; return the end of the tick."""
    source.transmit(*(text.encode() for text in texts), to=["tokyo", "lima"], **more)
    return source.tick(SMALL)


def logged(source: SourceSite, after: int = 0) -> list[LoggedEntry]:
    """Take ticks, and return all entries after a number."""
    source.tick()
    log, found = open_log(source.engine), list[LoggedEntry]()
    while ticks := log.ticks_after(after, TickLimits()):
        found += [each for piece in log.read_all(ticks, TickLimits()) for each in piece]
        after = ticks[-1].end_seq
    return found


def texts(entries: list[LoggedEntry]) -> list[str]:
    return [each.row.payload.decode() for each in entries]


def test_a_range_is_sent_again_to_the_one_site_as_new_entries(source: SourceSite) -> None:
    for number in range(5):
        newest = send(source, f"entry {number}")
    done = resend_entries(source.engine, "policy", "tokyo", start=2, end="3", person="ada")
    assert (done.state, done.entries, done.sent_seq) == (ResendState.DONE, 2, 3)
    found = logged(source, newest)
    assert texts(found) == ["entry 1", "entry 2"]
    assert {each.destinations for each in found} == {(SiteId("tokyo"),)}
    assert [parse(each.row.headers or "")["lrq-resent"].partition("@")[2] for each in found] == ["2", "3"]
    assert resend_orders(source.engine) == [done]
    noted = [(each.person, each.action, each.outcome) for each in actions.newest(source.engine)]
    assert sorted(noted) == [
        ("ada", "resend", "resend of policy to tokyo begun: entries 2 to 3"),
        ("ada", "resend", "resend of policy to tokyo done: 2 to 3: 2 entries sent again"),
    ]


def test_the_entries_of_a_time_are_sent_again(source: SourceSite) -> None:
    send(source, "before")
    since = datetime.fromtimestamp(now_us() / 1_000_000, tz=UTC)
    send(source, "within 1")
    send(source, "within 2")
    until = datetime.fromtimestamp(now_us() / 1_000_000, tz=UTC)
    newest = send(source, "after")
    assert resend_entries(source.engine, "policy", "tokyo", since=since, until=until).entries == 2
    assert texts(logged(source, newest)) == ["within 1", "within 2"]


def test_states_of_items_are_left_out(source: SourceSite) -> None:
    send(source, "event 1")
    send(source, "state", item_key="a")
    newest = send(source, "event 2")
    done = resend_entries(source.engine, "policy", "tokyo", start=1, end=newest)
    assert (done.entries, done.left_out) == (2, 1)
    assert texts(logged(source, newest)) == ["event 1", "event 2"]


def test_entries_of_other_sites_and_clients_are_not_sent(source: SourceSite) -> None:
    source.transmit(b"for lima", to=["lima"])
    source.transmit(b"other", to=["tokyo"], client="other")
    newest = send(source, "mine")
    assert resend_entries(source.engine, "policy", "tokyo", start=1, end=newest).entries == 1
    assert texts(logged(source, newest)) == ["mine"]


@pytest.mark.parametrize("changes", range(5))
def test_an_interrupted_resend_goes_on_where_it_was(source: SourceSite, changes: int) -> None:
    for number in range(3):
        newest = send(source, f"{number} a", f"{number} b")
    with interrupted(source.engine, changes):
        resend_entries(source.engine, "policy", "tokyo", start=1, end=newest)
    if not changes:
        # Not even the order was stored.
        resend_entries(source.engine, "policy", "tokyo", start=1, end=newest)
    else:
        with pytest.raises(UsageError, match="has not ended"):
            resend_entries(source.engine, "policy", "tokyo", start=1, end=newest)
        assert continue_resend(source.engine, "policy", "tokyo").entries == 6
    found = logged(source, newest)
    assert texts(found) == ["0 a", "0 b", "1 a", "1 b", "2 a", "2 b"]
    assert len({each.row.transaction for each in found}) == 3
    with pytest.raises(UsageError, match="was interrupted"):
        continue_resend(source.engine, "policy", "tokyo")


def test_a_large_transaction_is_sent_again_in_pieces_that_survive_an_interruption(source: SourceSite) -> None:
    newest = send(source, *(f"{number}" for number in range(2_500)))
    with interrupted(source.engine, 2):
        resend_entries(source.engine, "policy", "tokyo", start=2, end=newest)
    assert 0 < resend_orders(source.engine)[0].entries < 2_499
    assert continue_resend(source.engine, "policy", "tokyo").entries == 2_499
    assert texts(logged(source, newest)) == [f"{number}" for number in range(1, 2_500)]


def test_a_cancelled_resend_ends_without_its_rest(source: SourceSite) -> None:
    for number in range(3):
        newest = send(source, f"entry {number}")
    with interrupted(source.engine, 2):
        resend_entries(source.engine, "policy", "tokyo", start=1, end=newest)
    done = cancel_resend(source.engine, "policy", "tokyo", person="ben")
    assert (done.state, done.entries) == (ResendState.CANCELLED, 1)
    assert texts(logged(source, newest)) == ["entry 0"]
    assert actions.newest(source.engine)[0].outcome.endswith("cancelled: 1 to 3: 1 entry sent again")
    assert resend_entries(source.engine, "policy", "tokyo", start=2, end=2).entries == 1


def test_a_command_that_works_sends_nothing_after_a_cancel(source: SourceSite, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        newest = send(source, f"entry {number}")
    cancelled = list[ResendOrder]()

    def cancel_between_transactions(*rest: Any) -> Iterator[ResendPortion]:
        for portion in portions(*rest):
            if portion.end_seq == 3:
                cancelled.append(cancel_resend(source.engine, "policy", "tokyo"))
            yield portion

    monkeypatch.setattr("lr_client.resends.portions", cancel_between_transactions)
    with pytest.raises(UsageError, match="was cancelled"):
        resend_entries(source.engine, "policy", "tokyo", start=1, end=newest)
    assert [(each.state, each.sent_seq, each.entries) for each in cancelled] == [(ResendState.CANCELLED, 2, 2)]
    assert texts(logged(source, newest)) == ["entry 0", "entry 1"]
    assert resend_orders(source.engine) == cancelled


# On SQLite, a cancel has the lock of all writers before it looks.
@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_cancel_ends_an_order_that_moves_meanwhile(source: SourceSite) -> None:
    newest = send(source, "entry 0", "entry 1")
    with interrupted(source.engine, 1):
        resend_entries(source.engine, "policy", "tokyo", start=1, end=newest)
    [seen] = resend_orders(source.engine)
    moved = list[ResendOrder | None]()

    def move_first(connection: Any, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("UPDATE lrq_resends") and not moved:
            moved.append(None)
            with writing(source.engine) as another:
                moved.append(resends.advance(another, seen, ResendPortion((), 1, 0)))

    event.listen(source.engine, "before_cursor_execute", move_first)
    done = cancel_resend(source.engine, "policy", "tokyo")
    assert (done.state, done.sent_seq) == (ResendState.CANCELLED, 1)
    assert moved[-1] is not None
    with writing(source.engine) as connection:
        assert resends.advance(connection, moved[-1], ResendPortion((), 2, 0)) is None


# SQLite cannot end the transaction of a process that stands still.
@pytest.mark.usefixtures("impatient_database")
@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_cancel_does_not_wait_for_a_command_that_stands_still(
    source: SourceSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = send(source, "entry 0")
    stands, goes_on, failed = Event(), Event(), list[Exception]()

    def stand_still(*_: Any) -> None:
        stands.set()
        goes_on.wait(60)

    def work() -> None:
        try:
            resend_entries(source.engine, "policy", "tokyo", start=1, end=newest)
        except StoreUnavailableError as error:
            failed.append(error)

    monkeypatch.setattr("lr_client.resends.write", stand_still)
    command = Thread(target=work)
    command.start()
    assert stands.wait(60)
    assert cancel_resend(source.engine, "policy", "tokyo").state is ResendState.CANCELLED
    assert not goes_on.is_set()
    goes_on.set()
    command.join()
    assert failed
    assert logged(source, newest) == []


def test_an_order_that_has_not_ended_gives_no_place_to_another(source: SourceSite) -> None:
    newest = send(source, "entry 0")
    with interrupted(source.engine, 1):
        resend_entries(source.engine, "policy", "tokyo", start=1, end=newest)
    [seen] = resend_orders(source.engine)
    with pytest.raises(UsageError, match="another command has just begun"), writing(source.engine) as connection:
        resends.begin(connection, seen.key, SeqRange(1, newest), "ben")
    assert resend_orders(source.engine) == [seen]


def test_two_commands_at_once_send_each_entry_once(source: SourceSite) -> None:
    for number in range(20):
        newest = send(source, f"entry {number}")
    with interrupted(source.engine, 1):
        resend_entries(source.engine, "policy", "tokyo", start=1, end=newest)
    together, refused = Barrier(2), list[str]()

    def go_on() -> None:
        together.wait(60)
        try:
            continue_resend(source.engine, "policy", "tokyo")
        except UsageError as error:
            refused.append(str(error))

    threads = [Thread(target=go_on) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Both may stop where the other one went on; then a third one ends the work.
    if resend_orders(source.engine)[0].state is ResendState.BEGUN:
        continue_resend(source.engine, "policy", "tokyo")
    assert texts(logged(source, newest)) == [f"entry {number}" for number in range(20)]
    assert refused, "one command ends the order before the other"


def test_an_order_that_went_on_moves_for_no_command_that_has_not_seen_it(source: SourceSite) -> None:
    newest = send(source, "entry 0")
    with interrupted(source.engine, 1):
        resend_entries(source.engine, "policy", "tokyo", start=1, end=newest)
    [seen] = resend_orders(source.engine)
    with writing(source.engine) as connection:
        assert resends.advance(connection, seen, ResendPortion((), 1, 0)) is not None
        assert resends.advance(connection, seen, ResendPortion((), 1, 0)) is None


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"start": 1}, "first and its last entry, or two times"),
        ({"start": 1, "end": 1, "since": EARLY}, "first and its last entry, or two times"),
        ({"start": 1, "end": 9}, "the log has entries up to 2"),
        ({"start": "elsewhere@1", "end": 2}, "is not in the history of this site"),
        ({"since": EARLY, "until": datetime(2001, 1, 2, tzinfo=UTC)}, "has committed no entries in that time"),
    ],
)
def test_a_wrong_range_is_refused_and_nothing_is_stored(source: SourceSite, order: Any, words: str) -> None:
    send(source, "entry 0")
    send(source, "entry 1")
    with pytest.raises((UsageError, InvalidPositionError), match=words):
        resend_entries(source.engine, "policy", "tokyo", **order)
    assert resend_orders(source.engine) == []


def test_a_session_that_does_not_exist_and_an_ended_link_are_refused(source: SourceSite) -> None:
    send(source, "entry 0")
    with pytest.raises(UsageError, match="no session sends policy to oslo"):
        resend_entries(source.engine, "policy", "oslo", start=1, end=1)
    link_actions.end(source.engine, SiteId("tokyo"), None)
    with pytest.raises(LinkEndedError):
        resend_entries(source.engine, "policy", "tokyo", start=1, end=1)
    assert resend_orders(source.engine) == []


def test_changed_groups_of_replicas_stop_a_resend(source: SourceSite) -> None:
    newest = send(source, "entry 0")
    with interrupted(source.engine, 1):
        resend_entries(source.engine, "policy", "tokyo", start=1, end=newest)
    with writing(source.engine) as connection:
        connection.execute(update(log_head).values(regrouped_seq=newest))
    with pytest.raises(UsageError, match="groups of replicas have changed"):
        continue_resend(source.engine, "policy", "tokyo")
    assert logged(source, newest) == []
