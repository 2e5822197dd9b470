"""Requests: in the caller's transaction, the newest wins."""

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from lr_client.sender import RoutingQueueSenderClient
from lr_client.snapshots import request_global_snapshot_sync, request_snapshot_sync
from queues import snapshots
from queues.errors import InvalidNameError, SnapshotCancelledError
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.snapshots import attempts as snapshot_attempts
from queues.snapshots import claiming
from queues.transactions import reading, writing
from tests.snapshot.providing import LIMA, POLICY, TOKYO, by_id, claim, newest, publish, request, write_part

client = RoutingQueueSenderClient("policy")


def test_requests_for_several_sites_in_one_transaction_are_all_kept(site: Engine) -> None:
    with Session(site) as session, session.begin():
        client.request_snapshot_sync(session, "tokyo")
        client.request_snapshot_sync(session, "lima")
        client.transmit_log_entry_message(session, b"x", ["tokyo"])
    assert newest(site, TOKYO).state == newest(site, LIMA).state == "requested"
    with writing(site) as connection:
        claimed = claiming.claim(connection, POLICY, "me", limit=5)
    assert [attempt.destination for attempt in claimed] == [TOKYO, LIMA]


def test_a_request_that_is_rolled_back_was_never_made(site: Engine) -> None:
    with Session(site) as session:
        client.request_snapshot_sync(session, "tokyo")
        session.rollback()
    with reading(site) as connection:
        assert snapshots.newest(connection, POLICY, TOKYO) is None


def test_a_malformed_destination_is_refused(site: Engine) -> None:
    with Session(site) as session, pytest.raises(InvalidNameError):
        request_snapshot_sync(session, "policy", "to kyo")


def test_the_newest_of_several_requests_wins_even_when_the_clock_stands_still(site: Engine) -> None:
    asked = [request(site, "tokyo")[0] for _ in range(20)]
    assert newest(site).sync_id == asked[-1]
    assert claim(site).sync_id == asked[-1]
    assert {by_id(site, sync_id).state for sync_id in asked[:-1]} == {"cancelled"}


def test_a_request_for_one_site_or_client_touches_no_other(site: Engine) -> None:
    (lima,) = request(site, "lima")
    (other,) = request(site, "tokyo", client="policy_v2")
    request(site, "tokyo")
    with writing(site) as connection:
        assert snapshots.cancel_superseded(connection) == 0
    assert by_id(site, lima).state == by_id(site, other).state == "requested"


def test_a_newer_request_keeps_an_older_attempt_from_publishing(site: Engine) -> None:
    request(site, "tokyo")
    attempt = claim(site)
    writer = write_part(site, attempt, 0, [b"old"])
    request(site, "tokyo")
    with pytest.raises(SnapshotCancelledError, match="newer request"):
        publish(site, attempt, writer)
    assert newest(site).state == "requested"


def test_a_newer_request_cancels_one_that_is_ready(site: Engine) -> None:
    (old,) = request(site, "tokyo")
    publish(site, claim(site))
    (new,) = request(site, "tokyo")
    assert claim(site).sync_id == new
    assert by_id(site, old).state == "cancelled"


def test_the_request_for_every_site_becomes_one_for_each(site: Engine) -> None:
    with Session(site) as session, session.begin():
        request_global_snapshot_sync(session, "policy")
    with writing(site) as connection:
        made = snapshots.expand(connection, POLICY, [TOKYO, LIMA])
        assert snapshots.expand(connection, POLICY, [TOKYO, LIMA]) == []
    assert {newest(site, TOKYO).sync_id, newest(site, LIMA).sync_id} == set(made)


def test_the_request_for_every_site_leaves_alone_a_site_that_asked_later(site: Engine) -> None:
    with writing(site) as connection:
        snapshots.request(connection, POLICY, None, "everyone")
    (own,) = request(site, "tokyo")
    with writing(site) as connection:
        assert len(snapshots.expand(connection, POLICY, [TOKYO, LIMA])) == 1
    assert newest(site, TOKYO).sync_id == own


def test_nobody_builds_the_request_for_every_site_itself(site: Engine) -> None:
    with writing(site) as connection:
        snapshots.request(connection, POLICY, None, "everyone")
        assert not claiming.due(connection, POLICY)
        assert claiming.claim(connection, POLICY, "me", limit=5) == []


def test_a_failed_attempt_waits_out_its_backoff(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    with writing(site) as connection:
        assert snapshot_attempts.fail(connection, attempt, "the disk is full", retry_after=3600)
        assert not claiming.due(connection, POLICY)
    assert by_id(site, sync_id).error == "the disk is full"


def test_what_nobody_builds_any_more_is_due_again(site: Engine) -> None:
    request(site, "tokyo")
    dead = claim(site, owner="dead")
    alive = claim(site, owner="alive")
    assert (alive.sync_id, alive.number) == (dead.sync_id, dead.number + 1)
    with pytest.raises(SnapshotCancelledError):
        publish(site, dead)
    publish(site, alive)
    assert newest(site).owner == "alive"


def test_the_base_of_a_snapshot_is_needed_until_it_is_applied(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    with writing(site) as connection:
        snapshot_attempts.pin(connection, attempt, Position("b", 7, "id/9"))
        assert snapshots.needed_base(connection, POLICY, TOKYO) == Position("b", 7, "id/9")
    publish(site, attempt)
    with writing(site) as connection:
        snapshots.mark_applied(connection, sync_id)
        assert snapshots.needed_base(connection, POLICY, TOKYO) is None
    assert by_id(site, sync_id).finished


def test_cancel_and_failure_are_final(site: Engine) -> None:
    (tokyo, lima) = request(site, "tokyo", "lima")
    with writing(site) as connection:
        assert snapshots.cancel(connection, POLICY, TOKYO) == 1
        snapshots.mark_failed(connection, lima, "the sink has no room for such rows")
        assert snapshots.cancel(connection, POLICY) == 0
        assert not claiming.due(connection, POLICY)
    assert (by_id(site, tokyo).state, by_id(site, lima).state) == ("cancelled", "failed")


def test_a_provider_is_known_alive_until_it_is_gone(site: Engine) -> None:
    with writing(site) as connection:
        snapshots.provider_seen(connection, POLICY, "app/1")
        snapshots.provider_seen(connection, POLICY, "app/2")
        snapshots.provider_gone(connection, POLICY, "app/1")
        assert [(found.client, found.alive) for found in snapshots.providers(connection)] == [("policy", True)]
        snapshots.provider_gone(connection, POLICY, "app/2")
        assert [(found.client, found.alive) for found in snapshots.providers(connection)] == [("policy", False)]


def test_the_listing_is_newest_first(site: Engine) -> None:
    request(site, "tokyo")
    request(site, "lima")
    request(site, "tokyo", client="other")
    with reading(site) as connection:
        assert [found.destination for found in snapshots.listing(connection, POLICY)] == [LIMA, TOKYO]
        assert len(snapshots.listing(connection)) == 3
        assert snapshots.newest(connection, ClientName("other"), SiteId("nowhere")) is None
