"""The log tells of a destination in trouble once, and again after a long pause."""

from lr_server.source.reminders import PAUSE, Reminders
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey

TOKIO, LIME = (SessionKey(ClientName("policy"), SiteId(name)) for name in ("tokio", "lime"))


def test_a_destination_is_told_once_and_again_after_the_pause():
    reminders = Reminders()
    assert reminders.due([TOKIO], 0.0) == [TOKIO]
    assert reminders.due([TOKIO, LIME], PAUSE - 1) == [LIME]
    assert reminders.due([TOKIO, LIME], PAUSE) == [TOKIO]
    assert reminders.due([TOKIO, LIME], PAUSE + 1) == []


def test_a_destination_that_was_away_is_new_again():
    reminders = Reminders()
    reminders.due([TOKIO], 0.0)
    assert reminders.due([], 1.0) == []
    assert reminders.due([TOKIO], 2.0) == [TOKIO]
