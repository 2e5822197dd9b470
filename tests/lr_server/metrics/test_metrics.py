"""Metrics from a status, one by one."""

from importlib.metadata import version

import pytest

from discovery.log_status import OrderingStatus, UnknownStatus
from discovery.receive_status import FailureStatus
from discovery.ring_status import RingStatus
from discovery.server_status import SERVER_LEASE, OwnerStatus, ServerStatus, SiteServer
from discovery.session_status import Lag
from discovery.site_status import SiteStatus
from lr_server.metrics.metrics_server import families, tells_site
from lr_server.metrics.traffic import ServerTraffic
from lr_server.session.traffic import Delays, TrafficFacts
from queues.database.standby_facts import StandbyFacts
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey
from queues.send_log.unordered import Unordered
from queues.states import SessionState, SnapshotState
from sink.transport.received_bytes import ReceivedStream
from tests.discovery.statuses import a_log, a_queue, a_session, a_site, a_snapshot

QUEUE = a_queue(
    received_seq=9, source_seq=11, received_total=90, duplicates_total=1, applied_total=80, outstanding=10,
    oldest_seconds=2.5, failure=FailureStatus(4, "no"), subscribed=True, snapshot_waits=True,
)  # fmt: skip
STATUS = a_site(
    server=ServerStatus(owner=True, reason="", troubles={"trim": "the disk is full"}),
    log=a_log(
        seq=10,
        trimmed_seq=2,
        waiting=5,
        ordering=OrderingStatus((Unordered(ClientName("policy"), 3, 4),)),
        unknown=(UnknownStatus(ClientName("policy"), SiteId("tokio"), 6, False, 2.5, 9),),
    ),
    sessions=(
        a_session(
            state=SessionState.BACKING_OFF,
            acked_seq=7,
            stalled=True,
            lag=Lag(3, 30, 1.5),
            applied_seq=4,
            applied_lag=Lag(6, 60, 9.5),
            unapplied=True,
            replaced=6,
            unprovided=True,
            window_percent=30,
        ),
    ),
    receive_queues=(QUEUE,),
)


def samples(status: SiteStatus) -> dict[tuple[str, ...], float]:
    """Return the value of each sample by its name and its labels; the label of the site is omitted."""
    return {
        (each.name, *(value for label, value in each.labels.items() if label != "site")): each.value
        for family in families(status)
        for each in family.samples
    }


@pytest.mark.parametrize(
    ("sample", "value"),
    [
        (("lrq_owner",), 1),
        (("lrq_troubles",), 1),
        (("lrq_log_seq",), 10),
        (("lrq_log_trimmed_seq",), 2),
        (("lrq_log_waiting_entries",), 5),
        (("lrq_log_unordered_entries",), 7),
        (("lrq_unknown_entries", "policy", "tokio"), 6),
        (("lrq_unknown_oldest_seconds", "policy", "tokio"), 2.5),
        (("lrq_unknown_dropped_entries", "policy", "tokio"), 9),
        (("lrq_session_unprovided", "policy", "tokyo"), 1),
        (("lrq_session_acked_seq", "policy", "tokyo"), 7),
        (("lrq_session_lag_entries", "policy", "tokyo"), 3),
        (("lrq_session_lag_bytes", "policy", "tokyo"), 30),
        (("lrq_session_lag_seconds", "policy", "tokyo"), 1.5),
        (("lrq_session_stalled", "policy", "tokyo"), 1),
        (("lrq_session_replaced_total", "policy", "tokyo"), 6),
        (("lrq_session_applied_seq", "policy", "tokyo"), 4),
        (("lrq_session_applied_lag_entries", "policy", "tokyo"), 6),
        (("lrq_session_applied_lag_seconds", "policy", "tokyo"), 9.5),
        (("lrq_session_unapplied", "policy", "tokyo"), 1),
        (("lrq_session_window_percent", "policy", "tokyo"), 30),
        (("lrq_receive_subscribed", "policy", "lima"), 1),
        (("lrq_receive_snapshot_waits", "policy", "lima"), 1),
        (("lrq_session_state", "policy", "tokyo", "backing off"), 1),
        (("lrq_receive_received_seq", "policy", "lima"), 9),
        (("lrq_receive_source_seq", "policy", "lima"), 11),
        (("lrq_receive_received_total", "policy", "lima"), 90),
        (("lrq_receive_duplicates_total", "policy", "lima"), 1),
        (("lrq_receive_applied_total", "policy", "lima"), 80),
        (("lrq_receive_outstanding_entries", "policy", "lima"), 10),
        (("lrq_receive_oldest_seconds", "policy", "lima"), 2.5),
        (("lrq_receive_parked_entries", "policy", "lima"), 0),
        (("lrq_receive_refused_tries", "policy", "lima"), 4),
    ],
)
def test_a_fact_of_the_status_is_a_sample(sample, value):
    assert samples(STATUS)[sample] == value


def test_each_state_of_a_session_and_of_a_snapshot_has_a_sample_and_one_of_them_is_1():
    found = samples(a_site(sessions=(a_session(state=SessionState.FAILED),), snapshots=(a_snapshot(),)))
    for name, states, now in (
        ("lrq_session_state", SessionState, SessionState.FAILED),
        ("lrq_snapshot_state", SnapshotState, a_snapshot().told_state),
    ):
        told = {sample[3]: value for sample, value in found.items() if sample[0] == name}
        assert told == {each.value: each is now for each in states}


def test_the_version_of_lrq_is_a_label():
    assert samples(STATUS)["lrq_build_info", version("lrq")] == 1


def test_every_sample_names_its_site():
    assert {each.labels["site"] for family in families(STATUS) for each in family.samples} == {"paris"}


def test_the_newest_snapshot_request_of_a_session_counts():
    asked = tuple(a_snapshot(state=state) for state in (SnapshotState.BUILDING, SnapshotState.FAILED))
    found = samples(a_site(snapshots=asked))
    assert [sample for sample, value in found.items() if sample[0] == "lrq_snapshot_state" and value] == [
        ("lrq_snapshot_state", "policy", "tokyo", "building")
    ]


@pytest.mark.parametrize(("attempt", "state"), [(2, "requested"), (3, "failed")])
def test_a_snapshot_that_has_failed_three_times_is_told_as_failed(attempt: int, state: str):
    found = samples(a_site(snapshots=(a_snapshot(error="no", attempt=attempt),)))
    assert [sample for sample, value in found.items() if sample[0] == "lrq_snapshot_state" and value] == [
        ("lrq_snapshot_state", "policy", "tokyo", state)
    ]


def test_a_listener_without_failures_has_0_tries():
    found = samples(a_site(receive_queues=(a_queue(failure=None),)))
    assert found["lrq_receive_refused_tries", "policy", "lima"] == 0


@pytest.mark.parametrize("present", [None, 0, 2])
def test_synchronous_standbys_and_waiting_commits_are_samples(present: int | None):
    found = samples(a_site(standbys=StandbyFacts(1, present, 3.5)))
    assert (found["lrq_standbys_asked",], found["lrq_commit_wait_seconds",]) == (1, 3.5)
    assert str(found["lrq_standbys_present",]) == ("nan" if present is None else f"{present:.1f}")


def test_a_server_that_takes_no_ticks_is_not_the_owner():
    found = samples(a_site(server=ServerStatus(owner=False, reason="another server takes the ticks")))
    assert (found["lrq_owner",], found["lrq_troubles",]) == (0, 0)


def a_server(name: str, *, alive: bool) -> SiteServer:
    return SiteServer(name=name, endpoints=(), alive=alive, since_us=0, ranges=0, sequencer=False)


def an_owner(*, alive: bool) -> tuple[OwnerStatus, ...]:
    return (OwnerStatus(lease=SERVER_LEASE, owner="c", generation=1, alive=alive),)


@pytest.mark.parametrize(
    ("name", "owner", "sequencer_lives", "tells"),
    [("c", True, True, True), ("a", False, True, False), ("a", False, False, True), ("b", False, False, False)],
    ids=["the sequencer", "beside a sequencer", "the first without a sequencer", "the second without a sequencer"],
)
def test_one_of_several_servers_tells_the_site(name: str, owner: bool, sequencer_lives: bool, tells: bool):
    servers = (a_server("a", alive=True), a_server("b", alive=True), a_server("Z", alive=False))
    answering = ServerStatus(owner=owner, reason="", name=name)
    status = a_site(server=answering, servers=servers, owners=an_owner(alive=sequencer_lives))
    assert tells_site(status) is tells
    found = samples(status)
    assert (("lrq_log_seq",) in found) is tells
    assert ("lrq_owner",) in found


def test_the_traffic_of_a_session_is_told():
    delays = Delays().plus(3, 0.02).plus(1, 10_000.0)
    traffic = ServerTraffic(
        {SessionKey(ClientName("policy"), SiteId("tokyo")): TrafficFacts(7, 2, delays, Delays())},
        {ReceivedStream("policy", "lima"): 9},
    )
    found = {
        (each.name, *(value for label, value in each.labels.items() if label != "site")): each.value
        for family in families(STATUS, traffic)
        for each in family.samples
    }
    session = ("policy", "tokyo")
    assert found["lrq_session_sent_bytes_total", *session] == 7
    assert found["lrq_session_reconnects_total", *session] == 2
    assert found["lrq_receive_bytes_total", "policy", "lima"] == 9
    name = "lrq_session_commit_to_sink_seconds"
    assert [found[f"{name}_bucket", *session, le] for le in ("0.01", "0.025", "3600.0", "+Inf")] == [0, 3, 3, 4]
    assert (found[f"{name}_count", *session], found[f"{name}_sum", *session]) == (4, pytest.approx(10_000.06))


def test_a_status_without_a_server_has_no_metric_of_a_server():
    assert {("lrq_owner",), ("lrq_troubles",)} & samples(a_site(server=None)).keys() == set()


def of_ring(status: RingStatus, *, owner: bool = False) -> dict[tuple[str, ...], float]:
    server = ServerStatus(owner=owner, reason="", ring=status)
    return {key: value for key, value in samples(a_site(server=server)).items() if key[0].startswith("lrq_ring")}


def test_the_leader_of_a_ring_tells_its_followers_ends():
    found = of_ring(RingStatus(0, "leading", 4, 0, newest=12, released=11, held=(0, 11, 9), trimmed=5), owner=True)
    assert found == {
        ("lrq_ring_leads",): 1,
        ("lrq_ring_trouble",): 0,
        ("lrq_ring_fenced_timestamp_seconds",): 0,
        ("lrq_ring_generation",): 4,
        ("lrq_ring_newest_tick",): 12,
        ("lrq_ring_released_tick",): 11,
        ("lrq_ring_trimmed_tick",): 5,
        ("lrq_ring_held_tick", "1"): 11,
        ("lrq_ring_held_tick", "2"): 9,
    }


@pytest.mark.parametrize(
    ("role", "leader", "trouble"),
    [("following", 0, 0), ("following", None, 1), ("fenced", None, 1), ("closed", None, 1)],
)
def test_a_member_that_does_not_lead_tells_whether_it_follows(role: str, leader: int | None, trouble: int):
    status = RingStatus(1, role, 4, leader, newest=12, released=11)
    assert of_ring(status)[("lrq_ring_leads",)] == 0
    assert of_ring(status)[("lrq_ring_trouble",)] == trouble
    assert not tells_site(a_site(server=ServerStatus(owner=False, reason="", ring=status)))
