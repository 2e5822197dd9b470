"""The lag of a session: its own entries after a position, however the ticks divide the log."""

from collections.abc import Iterator
from functools import partial

import pytest
from sqlalchemy import Engine, event, update

from discovery import status
from discovery.session_status import Lag, SessionStatus
from discovery.status import read_status
from queues import send_snapshot
from queues.database.tables.log import log_head
from queues.database.tables.sessions import sessions
from queues.database.tables.snapshots import snapshots
from queues.database.transactions import writing
from queues.names import ClientName
from queues.send_log import lag
from queues.send_log.newest_ticks import AT_ONCE, read_newest
from queues.send_log.port import TickLimits
from tests.lrq.cli.source import SourceSite


@pytest.fixture
def source(site: Engine) -> SourceSite:
    """Return site `paris` without a server."""
    return SourceSite(site)


def status_of(source: SourceSite, acked: int, applied: int | None = None) -> SessionStatus:
    """Return the status of the session with tokyo at these positions."""
    source.session("tokyo", acked, applied=applied)
    (found,) = read_status(source.engine).sessions
    return found


def amounts(found: Lag) -> tuple[int, int, bool]:
    return found.entries, found.bytes, found.is_most


def alternately(source: SourceSite, number: int) -> None:
    """Transmit *number* transactions of one entry, in turn to lima and tokyo."""
    for index in range(number):
        source.transmit(b"12", to=["tokyo" if index % 2 else "lima"])


def in_ticks_of_two(source: SourceSite, number: int) -> None:
    """Take *number* ticks, each with an entry for lima and one for tokyo."""
    for _ in range(number):
        alternately(source, 2)
        source.tick()


def test_only_entries_for_the_session_count(source: SourceSite):
    source.transmit(b"1", b"22", to=["lima"])
    source.transmit(b"333", to=["tokyo", "lima"])
    source.transmit(b"4444", to=["tokyo"], client="news")
    source.tick()
    found = status_of(source, 0).lag
    assert amounts(found) == (1, 3, False)
    assert found.seconds >= 0


def test_a_session_that_is_owed_no_entry_has_no_lag(source: SourceSite):
    source.transmit(b"1", to=["lima"])
    source.tick()
    source.age(90)
    found = status_of(source, 0)
    assert (found.lag, found.stalled) == (Lag(), False)


def test_the_age_is_that_of_the_oldest_entry_for_the_session(source: SourceSite):
    source.transmit(b"1", to=["lima"])
    source.tick()
    source.age(7_200)
    source.transmit(b"1", to=["tokyo"])
    source.tick()
    assert status_of(source, 0).lag.seconds < 3_600


def test_the_lag_is_exact_at_the_end_of_every_tick_of_a_backlog(source: SourceSite):
    limits = TickLimits(rows=3)
    ends = []
    for number in (10, 5):
        alternately(source, number)
        ends.append(source.tick(limits))
    tokyo = [seq for begin, number in ((0, 10), (10, 5)) for seq in range(begin + 2, begin + number + 1, 2)]
    assert ends == [10, 15]
    with source.engine.connect() as connection:
        every_end = [row[0] for row in connection.exec_driver_sql("SELECT end_seq FROM lrq_ticks ORDER BY end_seq")]
    assert len(every_end) > len(ends), "no tick is a part of a backlog"
    for acked in (0, *every_end):
        left = sum(seq > acked for seq in tokyo)
        assert amounts(status_of(source, acked).lag) == (left, 2 * left, False), acked


@pytest.mark.parametrize("recent", [1, 2, 5, AT_ONCE])
def test_the_lag_is_exact_before_the_newest_ticks_too(source: SourceSite, recent: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(status, "read_newest", partial(read_newest, most=recent))
    in_ticks_of_two(source, 6)
    for ticks in range(7):
        found = status_of(source, acked=2 * ticks, applied=0)
        assert amounts(found.lag) == (6 - ticks, 2 * (6 - ticks), False), ticks
        assert amounts(found.applied_lag) == (6, 12, False), ticks


def test_the_ticks_are_read_once_for_all_sessions(source: SourceSite):
    in_ticks_of_two(source, 20)
    for number in range(20):
        source.session(f"site{number}", 2 * number, applied=number)
    asked: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    event.listen(source.engine, "before_cursor_execute", note)
    found = read_status(source.engine).sessions
    event.remove(source.engine, "before_cursor_execute", note)
    assert len(found) == 20
    assert len([statement for statement in asked if "FROM lrq_ticks" in statement]) == 1
    assert len([statement for statement in asked if "lrq_log_head.trimmed_seq" in statement]) == 1


def test_in_the_middle_of_a_tick_the_received_entries_do_not_count(source: SourceSite):
    source.transmit(b"a", b"b", b"c", to=["tokyo"])
    end = source.tick()
    assert end == 3
    assert status_of(source, 2).lag.entries == 1


@pytest.fixture
def few_counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Count up to 3 entries."""
    monkeypatch.setattr(lag, "COUNTED", 3)
    return


@pytest.mark.usefixtures("few_counted")
def test_a_long_lag_is_an_upper_bound(source: SourceSite):
    alternately(source, 7)
    source.tick()
    assert amounts(status_of(source, 0).lag) == (3, 6, False)
    alternately(source, 3)
    source.tick()
    assert amounts(status_of(source, 0).lag) == (10, 20, True)


def test_entries_that_were_trimmed_unacknowledged_count_as_an_upper_bound(source: SourceSite):
    source.transmit(b"1", to=["tokyo"])
    source.transmit(b"1", to=["lima"])
    source.tick()
    source.session("tokyo", 0)
    with writing(source.engine) as connection:
        connection.execute(update(log_head).values(trimmed_seq=2))
        connection.execute(update(sessions).values(lost_seq=2))
    (found,) = read_status(source.engine).sessions
    assert (found.lag.entries, found.lag.is_most) == (2, True)


def test_the_applied_lag_counts_from_the_applied_position(source: SourceSite):
    in_ticks_of_two(source, 4)
    found = status_of(source, acked=6, applied=2)
    assert (found.applied_seq, found.lag.entries, found.applied_lag.entries, found.unapplied) == (2, 1, 3, False)


def test_entries_before_the_base_of_a_snapshot_that_is_being_applied_do_not_count(source: SourceSite):
    in_ticks_of_two(source, 4)
    with writing(source.engine) as connection:
        (sync_id,) = send_snapshot.request(connection, ClientName("policy"), ["tokyo"], "wanted")
        values = {"state": "applied", "branch": "b", "base_seq": 4}
        connection.execute(update(snapshots).where(snapshots.c.sync_id == sync_id).values(values))
    found = status_of(source, acked=8, applied=0)
    assert (found.applied_seq, found.applied_lag.entries) == (0, 2)


@pytest.mark.parametrize(
    ("acked", "applied", "unapplied"), [(4, 2, True), (4, 4, False), (2, 2, False), (4, None, False)]
)
def test_received_entries_that_are_not_applied_for_a_minute_are_unapplied(
    source: SourceSite, acked: int, applied: int | None, unapplied: bool
):
    in_ticks_of_two(source, 2)
    source.age(90)
    assert status_of(source, acked, applied).unapplied is unapplied


def test_received_entries_that_are_trimmed_here_count_as_an_upper_bound_until_they_are_applied(source: SourceSite):
    in_ticks_of_two(source, 4)
    source.age(90)
    with writing(source.engine) as connection:
        connection.execute(update(log_head).values(trimmed_seq=6))
    found = status_of(source, acked=8, applied=4)
    assert (found.lag.entries, found.applied_lag.entries, found.applied_lag.is_most, found.unapplied) == (
        0,
        4,
        True,
        True,
    )
    kept = status_of(source, acked=8, applied=6)
    assert (kept.applied_lag.entries, kept.applied_lag.is_most) == (1, False)
    assert status_of(source, acked=8, applied=8).applied_lag == Lag()


@pytest.mark.parametrize("state", ["backing off", "negotiating"])
def test_a_site_without_a_connection_may_have_applied_more_than_it_has_told(source: SourceSite, state: str):
    in_ticks_of_two(source, 4)
    source.age(90)
    source.session("tokyo", 4, state=state, reason="away", applied=2)
    (found,) = read_status(source.engine).sessions
    assert (found.stalled, found.unapplied, found.applied_lag.entries) == (True, False, 3)
