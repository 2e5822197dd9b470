"""The status of a site: its JSON, key by key, on both databases."""

import json
from typing import Any

import pytest
from sqlalchemy import Engine, insert, update

from discovery.replay_status import ENDED_SECONDS
from discovery.snapshot_reads import CANCELLED_SECONDS, without_cancelled
from discovery.snapshot_status import FAILING_ATTEMPTS
from discovery.status import read_status
from lr_server import LogReplicationServer, Settings
from lr_server.metrics.metrics_server import families
from lrq.cli.health import troubles
from queues import send_snapshot
from queues.clock import now_us
from queues.database import leases, tables
from queues.database.tables.consumers import consumer_failures, parked_entries
from queues.database.tables.receive import receive_marks, receive_queues
from queues.database.tables.snapshots import snapshots
from queues.database.transactions import writing
from queues.names import ClientName, SiteId
from queues.positions import ORIGIN
from queues.receive import replays
from queues.receive.replays import ReplayState, ReplayWish
from queues.send_snapshot import SnapshotState, SnapshotSync
from queues.send_snapshot import attempts as snapshot_attempts
from tests.lr_client.snapshot.providing import claim, request
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lrq.cli.source import SourceSite

PROGRESS: dict[str, Any] = {
    "expected_rows": 0, "sent_rows": 0, "share": None, "rows_per_second": None, "seconds_left": None,
    "cut_seconds": None,
}  # fmt: skip
NO_LAG: dict[str, Any] = {"entries": 0, "bytes": 0, "seconds": 0.0, "is_most": False}
#: The facts of a failure that an older subscriber has stored.
NO_FACTS: dict[str, Any] = {"sequence": 1, "error_class": "", "place": "", "first_at": None, "last_at": None}
#: The status of a site with one of everything; "time" stands for a time, and -1 for a number that grows with time.
EXPECTED: dict[str, Any] = {
    "site": "paris",
    "at": "time",
    "owners": [{"lease": "server", "owner": "test", "generation": 2, "alive": True, "lapsed_at": None}],
    "servers": [],
    "log": {"branch": "branch", "seq": 2, "trimmed_seq": 0, "last_tick_at": "time", "waiting": 1, "unordered": [],
            "untriggered": [], "unknown_destinations": [], "trim_blockers": [], "unlogged": [], "hiding": [],
            "altering": []},
    "sessions": [
        {
            "client": "policy", "destination": "lima", "state": "inactive", "reason": "gone", "branch": "branch",
            "acked_seq": 0, "applied_seq": None, "lag": NO_LAG, "applied_lag": NO_LAG, "stalled": False,
            "replaced": 0, "unprovided": False, "unapplied": False, "server": None, "generation": 0,
            "window_percent": 0, "updated_at": "time",
        },
        {
            "client": "policy", "destination": "tokyo", "state": "backing off", "reason": "away", "branch": "branch",
            "acked_seq": 1, "applied_seq": 0, "lag": {"entries": 1, "bytes": 2, "seconds": -1.0, "is_most": False},
            "applied_lag": {"entries": 2, "bytes": 3, "seconds": -1.0, "is_most": False}, "stalled": False,
            "replaced": 0, "unprovided": False, "unapplied": False, "server": None, "generation": 0,
            "window_percent": 0, "updated_at": "time",
        },
    ],
    "links": [],
    "replicas": [],
    "snapshots": [
        {
            "sync_id": "id", "client": "policy", "destination": "tokyo", "state": "building", "reason": "wanted",
            "attempt": 1, "failed_attempts": 0, "rows": 50, "bytes": 0, "progress": "", **PROGRESS,
            "expected_rows": 200, "share": 0.25,
            "rows_per_second": -1.0, "seconds_left": -1.0, "cut_seconds": -1.0, "error": "",
            "requested_at": "time", "updated_at": "time",
        },
        {
            "sync_id": "id", "client": "policy", "destination": "lima", "state": "cancelled", "reason": "wanted",
            "attempt": 0, "failed_attempts": 0, "rows": 0, "bytes": 0, "progress": "", **PROGRESS, "error": "cancelled",
            "requested_at": "time", "updated_at": "time",
        },
    ],
    "receive_queues": [
        {
            "name": "LRQ_Recv_policy_lima", "client": "policy", "source": "lima", "received_seq": 0, "source_seq": 0,
            "applied_seq": 0, "phase": "not subscribed", "outstanding": 0, "more": False, "oldest_seconds": 0.0,
            "received_total": 0, "duplicates_total": 0, "applied_total": 0, "parked": 0, "staging": None,
            "sync_id": "", "failure": None, "subscribed": False, "snapshot_waits": False, "shards": [],
        },
        {
            "name": "LRQ_Recv_policy_oslo", "client": "policy", "source": "oslo", "received_seq": 2, "source_seq": 0,
            "applied_seq": 0, "phase": "not subscribed", "outstanding": 2, "more": False, "oldest_seconds": -1.0,
            "received_total": 0, "duplicates_total": 0, "applied_total": 0, "parked": 1,
            "staging": {"sync_id": "s", "rows": 7}, "sync_id": "", "failure": {"tries": 4, "error": "no"} | NO_FACTS,
            "subscribed": False, "snapshot_waits": False, "shards": [],
        },
    ],
    "replays": [
        {
            "client": "policy", "source": "oslo", "order": "id", "from": None, "branch": None, "since": "2026-01-01",
            "undo": False, "person": "ada", "ordered_at": "time", "state": "ordered", "outcome": None, "ended_at": None,
        },
    ],
    "resends": [],
    "quiet": [],
    "standbys": None,
    "ring_rank": None,
    "server": {
        "owner": False, "reason": "server: not started; servers: not started", "endpoints": [], "metrics": "",
        "troubles": {}, "name": "name", "ranges": 0,
        "topology": {"source": "the settings", "version": 0, "trouble": ""},
    },
}  # fmt: skip
#: The facts that differ from run to run: numbers that grow with time, and two words.
GROWING = {"seconds", "rows_per_second", "seconds_left", "cut_seconds", "oldest_seconds"}
REPLACED = {"sync_id": "id", "branch": "branch", "order": "id", "since": "2026-01-01"}


@pytest.fixture
def source(site: Engine) -> SourceSite:
    """Return a site with one of everything that a status shows."""
    source = SourceSite(site)
    source.transmit(b"1", to=["tokyo"])
    source.tick()
    source.transmit(b"22", to=["tokyo"])
    source.tick()
    source.transmit(b"3", to=["tokyo"])
    source.session("tokyo", 1, state="backing off", reason="away", applied=0)
    source.session("lima", 0, state="left out", reason="gone")
    ask_for_snapshots(site)
    receive(site)
    return source


def ask_for_snapshots(engine: Engine) -> None:
    """Leave one cancelled snapshot and one that is a quarter built."""
    client = ClientName("policy")
    for destination in (SiteId("lima"), SiteId("tokyo")):
        with writing(engine) as connection:
            send_snapshot.request(connection, client, [destination], "wanted")
            if destination == "lima":
                send_snapshot.cancel(connection, client, destination)
    claim(engine)
    with writing(engine) as connection:
        values = {"branch": "b", "pinned_us": now_us() - 5_000_000, "row_count": 50, "expected_rows": 200}
        connection.execute(update(snapshots).where(snapshots.c.destination == "tokyo").values(values))


def receive(engine: Engine) -> None:
    """Leave a queue with entries, a failure, a parked entry and staged rows, and an empty queue."""
    arrivals = Arrivals(engine, source="oslo")
    arrivals.tick([b"a", b"b"])
    with writing(engine) as connection:
        empty = {"client": "policy", "source": "lima", "name": "LRQ_Recv_policy_lima", "tag": "lrq_recv_policy"}
        connection.execute(insert(receive_queues).values(registered_us=0, **empty))
        queue_id = arrivals.queue_id(connection)
        failure = {"queue_id": queue_id, "seq": 1, "tries": 4, "error": "no", "updated_us": 0}
        connection.execute(insert(consumer_failures).values(failure))
        parked = {"queue_id": queue_id, "kind": "log", "branch": "b", "seq": 1, "transaction_seq": 1, "payload": b""}
        parked |= {"committed_us": 0, "error": "", "tries": 1, "parked_us": 0}
        connection.execute(insert(parked_entries).values(parked))
        staged = update(receive_marks).where(receive_marks.c.queue_id == queue_id)
        connection.execute(staged.values(staging_sync_id="s", staging_rows=7))
        replays.place(connection, queue_id, ReplayWish(since_us=now_us(), undo=False), "ada")


def still(found: Any, name: str = "") -> Any:
    """Replace the parts of a status that differ from run to run."""
    if isinstance(found, dict):
        return {key: still(value, key) for key, value in found.items()}
    if isinstance(found, list):
        return [still(each) for each in found]
    if name.endswith("at") and found:
        return "time"
    if name in GROWING and found:
        return -1.0
    return REPLACED.get(name, found) if found and found != "s" else found


def test_the_json_of_a_status_is_as_expected(source: SourceSite, dialect: str):
    server = LogReplicationServer(Settings(site_id="paris", database_url=source.url))
    try:
        found = server.status()
        found["server"]["name"] = "name"
    finally:
        server.stop()
    on_postgresql = {"standbys": {"asked": 0, "present": 0, "waiting_seconds": 0.0}}
    expected = EXPECTED | (on_postgresql if dialect == "postgresql" else {})
    assert still(found) == expected
    assert json.dumps(still(found)) == json.dumps(expected), "the keys have changed their order"
    assert {type(each["state"]) for each in (*found["sessions"], *found["snapshots"])} == {str}


def asked(destination: str, state: SnapshotState, age_seconds: float) -> SnapshotSync:
    """Return a request of policy that was changed for the last time *age_seconds* before second 1,000."""
    return SnapshotSync(
        sync_id=f"{destination} {state}", client=ClientName("policy"), destination=SiteId(destination), state=state,
        reason="", attempt=0, owner="", base=ORIGIN, rows=0, bytes=0, checksum=0, progress="", error="",
        requested_us=0, updated_us=int((1_000 - age_seconds) * 1_000_000),
    )  # fmt: skip


def test_a_cancelled_snapshot_leaves_the_status_after_a_minute_with_the_older_ones_of_its_session():
    newest_first = [
        asked("tokyo", SnapshotState.CANCELLED, CANCELLED_SECONDS + 1),
        asked("lima", SnapshotState.CANCELLED, CANCELLED_SECONDS - 1),
        asked("tokyo", SnapshotState.FAILED, 200),
        asked("lima", SnapshotState.APPLIED, 300),
        asked("oslo", SnapshotState.APPLIED, 900),
    ]
    shown = [found.sync_id for found in without_cancelled(newest_first, 1_000_000_000)]
    assert shown == ["lima cancelled", "lima applied", "oslo applied"]
    again = [asked("tokyo", SnapshotState.BUILDING, 0), *newest_first]
    assert without_cancelled(again, 1_000_000_000)[0].sync_id == "tokyo building"


def test_a_cancelled_snapshot_is_not_in_the_status_of_a_site_for_long(site: Engine):
    client = ClientName("policy")
    with writing(site) as connection:
        send_snapshot.request(connection, client, [SiteId("lima")], "wanted")
        send_snapshot.cancel(connection, client, SiteId("lima"))
    assert [each.state for each in read_status(site).snapshots] == [SnapshotState.CANCELLED]
    with writing(site) as connection:
        connection.execute(update(snapshots).values(updated_us=now_us() - int((CANCELLED_SECONDS + 1) * 1_000_000)))
    assert read_status(site).snapshots == ()


def test_a_snapshot_that_fails_stays_in_the_status_however_many_sites_have_asked_since(site: Engine):
    request(site, "oslo")
    for _ in range(FAILING_ATTEMPTS):
        claimed = claim(site)
        with writing(site) as connection:
            assert snapshot_attempts.fail(connection, claimed, "no space", retry_after=0.0)
    for number in range(30):
        request(site, f"site-{number}")
    status = read_status(site)
    assert [each.told_state for each in status.snapshots if each.destination == "oslo"] == [SnapshotState.FAILED]
    moments = [each.requested_us for each in status.snapshots]
    assert moments == sorted(moments, reverse=True)
    assert [line for line in troubles(status) if "oslo" in line] == [
        "the snapshot of policy for oslo has failed 3 times and is tried again: no space"
    ]
    told = next(family for family in families(status) if family.name == "lrq_snapshot_state")
    found = {(each.labels["destination"], each.labels["state"]): each.value for each in told.samples}
    assert found["oslo", "failed"] == 1


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_lease_counts_by_the_clock_of_the_database(site: Engine, monkeypatch: pytest.MonkeyPatch):
    assert leases.acquire(site, "subscriber/policy", "worker", ttl=60)
    monkeypatch.setattr("discovery.status.now_us", lambda: now_us() + 3_600_000_000)
    (owner,) = read_status(site).owners
    assert owner.alive


def test_a_snapshot_without_a_subscriber_is_a_trouble_and_a_metric_though_no_entry_waits(site: Engine):
    Arrivals(site, source="oslo").snapshot("s1", [b"row"], base=0)
    status = read_status(site)
    assert ["holds a snapshot" in line for line in troubles(status)] == [True]
    told = {each.name: each.value for family in families(status) for each in family.samples}
    names = ("lrq_receive_outstanding_entries", "lrq_receive_snapshot_waits", "lrq_receive_subscribed")
    assert [told[name] for name in names] == [0, 1, 0]


def test_an_order_for_a_replay_is_in_the_status_while_it_waits_and_for_an_hour_after_its_end(site: Engine):
    arrivals = Arrivals(site, source="oslo")
    arrivals.tick([b"a", b"b"])
    with writing(site) as connection:
        replays.place(connection, arrivals.queue_id(connection), ReplayWish(2), "ada")
        connection.execute(update(tables.receive.replays).values(ordered_us=1))
    [waiting] = read_status(site).replays
    assert (waiting.source, waiting.state, waiting.words) == ("oslo", ReplayState.ORDERED, "entries from 2 on")
    assert waiting.waits
    with writing(site) as connection:
        [order] = replays.all_waiting(connection)
        replays.end(connection, order, ReplayState.REFUSED, "they are trimmed")
    [ended] = read_status(site).replays
    assert (ended.state, ended.outcome, ended.waits) == (ReplayState.REFUSED, "they are trimmed", False)
    with writing(site) as connection:
        long_ago = now_us() - int((ENDED_SECONDS + 1) * 1_000_000)
        connection.execute(update(tables.receive.replays).values(ended_us=long_ago))
    assert read_status(site).replays == ()
