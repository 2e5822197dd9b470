"""The stored rows of sessions: their states, and the sessions that no server runs any more."""

import pytest
from sqlalchemy import Engine, insert, select

from lr_server.session import table
from queues.database import leases
from queues.database.leases import Lease
from queues.database.tables import sessions
from queues.database.transactions import reading, writing
from queues.names import ClientName, SiteId
from queues.send_log.known_sites import KnownSites, read_known
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


def test_sessions_of_removed_sites_and_clients_become_inactive(site: Engine, lease: Lease):
    for client in (POLICY, TENANT):
        for destination in (TOKYO, LIMA):
            table.ensure(site, SessionKey(client, destination))
    table.follow(site, lease, KnownSites(frozenset({TOKYO}), frozenset({POLICY})))
    assert stored(site) == {
        (POLICY, TOKYO): ("idle", "not started"),
        (POLICY, LIMA): ("inactive", "the site is not among the peers of the server"),
        (TENANT, TOKYO): ("inactive", "the client is not among the clients of the server"),
        (TENANT, LIMA): ("inactive", "the site is not among the peers of the server"),
    }


def test_the_known_sites_are_recorded_for_senders(site: Engine, lease: Lease):
    known = KnownSites(frozenset({TOKYO}), frozenset({POLICY}), known_only=True)
    table.follow(site, lease, known)
    with reading(site) as connection:
        assert read_known(connection) == known


def test_the_time_of_a_removed_site_begins_with_its_removal_though_its_client_was_removed_before(
    site: Engine, lease: Lease
):
    table.follow(site, lease, KnownSites(frozenset({TOKYO, LIMA}), frozenset({TENANT})))
    store(site, POLICY, LIMA, "inactive")
    table.follow(site, lease, KnownSites(frozenset({TOKYO}), frozenset({TENANT})))
    with reading(site) as connection:
        assert connection.execute(select(sessions.c.updated_us)).scalar_one() > 0


@pytest.mark.parametrize("word", ["inactive", "left out"])
def test_an_inactive_session_is_not_deactivated_again(site: Engine, lease: Lease, word: str):
    store(site, POLICY, LIMA, word)
    table.follow(site, lease, KnownSites(frozenset({TOKYO})))
    assert stored(site) == {(POLICY, LIMA): (word, "")}
    assert SessionState(word) is SessionState.INACTIVE
