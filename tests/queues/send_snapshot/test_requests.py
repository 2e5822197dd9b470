"""Snapshot requests are part of the caller's transaction, and the newest request of a site wins."""

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.orm import Session

from lr_client.sender import RoutingQueueSenderClient
from lr_client.snapshot.requests import request_global_snapshot_sync, request_snapshot_sync
from queues import send_snapshot
from queues.database.tables.snapshots import snapshots
from queues.database.transactions import reading, writing
from queues.errors import (
    InvalidNameError,
    NotInTransactionError,
    SnapshotCancelledError,
    UnknownDestinationError,
)
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.send_snapshot import attempts as snapshot_attempts
from queues.send_snapshot import claims
from tests.lr_client.snapshot.providing import LIMA, POLICY, TOKYO, by_id, claim, newest, publish, request, write_part

client = RoutingQueueSenderClient("policy")

HOUR_US = 3_600_000_000


def test_requests_for_several_sites_in_one_transaction_are_all_kept(site: Engine) -> None:
    with Session(site) as session, session.begin():
        client.request_snapshot_sync(session, "tokyo")
        client.request_snapshot_sync(session, "lima")
        client.transmit_log_entry_message(session, b"x", ["tokyo"])
    assert newest(site, TOKYO).state == newest(site, LIMA).state == "requested"
    with writing(site) as connection:
        claimed = claims.claim(connection, POLICY, "me", limit=5)
    assert [attempt.destination for attempt in claimed] == [TOKYO, LIMA]


def test_a_rolled_back_request_is_not_made(site: Engine) -> None:
    with Session(site) as session:
        client.request_snapshot_sync(session, "tokyo")
        session.rollback()
    with reading(site) as connection:
        assert send_snapshot.newest(connection, POLICY, TOKYO) is None


def test_a_request_on_a_connection_in_autocommit_is_refused(site: Engine) -> None:
    alone = site.execution_options(isolation_level="AUTOCOMMIT")
    with Session(alone) as session, pytest.raises(NotInTransactionError, match="a request for a snapshot needs"):
        client.request_snapshot_sync(session, "tokyo")
    with alone.connect() as connection, pytest.raises(NotInTransactionError, match="a request for a snapshot needs"):
        client.request_global_snapshot_sync(connection)
    with reading(site) as connection:
        assert send_snapshot.listing(connection) == []


def test_a_malformed_destination_is_refused(site: Engine) -> None:
    with Session(site) as session, pytest.raises(InvalidNameError):
        request_snapshot_sync(session, "policy", "to kyo")


def test_a_request_for_this_site_itself_is_refused_and_leaves_nothing(site: Engine) -> None:
    with Session(site) as session, session.begin():
        with pytest.raises(UnknownDestinationError, match="'paris' is this site itself"):
            client.request_snapshot_sync(session, "paris")
        client.transmit_log_entry_message(session, b"x", ["tokyo"])
    with reading(site) as connection:
        assert send_snapshot.listing(connection) == []


def test_the_newest_request_wins_though_the_clock_stands_still(site: Engine) -> None:
    asked = [request(site, "tokyo")[0] for _ in range(20)]
    assert newest(site).sync_id == asked[-1]
    assert claim(site).sync_id == asked[-1]
    assert {by_id(site, sync_id).state for sync_id in asked[:-1]} == {"cancelled"}


def test_a_request_does_not_wait_for_a_clock_that_was_set_back(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    with writing(site) as connection:
        made = snapshots.c.sync_id == sync_id
        connection.execute(update(snapshots).where(made).values(requested_us=snapshots.c.requested_us + HOUR_US))
    (newer,) = request(site, "tokyo")
    with reading(site) as connection:
        assert claims.due_in(connection, POLICY, window=0.25) == 0.0
    assert claim(site).sync_id == newer


def test_a_failed_attempt_is_repeated_though_the_clock_was_set_back(site: Engine) -> None:
    request(site, "tokyo")
    attempt = claim(site)
    with writing(site) as connection:
        assert snapshot_attempts.fail(connection, attempt, "no luck", retry_after=300.0)
    with reading(site) as connection:
        assert claims.due_in(connection, POLICY) is None
    with writing(site) as connection:
        later = {name: snapshots.c[name] + HOUR_US for name in ("requested_us", "retry_us", "updated_us")}
        connection.execute(update(snapshots).values(later))
    assert claim(site).number == 2


def test_a_request_for_one_site_or_client_touches_no_other(site: Engine) -> None:
    (lima,) = request(site, "lima")
    (other,) = request(site, "tokyo", client="policy_v2")
    request(site, "tokyo")
    with writing(site) as connection:
        assert send_snapshot.cancel_superseded(connection) == 0
    assert by_id(site, lima).state == by_id(site, other).state == "requested"


def test_a_newer_request_keeps_an_older_attempt_from_publishing(site: Engine) -> None:
    request(site, "tokyo")
    attempt = claim(site)
    writer = write_part(site, attempt, 0, [b"old"])
    request(site, "tokyo")
    with pytest.raises(SnapshotCancelledError, match="newer request"):
        publish(site, attempt, writer)
    assert newest(site).state == "requested"


def test_a_newer_request_cancels_a_ready_snapshot(site: Engine) -> None:
    (old,) = request(site, "tokyo")
    publish(site, claim(site))
    (new,) = request(site, "tokyo")
    assert claim(site).sync_id == new
    assert by_id(site, old).state == "cancelled"


def test_a_request_for_all_sites_becomes_one_request_for_each(site: Engine) -> None:
    with Session(site) as session, session.begin():
        request_global_snapshot_sync(session, "policy")
    with writing(site) as connection:
        made = send_snapshot.expand(connection, POLICY, [TOKYO, LIMA])
        assert send_snapshot.expand(connection, POLICY, [TOKYO, LIMA]) == []
    assert {newest(site, TOKYO).sync_id, newest(site, LIMA).sync_id} == set(made)


def test_a_request_for_all_sites_does_not_replace_a_newer_request_of_one_site(site: Engine) -> None:
    with writing(site) as connection:
        send_snapshot.request(connection, POLICY, None, "everyone")
    (own,) = request(site, "tokyo")
    with writing(site) as connection:
        assert len(send_snapshot.expand(connection, POLICY, [TOKYO, LIMA])) == 1
    assert newest(site, TOKYO).sync_id == own


def test_a_request_for_all_sites_is_not_built_itself(site: Engine) -> None:
    with writing(site) as connection:
        send_snapshot.request(connection, POLICY, None, "everyone")
        assert claims.due_in(connection, POLICY) is None
        assert claims.claim(connection, POLICY, "me", limit=5) == []


def test_a_request_is_due_after_it_has_waited_for_others(site: Engine) -> None:
    with reading(site) as connection:
        assert claims.due_in(connection, POLICY, window=3600) is None
    request(site, "tokyo")
    with reading(site) as connection:
        assert 3000 < claims.due_in(connection, POLICY, window=3600) <= 3600
        assert claims.due_in(connection, POLICY) == 0


def test_a_failed_attempt_is_repeated_only_after_its_backoff(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    with writing(site) as connection:
        assert snapshot_attempts.fail(connection, attempt, "the disk is full", retry_after=3600)
        assert claims.due_in(connection, POLICY) is None
    assert by_id(site, sync_id).error == "the disk is full"


def test_a_snapshot_whose_builder_has_died_is_due_again(site: Engine) -> None:
    request(site, "tokyo")
    dead = claim(site, owner="dead")
    alive = claim(site, owner="alive")
    assert (alive.sync_id, alive.number) == (dead.sync_id, dead.number + 1)
    with pytest.raises(SnapshotCancelledError):
        publish(site, dead)
    publish(site, alive)
    assert newest(site).owner == "alive"


def test_a_snapshot_has_its_base_and_is_finished_when_applied(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    with writing(site) as connection:
        snapshot_attempts.pin(connection, attempt, Position("b", 7, "id/9"))
    assert newest(site).base == Position("b", 7, "id/9")
    publish(site, attempt)
    assert not by_id(site, sync_id).finished
    with writing(site) as connection:
        send_snapshot.mark_applied(connection, sync_id)
    assert by_id(site, sync_id).finished


def test_a_cancelled_snapshot_stays_cancelled(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    with writing(site) as connection:
        assert send_snapshot.cancel(connection, POLICY, TOKYO) == 1
        assert send_snapshot.cancel(connection, POLICY) == 0
        assert claims.due_in(connection, POLICY) is None
    assert by_id(site, sync_id).state == "cancelled"


def test_a_client_has_a_living_provider_until_its_last_one_is_gone(site: Engine) -> None:
    with writing(site) as connection:
        send_snapshot.provider_seen(connection, POLICY, "app/1")
        send_snapshot.provider_seen(connection, POLICY, "app/2")
        send_snapshot.provider_gone(connection, POLICY, "app/1")
        assert [(found.client, found.alive) for found in send_snapshot.providers(connection)] == [("policy", True)]
        send_snapshot.provider_gone(connection, POLICY, "app/2")
        assert [(found.client, found.alive) for found in send_snapshot.providers(connection)] == [("policy", False)]


def test_the_newest_snapshot_is_listed_first(site: Engine) -> None:
    request(site, "tokyo")
    request(site, "lima")
    request(site, "tokyo", client="other")
    with reading(site) as connection:
        assert [found.destination for found in send_snapshot.listing(connection, POLICY)] == [LIMA, TOKYO]
        assert len(send_snapshot.listing(connection)) == 3
        assert send_snapshot.newest(connection, ClientName("other"), SiteId("nowhere")) is None
