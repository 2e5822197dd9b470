"""The stored rows of sessions: their states, and the sessions that no server runs any more."""

import pytest
from sqlalchemy import Engine, insert, select

from lr_server.protocol.states import SessionStanding, StatusText
from lr_server.session import table
from lr_server.session.table import Standing
from queues.database import leases
from queues.database.leases import Lease
from queues.database.tables.sessions import sessions
from queues.database.transactions import reading, writing
from queues.errors import OwnershipLostError
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.send_log.known_sites import KnownSites, read_known
from queues.send_log.port import SessionKey
from queues.states import SessionState
from queues.words import LONGEST
from tests.leading import lead

POLICY, TENANT = ClientName("policy"), ClientName("tenant")
TOKYO, LIMA, ROME = SiteId("tokyo"), SiteId("lima"), SiteId("rome")


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


def test_a_position_that_is_not_known_again_yet_stays(site: Engine):
    owed = SessionKey(POLICY, TOKYO)
    table.ensure(site, owed)
    words = StatusText(SessionState.LOG_ENTRY_SYNC, "live")
    (led,) = lead(site)
    table.save(site, [Standing(owed, led, SessionStanding(words, Position("b", 9), 4))])
    table.save(site, [Standing(owed, led, SessionStanding(words, None, None))])
    with reading(site) as connection:
        kept = connection.execute(select(sessions.c.acked_seq, sessions.c.applied_seq)).one()
    assert tuple(kept) == (9, 4)


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


def standing(acked: Position | None, reason: str = "live") -> SessionStanding:
    return SessionStanding(StatusText(SessionState.LOG_ENTRY_SYNC, reason), acked, 0)


def test_values_that_the_database_refuses_stop_no_other_session(site: Engine):
    for destination in (TOKYO, LIMA, ROME):
        table.ensure(site, SessionKey(POLICY, destination))
    healthy = standing(Position("b1", 3))
    (led,) = lead(site)
    table.save(
        site,
        [
            Standing(SessionKey(POLICY, LIMA), led, healthy),
            Standing(SessionKey(POLICY, ROME), led, standing(Position("b1", 2**64 - 1))),
            Standing(SessionKey(POLICY, TOKYO), led, healthy),
        ],
    )
    found = stored(site)
    assert [found[POLICY, each] for each in (LIMA, TOKYO)] == [("log-entry sync", "live")] * 2
    state, reason = found[POLICY, ROME]
    assert state == "failed"
    assert reason.startswith("the standing of this session cannot be stored: ")
    with reading(site) as connection:
        acked = {row.destination: row.acked_seq for row in connection.execute(select(sessions))}
    assert acked == {LIMA: 3, ROME: 0, TOKYO: 3}


def test_a_reason_is_stored_bounded_and_printable(site: Engine):
    table.ensure(site, SessionKey(POLICY, TOKYO))
    (led,) = lead(site)
    table.save(site, [Standing(SessionKey(POLICY, TOKYO), led, standing(None, "\0" + "x" * 3_500_000))])
    ((state, reason),) = stored(site).values()
    assert state == "log-entry sync"
    assert reason.startswith("\N{REPLACEMENT CHARACTER}xxx")
    assert len(reason) == LONGEST


def test_a_replaced_server_stores_no_standing(site: Engine):
    table.ensure(site, SessionKey(POLICY, TOKYO))
    (led,) = lead(site)
    lead(site)
    (lost,) = table.save(site, [Standing(SessionKey(POLICY, TOKYO), led, standing(Position("b1", 3)))])
    assert (lost.name, lost.held, lost.current) == ("range 0", 1, 2)
    assert stored(site) == {(POLICY, TOKYO): ("idle", "not started")}


def test_a_lost_range_costs_no_session_of_another_range_its_standing(site: Engine):
    keys = [SessionKey(POLICY, destination) for destination in (LIMA, ROME, TOKYO)]
    for key in keys:
        table.ensure(site, key)
    held = lead(site, 0, 1, 2, count=3)
    lead(site, 1, count=3, server="test")
    sessions_led = zip(keys, held, strict=True)
    lost = table.save(site, [Standing(key, led, standing(Position("b1", 3))) for key, led in sessions_led])
    assert [error.name for error in lost] == ["range 1"]
    assert [stored(site)[key][0] for key in keys] == ["log-entry sync", "idle", "log-entry sync"]


def test_a_session_that_its_server_has_ended_becomes_inactive(site: Engine):
    (led,) = lead(site)
    ended = {SessionKey(POLICY, TOKYO): led}
    table.ensure(site, *ended)
    table.deactivate(site, ended, table.NO_PEER)
    assert stored(site) == {(POLICY, TOKYO): ("inactive", table.NO_PEER)}
    lead(site)
    with pytest.raises(OwnershipLostError):
        table.deactivate(site, ended, "again")
