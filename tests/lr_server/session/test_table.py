"""The stored rows of sessions: their states, and the sessions that no server runs any more."""

import pytest
from sqlalchemy import Engine, insert, select

from lr_server.protocol.states import SessionStanding, StatusText
from lr_server.session import table
from queues.database import leases
from queues.database.leases import Lease
from queues.database.tables import sessions
from queues.database.transactions import reading, writing
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.send_log.port import SessionKey
from queues.states import SessionState

POLICY, TENANT = ClientName("policy"), ClientName("tenant")
TOKYO, LIMA = SiteId("tokyo"), SiteId("lima")


@pytest.fixture
def lease(site: Engine) -> Lease:
    """Return the lease of the site's server."""
    held = leases.acquire(site, "server", "test", ttl=60)
    assert held is not None
    return held


def store(engine: Engine, client: str, destination: str, state: str) -> None:
    """Store a session as any version of the server stores it."""
    with writing(engine) as connection:
        connection.execute(
            insert(sessions).values(
                client=client, destination=destination, state=state, reason="", branch="", acked_seq=0, cut="",
                lost_seq=0, transferred_rows=0, updated_us=0,
            )
        )  # fmt: skip


def stored(engine: Engine) -> dict[tuple[str, str], tuple[str, str]]:
    """Return the state and the reason of each session."""
    with reading(engine) as connection:
        rows = connection.execute(select(sessions)).all()
    return {(row.client, row.destination): (row.state, row.reason) for row in rows}


def test_a_session_is_idle_before_it_begins(site: Engine):
    table.ensure(site, SessionKey(POLICY, TOKYO))
    assert stored(site) == {(POLICY, TOKYO): ("idle", "not started")}


def test_a_position_that_is_not_known_again_yet_stays(site: Engine, lease: Lease):
    owed = SessionKey(POLICY, TOKYO)
    table.ensure(site, owed)
    words = StatusText(SessionState.LOG_ENTRY_SYNC, "live")
    table.save(site, lease, [(owed, SessionStanding(words, Position("b", 9), 4))])
    table.save(site, lease, [(owed, SessionStanding(words, None, None))])
    with reading(site) as connection:
        kept = connection.execute(select(sessions.c.acked_seq, sessions.c.applied_seq)).one()
    assert tuple(kept) == (9, 4)


def test_sessions_of_removed_sites_and_clients_become_inactive(site: Engine, lease: Lease):
    for client in (POLICY, TENANT):
        for destination in (TOKYO, LIMA):
            table.ensure(site, SessionKey(client, destination))
    table.deactivate(site, lease, [TOKYO], [POLICY])
    assert stored(site) == {
        (POLICY, TOKYO): ("idle", "not started"),
        (POLICY, LIMA): ("inactive", "the site is not among the peers of the server"),
        (TENANT, TOKYO): ("inactive", "the client is not among the clients of the server"),
        (TENANT, LIMA): ("inactive", "the site is not among the peers of the server"),
    }


@pytest.mark.parametrize("word", ["inactive", "left out"])
def test_an_inactive_session_is_not_deactivated_again(site: Engine, lease: Lease, word: str):
    store(site, POLICY, LIMA, word)
    table.deactivate(site, lease, [TOKYO], [])
    assert stored(site) == {(POLICY, LIMA): (word, "")}
    assert SessionState(word) is SessionState.INACTIVE
