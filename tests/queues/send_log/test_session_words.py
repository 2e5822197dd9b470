"""The reason of a session is stored in a bounded form, for the words of every sink."""

from sqlalchemy import Engine

from queues.database.transactions import reading, writing
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey
from queues.send_log.sessions import SessionChange, add_session, find_session, save_sessions, set_state
from queues.states import SessionState
from queues.words import LONGEST

KEY = SessionKey(ClientName("policy"), SiteId("tokyo"))
FOREIGN = "refused: \0\ud800" + "x" * 3_500_000
KEPT = "refused: ��" + "x" * (LONGEST - 12) + "…"


def reason(engine: Engine) -> str:
    with reading(engine) as connection:
        row = find_session(connection, KEY)
    assert row is not None
    return row.reason


def test_the_reason_of_a_saved_session_is_cut_and_storable(site: Engine) -> None:
    with writing(site) as connection:
        add_session(connection, KEY, SessionState.IDLE, "not started")
        save_sessions(connection, [SessionChange(KEY, SessionState.BACKING_OFF, FOREIGN, 0, None)])
    assert reason(site) == KEPT


def test_the_reason_of_a_changed_state_is_cut_and_storable(site: Engine) -> None:
    with writing(site) as connection:
        add_session(connection, KEY, SessionState.IDLE, "not started")
        set_state(connection, KEY, SessionState.INACTIVE, FOREIGN)
    assert reason(site) == KEPT
