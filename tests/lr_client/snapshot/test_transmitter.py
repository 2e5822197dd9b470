"""The transmitter that owns the lease serves every request, once and completely."""

import sys
import threading
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

import queues
from lr_client.sender import RoutingQueueSenderClient
from lr_client.snapshot.requests import SnapshotContext, request_snapshot_sync
from queues import send_snapshot
from queues.clock import SystemClock
from queues.database import leases
from queues.database.transactions import reading, writing
from queues.errors import PayloadTooLargeError, SnapshotCancelledError, UsageError
from queues.names import SiteId
from queues.send_log.known_sites import KnownSites, record_known
from queues.send_snapshot import hints
from tests.lr_client.snapshot.providing import (
    LIMA,
    POLICY,
    TOKYO,
    Provider,
    by_id,
    newest,
    numbered,
    payloads_of,
    quick,
    ready,
    request,
    rows_of,
    stored,
)
from tests.waiting import eventually

pytestmark = pytest.mark.long


def test_the_provider_s_rows_are_published_with_base_counts_and_keys(site: Engine) -> None:
    class Keyed(Provider):
        def provide_full_state_data(self, context: SnapshotContext) -> None:
            super_payloads = self._payloads(context)
            for number, payload in enumerate(super_payloads):
                context.transmit(payload, item_key=f"k{number}", progress=number / 3)
            context.mark_completed()

    (sync_id,) = request(site, "tokyo")
    with quick(site, Keyed(numbered(3))):
        found = ready(site, sync_id)
    assert [(row.payload, row.item_key) for row in rows_of(site, sync_id)] == [
        (b"row 0", "k0"),
        (b"row 1", "k1"),
        (b"row 2", "k2"),
    ]
    assert (found.rows, found.bytes, found.progress, found.error) == (3, 15, "67%", "")
    assert found.base.branch


def test_a_request_during_operation_is_found(site: Engine) -> None:
    with quick(site, Provider(numbered(3))):
        client = RoutingQueueSenderClient("policy")
        with Session(site) as session, session.begin():
            client.request_snapshot_sync(session, "tokyo")
            client.request_snapshot_sync(session, "lima")
        for destination in (TOKYO, LIMA):
            eventually(lambda destination=destination: newest(site, destination).state == "ready")


class RecordedClock(SystemClock):
    """Records the seconds of each wait, and shortens the waits."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def wait(self, event: threading.Event, timeout: float) -> bool:
        self.waits.append(timeout)
        return super().wait(event, min(timeout, 0.01))


def test_the_next_look_at_a_waiting_request_comes_when_its_window_ends(site: Engine) -> None:
    clock = RecordedClock()
    request(site, "tokyo")
    with quick(site, Provider(numbered(1)), poll_interval=3600, share_window=1000, clock=clock):
        # Doubled waits from 0.02 on have no value in this range.
        eventually(lambda: any(900 < seconds <= 1000 for seconds in clock.waits))


def known_peers(engine: Engine, *peers: str) -> None:
    with writing(engine) as connection:
        record_known(connection, KnownSites(frozenset(map(SiteId, peers))))


def test_a_request_waits_for_no_other_once_every_peer_has_asked(site: Engine) -> None:
    known_peers(site, "tokyo", "lima")
    provider = Provider(numbered(1))
    request(site, "tokyo")
    clock = RecordedClock()
    with quick(site, provider, share_window=1000, clock=clock):
        # The request of Tokyo waits for the one of Lima.
        eventually(lambda: any(seconds <= 0.02 for seconds in clock.waits) and len(clock.waits) > 3)
        assert provider.contexts == []
        request(site, "lima")
        eventually(lambda: newest(site, LIMA).state == "ready")
    assert [context.attempt.destinations for context in provider.contexts] == [(TOKYO, LIMA)]
    assert newest(site, TOKYO).state == "ready"


def test_the_request_of_the_only_peer_waits_for_no_other(site: Engine) -> None:
    known_peers(site, "tokyo")
    (sync_id,) = request(site, "tokyo")
    with quick(site, Provider(numbered(1)), share_window=1000):
        ready(site, sync_id)


@pytest.mark.skipif(sys.platform != "linux", reason="there are no datagrams")
def test_a_request_is_found_before_the_next_poll(site: Engine) -> None:
    class Hurried(RecordedClock):
        """Shortens the waits up to a minute: no transmitter is idle before."""

        def wait(self, event: threading.Event, timeout: float) -> bool:
            self.waits.append(timeout)
            return SystemClock.wait(self, event, timeout if timeout > 60 else min(timeout, 0.25))

    clock = Hurried()
    with quick(site, Provider(numbered(1)), poll_interval=3600.0, lease_seconds=1e6, share_window=0.0, clock=clock):
        eventually(lambda: any(seconds > 60 for seconds in clock.waits))
        with Session(site) as session, session.begin():
            sync_id = request_snapshot_sync(session, "policy", "tokyo")
        ready(site, sync_id)


@pytest.mark.skipif(sys.platform != "linux", reason="there are no datagrams")
def test_a_published_snapshot_wakes_the_servers(site: Engine) -> None:
    with reading(site) as connection:
        servers = hints.names_at(connection).servers()
    woken = threading.Event()
    with hints.HintReceiver(servers, woken), quick(site, Provider(numbered(1))):

        def is_woken() -> bool:
            request(site, "tokyo")
            return woken.wait(1)

        eventually(is_woken)


def test_an_empty_snapshot_completes(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    with quick(site, Provider(numbered(0))):
        assert ready(site, sync_id).rows == 0


def test_of_a_snapshot_cancelled_half_way_only_the_newer_one_is_published(site: Engine) -> None:
    half_way = threading.Event()
    outcome: list[BaseException] = []

    def payloads(context: SnapshotContext) -> Iterator[bytes]:
        for number in range(200):
            if number == 100 and context.sync_id == first:
                half_way.set()
                eventually(lambda: context.cancelled)
            yield f"{context.sync_id} {number}".encode()

    class Watched(Provider):
        def provide_full_state_data(self, context: SnapshotContext) -> None:
            try:
                super().provide_full_state_data(context)
            except SnapshotCancelledError as error:
                outcome.append(error)
                raise

    (first,) = request(site, "tokyo")
    provider = Watched(payloads)
    with quick(site, provider):
        assert half_way.wait(20)
        (second,) = request(site, "tokyo")
        ready(site, second)
        eventually(lambda: provider.cancelled == [first] and outcome)
    assert payloads_of(site, second) == [f"{second} {number}".encode() for number in range(200)]
    assert by_id(site, first).state == "cancelled"


def test_returning_without_completing_fails_the_attempt_and_the_next_one_succeeds(site: Engine) -> None:
    class Forgetful(Provider):
        def provide_full_state_data(self, context: SnapshotContext) -> None:
            if self.contexts:
                super().provide_full_state_data(context)
                return
            self.contexts.append(context)
            context.transmit(b"lost")

    errors: list[str] = []
    (sync_id,) = request(site, "tokyo")

    def backoff(_attempt: int) -> float:
        errors.append("failed")
        return 0.0

    with quick(site, Forgetful(numbered(2)), backoff=backoff):
        found = ready(site, sync_id)
    assert (errors, found.attempt) == (["failed"], 2)
    assert payloads_of(site, sync_id) == [b"row 0", b"row 1"]


def test_a_failing_provider_is_retried_with_growing_backoff_and_its_reason_is_kept(site: Engine) -> None:
    reasons: list[str] = []
    asked: list[int] = []

    class Failing(Provider):
        def provide_full_state_data(self, context: SnapshotContext) -> None:
            if len(self.contexts) < 2:
                self.contexts.append(context)
                context.transmit(b"lost")
                raise OSError(f"the file is gone {len(self.contexts)}")
            reasons.append(by_id(site, context.sync_id).error)
            super().provide_full_state_data(context)

    def backoff(attempt: int) -> float:
        asked.append(attempt)
        return 0.0

    (sync_id,) = request(site, "tokyo")
    with quick(site, Failing(numbered(2)), backoff=backoff):
        ready(site, sync_id)
    assert asked == [1, 2]
    assert reasons == ["OSError: the file is gone 2"]
    assert payloads_of(site, sync_id) == [b"row 0", b"row 1"]


def test_a_provider_that_exits_its_thread_fails_the_attempt(site: Engine) -> None:
    class Exiting(Provider):
        def provide_full_state_data(self, context: SnapshotContext) -> None:
            if not self.contexts:
                self.contexts.append(context)
                raise SystemExit
            super().provide_full_state_data(context)

    (sync_id,) = request(site, "tokyo")
    with quick(site, Exiting(numbered(1))):
        assert ready(site, sync_id).attempt == 2


def test_a_completed_snapshot_takes_no_row_and_its_provider_is_not_cancelled(site: Engine) -> None:
    completed, release, refused = threading.Event(), threading.Event(), threading.Event()

    class Late(Provider):
        def provide_full_state_data(self, context: SnapshotContext) -> None:
            super().provide_full_state_data(context)
            if context.destination == TOKYO:
                completed.set()
                assert release.wait(20)
                with pytest.raises(UsageError, match="completed already"):
                    context.transmit(b"late")
                refused.set()

    (sync_id,) = request(site, "tokyo")
    provider = Late(numbered(2))
    with quick(site, provider):
        assert completed.wait(20)
        # The transmitter looks at all running builds before it serves another site.
        ready(site, *request(site, "lima"))
        release.set()
        assert refused.wait(20)
    assert provider.cancelled == []
    assert len(payloads_of(site, sync_id)) == 2


def test_a_payload_above_the_limit_fails_the_attempt_with_a_sentence(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    with quick(site, Provider(lambda _context: iter([b"x" * 11])), max_payload_bytes=10, backoff=lambda _n: 60.0):
        eventually(lambda: by_id(site, sync_id).error)
    assert by_id(site, sync_id).error == str(PayloadTooLargeError(11, 10))


def test_a_slow_build_for_one_site_does_not_delay_another_site(site: Engine) -> None:
    release = threading.Event()

    def payloads(context: SnapshotContext) -> Iterator[bytes]:
        if context.destination == TOKYO:
            assert release.wait(20)
        yield b"row"

    (tokyo, lima) = request(site, "tokyo", "lima")
    with quick(site, Provider(payloads)):
        ready(site, lima)
        eventually(lambda: by_id(site, tokyo).state == "building")
        release.set()
        ready(site, tokyo)


def test_the_number_of_simultaneous_builds_is_limited(site: Engine) -> None:
    guard = threading.Lock()
    now = most = 0

    def payloads(_context: SnapshotContext) -> Iterator[bytes]:
        nonlocal now, most
        with guard:
            now += 1
            most = max(most, now)
        yield b"row"
        with guard:
            now -= 1

    asked = request(site, *(f"site{number}" for number in range(6)))
    with quick(site, Provider(payloads), parallel=2):
        for sync_id in asked:
            ready(site, sync_id)
    assert most <= 2


def test_a_second_transmitter_works_only_after_the_first_is_closed(site: Engine) -> None:
    first, second = Provider(numbered(1)), Provider(numbered(1))
    working = quick(site, first)
    eventually(lambda: leases.holder(site, "transmitter/policy"))
    with quick(site, second, lease_seconds=1.0):
        (sync_id,) = request(site, "tokyo")
        ready(site, sync_id)
        working.close()
        (sync_id,) = request(site, "tokyo")
        ready(site, sync_id)
    assert (len(first.contexts), len(second.contexts)) == (1, 1)


def test_close_cancels_the_running_build_and_the_next_transmitter_repeats_it(site: Engine) -> None:
    begun = threading.Event()

    def endless(context: SnapshotContext) -> Iterator[bytes]:
        while True:
            yield b"never"
            begun.set()

    (sync_id,) = request(site, "tokyo")
    provider = Provider(endless)
    transmitter = quick(site, provider, backoff=lambda _attempt: 3600.0)
    assert begun.wait(20)
    transmitter.close()
    assert (by_id(site, sync_id).state, by_id(site, sync_id).error) == ("requested", "the transmitter was closed")
    with quick(site, Provider(numbered(1))):
        ready(site, sync_id)
    assert payloads_of(site, sync_id) == [b"row 0"]


def test_a_provider_that_ignores_close_cannot_publish(site: Engine) -> None:
    begun, release = threading.Event(), threading.Event()
    refused: list[BaseException] = []

    class Deaf(Provider):
        def provide_full_state_data(self, context: SnapshotContext) -> None:
            context.transmit(b"deaf")
            begun.set()
            assert release.wait(20)
            try:
                context.mark_completed()
            except SnapshotCancelledError as error:
                refused.append(error)
                raise

    (sync_id,) = request(site, "tokyo")
    transmitter = quick(site, Deaf(numbered(0)))
    assert begun.wait(20)
    transmitter.close(timeout=0.0)
    with quick(site, Provider(numbered(1))):
        ready(site, sync_id)
        release.set()
        eventually(lambda: refused)
    assert payloads_of(site, sync_id) == [b"row 0"]


def test_a_transmitter_that_lost_its_lease_cannot_publish(site: Engine) -> None:
    """The first transmitter is paused until another one has its lease; then the first continues."""
    begun, release = threading.Event(), threading.Event()
    refused: list[BaseException] = []

    class Paused(Provider):
        def provide_full_state_data(self, context: SnapshotContext) -> None:
            context.transmit(b"stale")
            begun.set()
            assert release.wait(20)
            try:
                context.attempt.publish([])
            except SnapshotCancelledError as error:
                refused.append(error)
                raise

    (sync_id,) = request(site, "tokyo")
    provider = Paused(numbered(0))
    with quick(site, provider, lease_seconds=3600.0):
        assert begun.wait(20)
        with site.begin() as connection:
            connection.execute(text("UPDATE lrq_leases SET expires_us = 0 WHERE name = 'transmitter/policy'"))
        with quick(site, Provider(numbered(1)), lease_seconds=3600.0):
            ready(site, sync_id)
            release.set()
            eventually(lambda: refused)
    assert "another" in str(refused[0])
    assert payloads_of(site, sync_id) == [b"row 0"]


def test_a_client_with_a_transmitter_is_shown_as_alive(site: Engine) -> None:
    def alive() -> list[bool]:
        with reading(site) as connection:
            return [found.alive for found in send_snapshot.providers(connection)]

    with quick(site, Provider(numbered(0))):
        eventually(lambda: alive() == [True])
    assert alive() == [False]


def test_the_provider_reads_at_the_cut(site: Engine) -> None:
    with site.begin() as connection:
        connection.execute(text("CREATE TABLE things (id INTEGER PRIMARY KEY)"))
        connection.execute(text("INSERT INTO things VALUES (1)"))

    def payloads(context: SnapshotContext) -> Iterator[bytes]:
        with site.begin() as connection:
            connection.execute(text("INSERT INTO things VALUES (2)"))
        with context.snapshot.connect() as cut:
            for number in cut.execute(text("SELECT id FROM things")).scalars():
                yield b"%d" % number

    (sync_id,) = request(site, "tokyo")
    with quick(site, Provider(payloads)):
        ready(site, sync_id)
    assert payloads_of(site, sync_id) == [b"1"]


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_build_never_locks_out_the_application_on_its_own_sqlite_engine(new_database: Callable[[], str]) -> None:
    url = new_database()
    ours = queues.create_engine(url)
    queues.initialize(ours, site_id="paris")
    ours.dispose()
    app = sqlalchemy.create_engine(url, connect_args={"timeout": 2})
    stop = threading.Event()
    failures: list[BaseException] = []
    with app.begin() as connection:
        connection.execute(text("CREATE TABLE things (id INTEGER PRIMARY KEY)"))

    def work() -> None:
        client = RoutingQueueSenderClient("policy")
        try:
            while not stop.is_set():
                with Session(app) as session, session.begin():
                    session.execute(text("INSERT INTO things DEFAULT VALUES"))
                    client.transmit_log_entry_message(session, b"x" * 100, ["tokyo"])
                # Without a pause a writer on SQLite overtakes the waiting ones again and again.
                stop.wait(0.001)
        except sqlalchemy.exc.OperationalError as error:
            failures.append(error)

    asked = request(app, "tokyo", "lima")
    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    with quick(app, Provider(lambda _context: (b"y" * 1000 for _ in range(20_000))), share_window=0.0):
        for sync_id in asked:
            ready(app, sync_id, timeout=60)
    stop.set()
    for worker in workers:
        worker.join()
    assert failures == []
    assert stored(app) == 40_000
    assert {by_id(app, sync_id).attempt for sync_id in asked} == {1}
    app.dispose()


def test_an_unusable_database_is_reported_until_it_works_again(new_site, tmp_path) -> None:
    site = new_site("paris")
    with site.begin() as connection:
        connection.execute(text("ALTER TABLE lrq_leases RENAME TO away"))
    with quick(site, Provider(numbered(1))) as transmitter:
        eventually(lambda: "lrq init" in transmitter.problem)
        with site.begin() as connection:
            connection.execute(text("ALTER TABLE away RENAME TO lrq_leases"))
        (sync_id,) = request(site, "tokyo")
        ready(site, sync_id)
        eventually(lambda: transmitter.problem == "")
    assert newest(site).client == POLICY
