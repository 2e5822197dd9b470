"""The log tells of an unknown destination once, and again after a long pause."""

from lr_server.source.unknown_reminders import PAUSE, UnknownReminders
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey

TOKIO, LIME = (SessionKey(ClientName("policy"), SiteId(name)) for name in ("tokio", "lime"))


def test_a_destination_is_told_once_and_again_after_the_pause():
    reminders = UnknownReminders()
    assert reminders.due([TOKIO], 0.0) == [TOKIO]
    assert reminders.due([TOKIO, LIME], PAUSE - 1) == [LIME]
    assert reminders.due([TOKIO, LIME], PAUSE) == [TOKIO]
    assert reminders.due([TOKIO, LIME], PAUSE + 1) == []


def test_a_destination_that_was_away_is_new_again():
    reminders = UnknownReminders()
    reminders.due([TOKIO], 0.0)
    assert reminders.due([], 1.0) == []
    assert reminders.due([TOKIO], 2.0) == [TOKIO]
