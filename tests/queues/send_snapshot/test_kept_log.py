"""The log after a snapshot's base is kept, because the site continues there after the snapshot."""

import pytest
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from lr_server.protocol.states import SessionStanding, StatusText
from lr_server.session import table as session_table
from lr_server.session.snapshots import SessionSnapshots, as_stored
from lr_server.session.table import Standing
from queues import send_snapshot
from queues.database import leases
from queues.database.leases import Lease
from queues.database.tables.sessions import sessions
from queues.database.transactions import reading, writing
from queues.positions import Position
from queues.send_log.opening import open_log
from queues.send_log.port import Retention, SessionKey, TickLimits
from queues.send_snapshot import attempts as snapshot_attempts
from queues.states import SessionState
from tests.leading import lead
from tests.lr_client.snapshot.providing import POLICY, TOKYO, by_id, claim, publish, request, write_part
from tests.queues.send_snapshot.test_requests import client

OWED = SessionKey(POLICY, TOKYO)


def owner(site: Engine) -> Lease:
    lease = leases.acquire(site, "server", "me", ttl=600)
    assert lease is not None
    return lease


def acknowledge(site: Engine, seq: int, state: SessionState = SessionState.LOG_ENTRY_SYNC) -> None:
    session_table.ensure(site, OWED)
    (led,) = lead(site)
    facts = SessionStanding(StatusText(state, ""), Position("b", seq), 0)
    session_table.save(site, [Standing(OWED, led, facts)])


def lost_seq(site: Engine) -> int:
    with reading(site) as connection:
        return int(connection.execute(select(sessions.c.lost_seq)).scalar_one())


def test_entries_after_the_base_of_a_snapshot_are_kept_even_if_acknowledged(site: Engine) -> None:
    lease, log = owner(site), open_log(site, TickLimits())
    with Session(site) as session, session.begin():
        client.transmit_log_entry_message(session, b"1", ["tokyo"])
    assert log.take_tick(lease, log.bounds().newest) is not None
    assert log.rotate(lease, 1, 0)
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    with writing(site) as connection:
        snapshot_attempts.pin(connection, attempt, Position("b", 0, "id/0"))
    acknowledge(site, 1)
    assert log.trim(lease, Retention()).emptied_segments == 0
    publish(site, attempt, base=Position("b", 0, "id/0"))
    assert log.trim(lease, Retention()).emptied_segments == 0
    # The server may end before it saves that the session goes on from the base.
    assert SessionSnapshots(site, OWED, as_stored).mark_applied(sync_id) == Position("b", 0, "id/0")
    assert log.trim(lease, Retention()).emptied_segments == 0
    acknowledge(site, 1)
    assert log.trim(lease, Retention()).emptied_segments == 1
    log.close()


@pytest.mark.parametrize("state", [SessionState.BACKING_OFF, SessionState.NEGOTIATING, SessionState.SNAPSHOT_SYNC])
def test_a_complete_snapshot_for_a_site_away_ends_with_the_entries_after_it(site: Engine, state: SessionState) -> None:
    lease, log = owner(site), open_log(site, TickLimits())
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    publish(site, attempt, write_part(site, attempt, 0, [b"row"]), base=Position("b", 0, "id/0"))
    with Session(site) as session, session.begin():
        client.transmit_log_entry_message(session, b"1", ["tokyo"])
    assert log.take_tick(lease, log.bounds().newest) is not None
    assert log.rotate(lease, 1, 0)
    acknowledge(site, 0, state)
    assert log.trim(lease, Retention(seconds=0.0)).emptied_segments == 1
    is_away = state is not SessionState.SNAPSHOT_SYNC
    assert by_id(site, sync_id).state == ("cancelled" if is_away else "ready")
    with writing(site) as connection:
        assert send_snapshot.collect_garbage(connection) == is_away
    log.close()


def test_a_session_that_goes_back_records_its_earlier_position_as_lost(site: Engine) -> None:
    acknowledge(site, 7)
    assert lost_seq(site) == 0
    acknowledge(site, 3)
    assert lost_seq(site) == 7
    with writing(site) as connection:
        connection.execute(update(sessions).values(lost_seq=9))
    acknowledge(site, 1)
    assert lost_seq(site) == 9
