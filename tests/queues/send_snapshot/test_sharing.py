"""One build serves several sites: its rows are stored once, and each site gets them as its own snapshot."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event

from lr_client.snapshot.requests import SnapshotContext
from queues import send_snapshot
from queues.database.transactions import writing
from queues.errors import SnapshotCancelledError
from queues.send_snapshot import attempts as snapshot_attempts
from queues.send_snapshot import claims
from queues.send_snapshot.states import Attempt
from tests.lr_client.snapshot.providing import (
    BASE,
    LIMA,
    POLICY,
    TOKYO,
    Provider,
    by_id,
    newest,
    numbered,
    payloads_of,
    publish,
    quick,
    ready,
    request,
    stored,
    write_part,
)
from tests.waiting import eventually

pytestmark = pytest.mark.long


def claim_together(engine: Engine) -> Attempt:
    with writing(engine) as connection:
        (attempt,) = claims.claim(connection, POLICY, "me", limit=2, together=True)
    return attempt


def collect(engine: Engine) -> int:
    with writing(engine) as connection:
        return send_snapshot.collect_garbage(connection)


def test_sites_that_ask_within_the_window_share_one_build(site: Engine) -> None:
    provider = Provider(numbered(3))
    with quick(site, provider, share_window=5.0):
        asked = [request(site, destination)[0] for destination in ("tokyo", "lima", "nairobi")]
        found = [ready(site, sync_id) for sync_id in asked]
    assert [context.attempt.destinations for context in provider.contexts] == [("tokyo", "lima", "nairobi")]
    assert stored(site) == 3
    assert [payloads_of(site, sync_id) for sync_id in asked] == [[b"row 0", b"row 1", b"row 2"]] * 3
    assert len({(each.base, each.rows, each.checksum) for each in found}) == 1


def test_each_site_has_its_own_build_if_the_provider_reads_the_destination(site: Engine) -> None:
    def payloads(context: SnapshotContext) -> Iterator[bytes]:
        yield f"for {context.destination}".encode()

    asked = request(site, "tokyo", "lima", "nairobi")
    with quick(site, Provider(payloads)):
        found = [ready(site, sync_id) for sync_id in asked]
    assert [payloads_of(site, sync_id) for sync_id in asked] == [[b"for tokyo"], [b"for lima"], [b"for nairobi"]]
    assert [each.attempt for each in found] == [1, 1, 1]


def test_rows_are_kept_until_the_last_site_has_applied_them(site: Engine) -> None:
    tokyo, lima = request(site, "tokyo", "lima")
    attempt = claim_together(site)
    publish(site, attempt, write_part(site, attempt, 0, [b"1", b"2"]))
    with writing(site) as connection:
        send_snapshot.mark_applied(connection, tokyo)
    assert collect(site) == 0
    assert payloads_of(site, lima) == [b"1", b"2"]
    with writing(site) as connection:
        send_snapshot.mark_applied(connection, lima)
    assert collect(site) == 2


def test_a_newer_request_of_one_site_leaves_the_build_to_the_other_sites(site: Engine) -> None:
    old, lima = request(site, "tokyo", "lima")
    attempt = claim_together(site)
    writer = write_part(site, attempt, 0, [b"row"])
    (new,) = request(site, "tokyo")
    assert collect(site) == 0
    publish(site, attempt, writer)
    assert (by_id(site, lima).state, by_id(site, old).state, by_id(site, new).state) == (
        "ready", "cancelled", "requested",
    )  # fmt: skip
    assert payloads_of(site, lima) == [b"row"]
    mine = claim_together(site)
    publish(site, mine, write_part(site, mine, 0, [b"newer"]))
    assert collect(site) == 0
    assert (payloads_of(site, lima), payloads_of(site, new)) == ([b"row"], [b"newer"])


def test_a_build_that_no_site_needs_any_more_cannot_be_published(site: Engine) -> None:
    request(site, "tokyo", "lima")
    attempt = claim_together(site)
    writer = write_part(site, attempt, 0, [b"row"])
    with writing(site) as connection:
        send_snapshot.cancel(connection, POLICY)
    with pytest.raises(SnapshotCancelledError):
        publish(site, attempt, writer)
    assert collect(site) == 1


def test_a_failed_build_is_repeated_for_all_its_sites(site: Engine) -> None:
    asked = request(site, "tokyo", "lima")
    attempt = claim_together(site)
    write_part(site, attempt, 0, [b"lost"])
    with writing(site) as connection:
        assert snapshot_attempts.fail(connection, attempt, "it broke", retry_after=0)
    assert {(by_id(site, sync_id).state, by_id(site, sync_id).error) for sync_id in asked} == {
        ("requested", "it broke")
    }
    again = claim_together(site)
    writer = write_part(site, again, 0, [b"kept"])
    assert collect(site) == 1
    publish(site, again, writer)
    assert [payloads_of(site, sync_id) for sync_id in asked] == [[b"kept"]] * 2


def test_a_build_for_one_site_releases_the_other_sites(site: Engine) -> None:
    tokyo, lima = request(site, "tokyo", "lima")
    attempt = claim_together(site)
    with writing(site) as connection:
        send_snapshot.cancel(connection, POLICY, TOKYO)
        alone = snapshot_attempts.keep_one(connection, attempt)
    assert (alone.destination, alone.others, alone.build) == (LIMA, (), attempt.build)
    publish(site, alone, write_part(site, alone, 0, [b"of lima"]))
    assert (by_id(site, tokyo).state, payloads_of(site, lima)) == ("cancelled", [b"of lima"])
    with writing(site) as connection, pytest.raises(SnapshotCancelledError):
        snapshot_attempts.keep_one(connection, alone)


def test_each_site_needs_the_base_of_its_build(site: Engine) -> None:
    request(site, "tokyo", "lima")
    attempt = claim_together(site)
    with writing(site) as connection:
        snapshot_attempts.pin(connection, attempt, BASE)
        for destination in (TOKYO, LIMA):
            assert send_snapshot.newest(connection, POLICY, destination).base == BASE


def test_a_request_during_a_build_does_not_wait_for_that_build(site: Engine) -> None:
    begun, release = threading.Event(), threading.Event()

    class Slow(Provider):
        def provide_full_state_data(self, context: SnapshotContext) -> None:
            if not self.contexts:
                begun.set()
                self.contexts.append(context)
                assert release.wait(20)
                context.mark_completed()
                return
            super().provide_full_state_data(context)

    (tokyo,) = request(site, "tokyo")
    with quick(site, Slow(numbered(1))):
        assert begun.wait(20)
        (lima,) = request(site, "lima")
        ready(site, lima)
        assert newest(site).state == "building"
        release.set()
        ready(site, tokyo)
        eventually(lambda: payloads_of(site, tokyo) == [])


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_rows_of_an_attempt_that_begins_while_garbage_is_sought_are_kept(site: Engine) -> None:
    request(site, "tokyo")
    first = claim_together(site)
    write_part(site, first, 0, [b"of the first attempt"])
    with writing(site) as connection:
        assert snapshot_attempts.fail(connection, first, "no luck", retry_after=0.0)
    begun: list[Attempt] = []

    def begin(*call: Any) -> None:
        if "LIKE" in call[2] and not begun:
            begun.append(first)
            begun.append(claim_together(site))
            write_part(site, begun[-1], 0, [b"1", b"2"])

    event.listen(site, "after_cursor_execute", begin)
    assert collect(site) == 1
    event.remove(site, "after_cursor_execute", begin)
    second = begun[-1]
    assert second.number == 2
    assert stored(site) == 2
