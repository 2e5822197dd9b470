"""The log after a snapshot's base: whoever gets the snapshot goes on from there."""

from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from lr_server import session_table
from lr_server.states import Standing, Words
from queues import leases, snapshots
from queues.leases import Lease
from queues.log.opening import open_log
from queues.log.port import Limits, Owed, Retention
from queues.positions import Position
from queues.snapshots import attempts as snapshot_attempts
from queues.tables import sessions
from queues.transactions import reading, writing
from tests.snapshot.providing import POLICY, TOKYO, claim, publish, request
from tests.snapshot.test_requests import client

OWED = Owed(POLICY, TOKYO)


def owner(site: Engine) -> Lease:
    lease = leases.acquire(site, "server", "me", ttl=600)
    assert lease is not None
    return lease


def acknowledge(site: Engine, lease: Lease, seq: int) -> None:
    session_table.ensure(site, OWED)
    session_table.save(site, lease, [(OWED, Standing(Words("log-entry sync", ""), Position("b", seq), 0))])


def lost_seq(site: Engine) -> int:
    with reading(site) as connection:
        return int(connection.execute(select(sessions.c.lost_seq)).scalar_one())


def test_entries_after_the_base_of_a_snapshot_are_kept_whatever_is_acknowledged(site: Engine) -> None:
    lease, log = owner(site), open_log(site, Limits())
    with Session(site) as session, session.begin():
        client.transmit_log_entry_message(session, b"1", ["tokyo"])
    assert log.take_tick(lease, log.bounds().newest) is not None
    assert log.rotate(lease, 1, 0)
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    with writing(site) as connection:
        snapshot_attempts.pin(connection, attempt, Position("b", 0, "id/0"))
    acknowledge(site, lease, 1)
    assert log.trim(lease, Retention()).emptied_segments == 0
    publish(site, attempt, base=Position("b", 0, "id/0"))
    assert log.trim(lease, Retention()).emptied_segments == 0
    with writing(site) as connection:
        snapshots.mark_applied(connection, sync_id)
    assert log.trim(lease, Retention()).emptied_segments == 1
    log.close()


def test_who_goes_back_has_lost_what_was_trimmed_meanwhile(site: Engine) -> None:
    lease = owner(site)
    acknowledge(site, lease, 7)
    assert lost_seq(site) == 0
    acknowledge(site, lease, 3)
    assert lost_seq(site) == 7
    with writing(site) as connection:
        connection.execute(update(sessions).values(lost_seq=9))
    acknowledge(site, lease, 1)
    assert lost_seq(site) == 9
