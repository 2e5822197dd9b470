"""The requests that `lrq provide --once` waits for, and its decision when to give up."""

from sqlalchemy import Engine

from lrq.cli.waits.provided import TRIES, WantedSnapshots, pending
from queues import send_snapshot
from queues.database.transactions import writing
from queues.names import ClientName, SiteId
from queues.send_snapshot import attempts
from tests.lr_client.snapshot.providing import POLICY, claim, publish, request


def test_a_request_is_left_until_it_is_published_cancelled_or_replaced(site: Engine) -> None:
    request(site, "tokyo", "lima", "oslo")
    request(site, "tokyo", client="audit")
    wanted = WantedSnapshots(pending(site, POLICY))
    assert sorted(each.destination for each in wanted.left(wanted.requests)) == ["lima", "oslo", "tokyo"]
    attempt = claim(site)
    publish(site, attempt)
    with writing(site) as connection:
        waiting = [name for name in ("tokyo", "lima", "oslo") if name != attempt.destination]
        send_snapshot.cancel(connection, POLICY, SiteId(waiting[0]))
    request(site, waiting[1])
    assert wanted.left(pending(site, POLICY)) == []


def test_a_request_for_every_site_is_replaced_by_those_of_single_sites(site: Engine) -> None:
    with writing(site) as connection:
        send_snapshot.request(connection, POLICY, None, "all")
    wanted = WantedSnapshots(pending(site, POLICY))
    assert wanted.expanded(pending(site, POLICY)) is wanted
    with writing(site) as connection:
        send_snapshot.expand(connection, ClientName("policy"), [SiteId("tokyo"), SiteId("lima")])
    now = pending(site, POLICY)
    assert wanted.left(now) == []
    assert sorted(each.destination for each in wanted.expanded(now).left(now)) == ["lima", "tokyo"]


def test_only_attempts_since_the_start_count_as_failures(site: Engine) -> None:
    request(site, "tokyo")

    def fail() -> None:
        attempt = claim(site)
        with writing(site) as connection:
            attempts.fail(connection, attempt, "no such table", retry_after=0.0)

    for _ in range(TRIES):
        fail()
    wanted = WantedSnapshots(pending(site, POLICY))
    for tries in range(1, TRIES + 1):
        fail()
        assert bool(wanted.failures(pending(site, POLICY))) is (tries == TRIES)
