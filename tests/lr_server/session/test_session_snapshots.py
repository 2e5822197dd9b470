"""The requests for snapshots, as a session hears of them."""

from sqlalchemy import Engine

from lr_server.protocol.events import SnapshotCancelled, SnapshotReady
from lr_server.session.snapshots import SessionSnapshots, as_stored
from queues import send_snapshot
from queues.database.transactions import writing
from queues.send_log.port import SessionKey
from tests.lr_client.snapshot.providing import POLICY, TOKYO, claim, newest, publish, request, write_part


def heard(site: Engine) -> SessionSnapshots:
    return SessionSnapshots(site, SessionKey(POLICY, TOKYO), as_stored)


def test_a_session_that_waits_hears_of_a_newer_request_that_has_come_and_gone(site: Engine) -> None:
    snapshots = heard(site)
    awaited = snapshots.request("a test wants it")
    assert snapshots.look(awaited) is None
    (newer,) = request(site, "tokyo")
    with writing(site) as connection:
        assert send_snapshot.cancel_exactly(connection, newer, "a mistake")
    assert list(snapshots.news(newest(site))) == [SnapshotCancelled(awaited), SnapshotCancelled(newer)]


def test_a_session_does_not_wait_for_a_replaced_request(site: Engine) -> None:
    snapshots = heard(site)
    awaited = snapshots.request("a test wants it")
    (newer,) = request(site, "tokyo")
    # The newer request was told before the session began to wait.
    list(snapshots.news(newest(site)))
    assert snapshots.look(awaited) == SnapshotCancelled(awaited)
    assert snapshots.look(newer) is None
    attempt = claim(site)
    publish(site, attempt, write_part(site, attempt, 0, [b"row"]))
    assert snapshots.look(newer) == SnapshotReady(newer)
