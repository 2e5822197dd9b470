"""The lines about a lost peer: one when it is lost, one when it is back, and few in between."""

import pytest

from lr_server.protocol.states import StatusText
from lr_server.session.outages import QUIET_SECONDS, REMIND_SECONDS, LogLine, Outage
from queues.names import ClientName
from queues.states import SessionState

POLICY, RULES = ClientName("policy"), ClientName("rules")
LOST = StatusText(SessionState.BACKING_OFF, "Connection refused")
FAILED = StatusText(SessionState.FAILED, "another site answers")
NEGOTIATING = StatusText(SessionState.NEGOTIATING, "")
SYNC = StatusText(SessionState.LOG_ENTRY_SYNC, "catch-up")
LIVE = StatusText(SessionState.LOG_ENTRY_SYNC, "live")
SNAPSHOT = StatusText(SessionState.SNAPSHOT_SYNC, "requesting one: the log is trimmed")
STOPPED = StatusText(SessionState.STOPPED, "stopped on request")


def lines(outage: Outage, *words: StatusText, begin: float = 0.0, step: float = 1.0) -> list[LogLine]:
    """Return the lines for *words*, one state each *step* seconds, without the silent ones."""
    found = [outage.note(POLICY, each, begin + number * step) for number, each in enumerate(words)]
    return [line for line in found if line is not LogLine.NOTHING]


def test_a_peer_that_is_away_for_an_hour_gets_one_line_six_reminders_and_one_line_when_it_is_back() -> None:
    outage = Outage()
    away = [LOST, NEGOTIATING] * 600
    found = lines(outage, *away, step=3.0)
    assert found == [LogLine.LOST] + [LogLine.STILL_LOST] * int(3_600 / REMIND_SECONDS - 1)
    assert lines(outage, SYNC, LIVE, begin=3_600) == [LogLine.BACK, LogLine.CHANGE]


def test_another_reason_is_told_at_most_once_a_minute() -> None:
    found = lines(Outage(), *[LOST, FAILED] * 60)
    assert (found[0], len(found)) == (LogLine.LOST, 120 / QUIET_SECONDS)


def test_a_peer_that_comes_and_goes_each_second_writes_few_lines() -> None:
    found = lines(Outage(), *[LOST, NEGOTIATING, SYNC, LIVE] * 150)
    assert len(found) <= 5 * 600 / QUIET_SECONDS
    assert found[:3] == [LogLine.LOST, LogLine.BACK, LogLine.CHANGE]


def test_the_sessions_of_one_peer_share_its_lines() -> None:
    outage = Outage()
    assert outage.note(POLICY, LOST, 0.0) is LogLine.LOST
    assert outage.note(RULES, LOST, 1.0) is LogLine.NOTHING
    assert outage.note(POLICY, SYNC, 2.0) is LogLine.CHANGE
    assert outage.note(RULES, SYNC, 3.0) is LogLine.BACK


def test_usual_changes_are_told_and_a_stopped_session_ends_its_outage() -> None:
    outage = Outage()
    assert lines(outage, NEGOTIATING, SYNC, LIVE) == [LogLine.CHANGE] * 3
    outage.note(POLICY, LOST, 10.0)
    assert outage.note(POLICY, STOPPED, 11.0) is LogLine.CHANGE
    assert outage.note(POLICY, LOST, 11.0 + QUIET_SECONDS) is LogLine.LOST


@pytest.mark.parametrize("words", [LOST, FAILED])
def test_a_lost_session_writes_no_usual_lines(words: StatusText) -> None:
    outage = Outage()
    outage.note(POLICY, words, 0.0)
    assert outage.is_quiet(POLICY, 1.0)
    assert not outage.is_quiet(RULES, 1.0)


def test_a_planned_change_of_the_connection_writes_no_usual_lines() -> None:
    outage = Outage()
    assert lines(outage, NEGOTIATING, SYNC, LIVE) == [LogLine.CHANGE] * 3
    outage.plan(POLICY)
    assert outage.is_quiet(POLICY, 3.0)
    assert lines(outage, NEGOTIATING, SYNC, SYNC, LIVE) == []
    assert not outage.is_quiet(POLICY, 4.0)
    assert lines(outage, NEGOTIATING, LIVE) == [LogLine.CHANGE] * 2


@pytest.mark.parametrize(
    ("words", "line"), [(LOST, LogLine.LOST), (SNAPSHOT, LogLine.CHANGE), (STOPPED, LogLine.CHANGE)]
)
def test_another_outcome_of_a_planned_change_is_told(words: StatusText, line: LogLine) -> None:
    outage = Outage()
    outage.plan(POLICY)
    assert lines(outage, NEGOTIATING, words) == [line]
    assert POLICY not in outage.planned
