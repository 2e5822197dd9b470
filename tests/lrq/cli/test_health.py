"""The troubles of a site in sentences, from its status alone."""

from dataclasses import replace
from typing import Any

import pytest

from discovery.log_status import OrderingStatus, UnknownStatus
from discovery.receive_status import FailureStatus
from discovery.server_status import OwnerStatus, SiteServer
from discovery.session_status import Lag, SessionStatus
from discovery.snapshot_status import SnapshotStatus
from lrq.cli.health import remarks, troubles
from lrq.cli.words import SERVE
from queues.leadership import NO_TOPOLOGY, TopologyFacts
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey
from queues.send_log.trim_blockers import TrimBlocker
from queues.send_log.unordered import Unordered
from queues.states import PROVIDER_STOPPED, SessionState, SnapshotState
from tests.discovery.statuses import a_log, a_queue, a_session, a_site, a_snapshot

OWED = Lag(1, 10, 90.0)
SERVED = (OwnerStatus("server", "me", 1, alive=True),)


@pytest.mark.parametrize("state", [*SessionState])
def test_only_a_session_on_its_way_to_the_log_is_a_remark(state: SessionState):
    status = a_site(sessions=(a_session(state=state, reason="why"),))
    settled = SessionState.LOG_ENTRY_SYNC, SessionState.FINISHED, SessionState.FAILED, SessionState.INACTIVE
    on_its_way = state not in settled
    assert remarks(status) == [f"policy to tokyo: {state.value}, why"] * on_its_way


@pytest.mark.parametrize(
    ("session", "sentence"),
    [
        (a_session(state=SessionState.FAILED, reason="no"), "policy to tokyo has failed: no"),
        (
            a_session(state=SessionState.BACKING_OFF, reason="", lag=OWED, stalled=True),
            "policy to tokyo is stalled with 1 entry, the oldest for 1m 30s (backing off)",
        ),
    ],
)
def test_a_failed_or_stalled_session_is_trouble(session: SessionStatus, sentence: str):
    status = a_site(owners=SERVED, sessions=(session,))
    assert (troubles(status), remarks(status)) == ([sentence], [])


@pytest.mark.parametrize("alive", [True, False])
def test_owed_entries_without_a_server_are_trouble(alive: bool):
    owners = (OwnerStatus("server", "me", 1, alive=alive), OwnerStatus("transmitter/policy", "me", 1, alive=True))
    missing = [f"no server works for this site, though it owes entries: {SERVE}"] * (not alive)
    assert troubles(a_site(owners=owners, sessions=(a_session(lag=OWED),))) == missing
    assert troubles(a_site(owners=owners, log=a_log(waiting=1))) == missing
    assert troubles(a_site(owners=owners)) == []


@pytest.mark.parametrize("takes_ticks", [True, False], ids=["", "no sequencer"])
@pytest.mark.parametrize("silent", [9, 41])
def test_a_lease_that_living_servers_do_not_renew_is_trouble(silent: int, takes_ticks: bool):
    server = replace(a_server("a", NO_TOPOLOGY), sequencer=takes_ticks)
    status = a_site(servers=(server,))
    lapsed = OwnerStatus("server", "a", 1, alive=False, lapsed_us=status.at_us - silent * 1_000_000)
    sentence = "no server has renewed the lease of the sequencer for 41.0 s: the logs of the servers tell why"
    assert troubles(replace(status, owners=(lapsed,))) == [sentence] * (silent == 41 and not takes_ticks)


def test_tables_that_others_may_alter_are_trouble():
    log = a_log(altering=("lrq_receive_blocks",))
    (sentence,) = troubles(a_site(log=log))
    assert sentence == (
        "triggers, rules or views that are not of lrq may leave out or change rows of lrq_receive_blocks, so entries "
        "may be lost: drop these triggers and rules, or let the triggers fire AFTER; put the tables back in place of "
        "views, foreign tables and detached partitions"
    )
    assert log.as_json()["altering"] == ["lrq_receive_blocks"]


@pytest.mark.parametrize(("is_most", "count"), [(False, "500 entries"), (True, "up to 500 entries")])
def test_entries_that_a_destination_does_not_apply_are_trouble(is_most: bool, count: str):
    lag = Lag(500, 10, 79_200.0, is_most=is_most)
    stale = a_session(acked_seq=9, applied_seq=2, applied_lag=lag, unapplied=True)
    assert troubles(a_site(owners=SERVED, sessions=(stale,))) == [
        f"tokyo has not applied {count} of policy, the oldest for 22h 00m: look at its subscriber, "
        "and run `lrq status` there"
    ]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"outstanding": 1}, "holds 1 entry, and no subscriber of policy works here: start one"),
        (
            {"outstanding": 9, "more": True},
            "holds 9 entries or more, and no subscriber of policy works here: start one",
        ),
        ({"snapshot_waits": True}, "holds a snapshot, and no subscriber of policy works here: start one"),
        (
            {"outstanding": 2, "subscribed": True, "oldest_seconds": 61.0},
            "holds 2 entries, the oldest for 1m 01s: its subscriber is too slow",
        ),
        ({"outstanding": 2, "subscribed": True, "oldest_seconds": 59.0}, ""),
        ({"snapshot_waits": True, "subscribed": True}, ""),
        ({}, ""),
    ],
)
def test_a_queue_whose_entries_are_due_or_have_no_subscriber_is_trouble(changes: dict[str, Any], sentence: str):
    expected = [f"LRQ_Recv_policy_lima {sentence}"] if sentence else []
    assert troubles(a_site(receive_queues=(a_queue(**changes),))) == expected


@pytest.mark.parametrize(("attempt", "is_trouble"), [(3, False), (4, True)])
def test_a_snapshot_under_way_that_has_failed_three_times_is_trouble(attempt: int, is_trouble: bool):
    building = a_snapshot(state=SnapshotState.BUILDING, error="no", attempt=attempt)
    said = "the snapshot of policy for tokyo has failed 3 times and is tried again: no"
    assert troubles(a_site(snapshots=(building,))) == [said] * is_trouble


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (a_snapshot(state=SnapshotState.FAILED, error="no"), "has failed: no"),
        (a_snapshot(error="no", attempt=2), "has failed 2 times and is tried again: no"),
    ],
)
def test_a_failed_snapshot_is_trouble_until_a_newer_request(snapshot: SnapshotStatus, words: str):
    assert troubles(a_site(snapshots=(snapshot,))) == [f"the snapshot of policy for tokyo {words}"]
    assert troubles(a_site(snapshots=(a_snapshot(), snapshot))) == []


@pytest.mark.parametrize(
    ("seconds", "session", "is_trouble"),
    [
        (61, {"state": SessionState.BACKING_OFF}, True),
        (59, {"state": SessionState.BACKING_OFF}, False),
        (61, {"state": SessionState.SNAPSHOT_SYNC}, False),
        (61, {"state": SessionState.BACKING_OFF, "lag": OWED, "stalled": True}, False),
    ],
    ids=["late", "soon", "connected", "stalled anyway"],
)
def test_a_ready_snapshot_that_does_not_arrive_is_trouble(seconds: int, session: dict[str, Any], is_trouble: bool):
    ready = a_snapshot(state=SnapshotState.READY)
    status = a_site(owners=SERVED, sessions=(a_session(reason="no room", **session),), snapshots=(ready,))
    status = replace(status, at_us=ready.updated_us + seconds * 1_000_000)
    said = "the snapshot of policy for tokyo is ready for 1m 01s and does not arrive (backing off, no room)"
    assert (said in troubles(status)) == is_trouble


@pytest.mark.parametrize("state", [SnapshotState.BUILDING, SnapshotState.READY, SnapshotState.CANCELLED])
def test_an_error_of_an_earlier_snapshot_attempt_is_no_trouble(state: SnapshotState):
    assert troubles(a_site(snapshots=(a_snapshot(state=state, error="no"),))) == []


def test_a_queue_with_a_failure_and_parked_entries_is_trouble_twice():
    assert troubles(a_site(receive_queues=(a_queue(failure=FailureStatus(4, "no"), parked=1),))) == [
        "LRQ_Recv_policy_lima is blocked, refused 4 times: no",
        "LRQ_Recv_policy_lima has 1 parked entry: see `lrq park list`",
    ]


def test_unordered_entries_and_a_trigger_that_is_off_are_trouble():
    ordering = OrderingStatus((Unordered(ClientName("policy"), 2, 1),), ("lrq_log_entries_0",))
    trigger, waiting, dropped = troubles(a_site(log=a_log(ordering=ordering)))
    assert "does not always fire on lrq_log_entries_0" in trigger
    assert waiting.startswith("2 entries of policy without a place")
    assert dropped.startswith("1 entry of policy were trimmed")
    assert ordering.as_json() == {
        "unordered": [{"client": "policy", "waiting": 2, "dropped": 1}],
        "untriggered": ["lrq_log_entries_0"],
    }


def test_tables_that_a_crash_empties_are_trouble():
    log = a_log(unlogged=("lrq_log_entries_0", "lrq_receive_marks"))
    (sentence,) = troubles(a_site(log=log))
    assert sentence == (
        "a crash of PostgreSQL empties or sets back the unlogged lrq_log_entries_0 and lrq_receive_marks, so entries "
        "would be lost or come twice: run `ALTER TABLE lrq_log_entries_0 SET LOGGED`, the same for the others"
    )
    assert log.as_json()["unlogged"] == ["lrq_log_entries_0", "lrq_receive_marks"]


def test_tables_whose_rows_are_hidden_from_the_role_are_trouble():
    log = a_log(hiding=("lrq_sessions",))
    (sentence,) = troubles(a_site(log=log))
    assert sentence == (
        "row level security hides rows of lrq_sessions from this role, so entries would stay or be lost: run "
        "`ALTER ROLE … BYPASSRLS`, or `ALTER TABLE … DISABLE ROW LEVEL SECURITY` for each table of lrq"
    )
    assert log.as_json()["hiding"] == ["lrq_sessions"]


UNKNOWN = UnknownStatus(ClientName("policy"), SiteId("tokio"), 2, more=False, oldest_seconds=90.0, dropped=0)


@pytest.mark.parametrize(
    ("unknown", "sentence"),
    [
        (
            UNKNOWN,
            "2 entries of policy for tokio, which is no peer, the oldest for 1m 30s: add the site to `peers`, or",
        ),
        (replace(UNKNOWN, entries=1), "1 entry of policy for tokio, which is no peer"),
        (replace(UNKNOWN, entries=10_000, more=True), "10,000+ entries of policy for tokio, which is no peer"),
        (replace(UNKNOWN, entries=0, dropped=1), "1 entry of policy for tokio was dropped because it is no peer"),
        (
            replace(UNKNOWN, entries=0, dropped=3, is_peer=True),
            "3 entries of policy for tokio were dropped before it was a peer",
        ),
    ],
)
def test_entries_for_a_site_that_is_no_peer_are_trouble(unknown: UnknownStatus, sentence: str):
    (trouble,) = troubles(a_site(log=a_log(unknown=(unknown,))))
    assert trouble.startswith(sentence)


def test_sessions_that_wait_for_a_provider_that_does_not_run_are_one_trouble_for_each_client():
    waiting = a_session(state=SessionState.SNAPSHOT_SYNC, reason="waiting", unprovided=True)
    stalled = replace(waiting, destination=SiteId("lima"), stalled=True, lag=OWED)
    other = replace(waiting, client=ClientName("tenant"))
    status = a_site(owners=SERVED, sessions=(stalled, waiting, other))
    policy, tenant = troubles(status)
    assert policy == (
        "lima and tokyo wait for a snapshot, and no provider of client policy is running: start one (`lrq provide`), "
        'or set initial_sync = "log" if the snapshot is the first one, and restart the server'
    )
    assert tenant.startswith("tokyo waits for a snapshot, and no provider of client tenant is running: start one")
    assert remarks(status) == []


def test_peers_without_a_session_are_no_trouble():
    quiet = SessionKey(ClientName("policy"), SiteId("lima"))
    assert troubles(a_site(quiet=(quiet,))) == remarks(a_site(quiet=(quiet,))) == []


def a_server(name: str, facts: TopologyFacts, *, alive: bool = True) -> SiteServer:
    return SiteServer(name, (), alive, 0, 1, sequencer=False, topology=facts)


def test_peers_that_cannot_be_read_are_told_once_for_all_servers_with_the_same_trouble():
    wrong = TopologyFacts("the table lrq_peers", 3, "peers names 'paris'")
    status = a_site(servers=(a_server("a", wrong), a_server("b", wrong), a_server("gone", wrong, alive=False)))
    assert troubles(status) == [
        "the peers cannot be read from the table lrq_peers, and version 3 of the peers stays: peers names 'paris'"
    ]
    unknown = a_site(servers=(a_server("a", wrong._replace(version=0)),))
    words = "the peers cannot be read from the table lrq_peers, and no peers are known yet: peers names 'paris'"
    assert troubles(unknown) == [words]


def test_a_server_that_can_store_nothing_is_trouble_and_told_once_for_all_servers():
    words = "nothing of policy from paris can be stored: a right is missing"
    one, other = (replace(a_server(name, NO_TOPOLOGY), sink_trouble=words) for name in "ab")
    gone = replace(a_server("gone", NO_TOPOLOGY, alive=False), sink_trouble="older words")
    assert troubles(a_site(servers=(one, other, gone))) == [words]


def test_servers_with_peers_from_different_places_are_trouble_but_not_beside_an_older_lrq():
    of_table, of_file = TopologyFacts("the table lrq_peers", 3), TopologyFacts("the settings", 1)
    words = (
        "the servers read their peers from different places (the settings, the table lrq_peers): set `topology` alike"
    )
    assert troubles(a_site(servers=(a_server("a", of_table), a_server("b", of_file)))) == [words]
    assert troubles(a_site(servers=(a_server("a", of_table), a_server("b", NO_TOPOLOGY)))) == []


def test_a_transaction_that_keeps_trim_from_the_log_for_more_than_an_hour_is_trouble():
    blockers = (
        TrimBlocker("process 7 (dump)", "SELECT pg_terminate_backend(7)", 3_660.0),
        TrimBlocker("process 8", "SELECT pg_terminate_backend(8)", 3_599.0),
        TrimBlocker("process 9", "SELECT pg_terminate_backend(9)", None),
    )
    assert troubles(a_site(owners=SERVED, log=a_log(trim_blockers=blockers))) == [
        "process 7 (dump) has used tables of the log for 1h 01m, so trim cannot empty them: "
        "wait if it is a backup, otherwise end it with SELECT pg_terminate_backend(7)"
    ]


def test_a_stopped_provider_is_no_failed_snapshot():
    stopped = a_snapshot(attempt=3, error=PROVIDER_STOPPED)
    assert (stopped.failed_attempts, stopped.told_state) == (0, SnapshotState.REQUESTED)
    assert troubles(a_site(snapshots=(stopped,))) == []
    failed = a_snapshot(attempt=3, error="broken")
    assert (failed.failed_attempts, failed.told_state) == (3, SnapshotState.FAILED)
    assert len(troubles(a_site(snapshots=(failed,)))) == 1


def test_a_full_disk_is_no_reason_to_start_programs_that_may_work():
    """Neither a server nor a subscriber can renew its lease there."""
    cure = ", or has the room to tell so: free some space first"
    owing = a_site(receive_queues=(a_queue(outstanding=1),), sessions=(a_session(lag=Lag(1, 1, 1.0)),))
    assert troubles(owing, is_full=True) == [
        f"no server works for this site, though it owes entries{cure}",
        f"LRQ_Recv_policy_lima holds 1 entry, and no subscriber of policy works here{cure}",
    ]
    lapsed = OwnerStatus("server", "a", 1, alive=False, lapsed_us=owing.at_us - 1_000_000)
    assert troubles(a_site(owners=(lapsed,)), is_full=True) == [
        f"the last server was gone without a stop 1.0 s ago{cure}"
    ]
