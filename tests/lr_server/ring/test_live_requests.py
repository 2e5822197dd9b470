"""Requests of producers on three members over gRPC: producers go on at the next leader, and each request is once."""

import threading
from collections.abc import Iterator

import pytest

from lr_server.protocol.agreement.generations import RANKS
from lr_server.protocol.agreement.roles import Leading
from lr_server.ring import member_state, recent_ticks
from lr_server.ring.member_state import trimmable
from lr_server.ring.request_store import RingStore
from queues.clock import now_us
from queues.database import leases
from queues.errors import StoreUnavailableError
from queues.send_log.opening import open_log
from queues.send_log.port import Retention
from queues.send_log.producers import Production, StoreOutcome
from queues.send_log.ring.released_log import ReleasedLog
from tests.conftest import NewSite
from tests.lr_server.ring.live import LiveMember, LiveRing, running
from tests.lr_server.ring.requests import key_of, request, verdicts
from tests.lr_server.ring.stores import log_rows
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ring(new_site: NewSite) -> Iterator[LiveRing]:
    yield from running([new_site("paris") for _ in RANKS])


def stored(ring: LiveRing, asked: Production, member: LiveMember | None = None) -> StoreOutcome:
    """Repeat a request until its outcome is known, as a producer does; at the leader of the moment without *member*."""

    def told() -> StoreOutcome | None:
        leader = member or ring.leader()
        if leader is None:
            return None
        try:
            (outcome,) = RingStore(leader.engine, leader.runner).store([asked], now_us())
        except StoreUnavailableError:
            return None
        return None if outcome.verdict.name == "UNKNOWN" else outcome

    return eventually(told, timeout=180)


def isolate(ring: LiveRing, rank: int) -> None:
    for other in RANKS:
        if other != rank:
            ring.cut(rank, other)
            ring.cut(other, rank)


def test_a_request_is_repeated_with_the_same_place_at_the_next_leader(ring: LiveRing):
    ring.led_by(0)
    first = stored(ring, request(1, b"one", b"two", process=7, first=1))
    assert verdicts([first]) == [("STORED", 1)]
    ring.members[0].runner.stop()
    later = ring.led_by(1)
    again = stored(ring, request(1, b"one", b"two", process=7, first=1), later)
    assert verdicts([again]) == [("REPEATED", 1)]
    assert (again.last, again.position) == (first.last, first.position)
    assert verdicts([stored(ring, request(3, process=7, first=1), later)]) == [("GAP", 1)]
    assert verdicts([stored(ring, request(1, process=8, first=1), later)]) == [("TAKEN", 1)]
    assert verdicts([stored(ring, request(2, b"three", process=7, first=1), later)]) == [("STORED", 2)]
    ring.begin_again(0)
    assert ring.level(b"three") == [b"one", b"two", b"three"]
    rows = [log_rows(member.engine) for member in ring.members]
    assert rows[0]["lrq_ring_productions"] == rows[1]["lrq_ring_productions"] == rows[2]["lrq_ring_productions"]


def test_a_request_without_a_release_is_in_the_log_once_in_the_end(ring: LiveRing):
    """The leader is cut off as the request comes; its producer goes to the next leader."""
    leader = ring.led_by(0)
    assert verdicts([stored(ring, request(1))]) == [("STORED", 1)]
    isolate(ring, 0)
    (outcome,) = RingStore(leader.engine, leader.runner).store([request(2)], now_us())
    assert outcome.verdict.name == "UNKNOWN"
    assert verdicts([stored(ring, request(2), ring.led_by(1))]) == [("STORED", 2)]
    ring.heal()
    ring.led_by(0)
    assert verdicts([stored(ring, request(2))]) == [("REPEATED", 2)]
    assert verdicts([stored(ring, request(3))]) == [("STORED", 3)]
    ring.level(b"3")
    logs = [[row.payload for content in member.contents() for row in content.rows] for member in ring.members]
    assert logs == [[b"1", b"2", b"3"]] * 3


def test_a_question_is_answered_by_a_leader_that_a_follower_proves(ring: LiveRing):
    leader = ring.led_by(0)
    assert verdicts([stored(ring, request(1))]) == [("STORED", 1)]
    assert verdicts([stored(ring, request(0))]) == [("ASKED", 1)]
    isolate(ring, 0)
    requests = RingStore(leader.engine, leader.runner)
    try:
        outcomes = requests.store([request(0)], now_us())
    except StoreUnavailableError:
        return
    assert verdicts(outcomes) == [("UNKNOWN", 0)]


def test_a_newcomer_copies_a_trimmed_log_and_leads_with_the_right_standings(
    ring: LiveRing, new_site: NewSite, monkeypatch: pytest.MonkeyPatch
):
    """Producer `old` has sent nothing for long: its last request is among the trimmed ones."""
    monkeypatch.setattr(member_state, "KEPT_TICKS", 3)
    monkeypatch.setattr(recent_ticks, "MOST_TICKS", 1)
    leader = ring.led_by(0)
    first = stored(ring, request(1, b"first", producer="old", process=5, first=1))
    for number in range(1, 9):
        stored(ring, request(number, b"%d" % number))
    ring.level(b"8")
    trim_log(leader)
    eventually(lambda: all(member.runner.status.trimmed >= 6 for member in ring.members), timeout=180)
    ring.members[1].runner.stop()
    ring.begin_again(1, new_site("paris"))
    eventually(lambda: ring.members[1].runner.status.role == "following", timeout=180)
    eventually(lambda: ring.members[1].contents() == leader.contents() != [], timeout=180)
    assert ring.members[1].runner.status.trimmed >= 6
    leader.runner.stop()
    later = ring.led_by(1)
    again = stored(ring, request(1, b"first", producer="old", process=5, first=1), later)
    assert (verdicts([again]), again.last, again.position) == ([("REPEATED", 1)], first.last, first.position)
    assert verdicts([stored(ring, request(10), later)]) == [("GAP", 8)]
    assert verdicts([stored(ring, request(9, b"9"), later)]) == [("STORED", 9)]
    place = RingStore(later.engine, later.runner).places([(key_of("old"), first.last)])[0]
    assert (place.is_durable, place.position) == (True, first.position)


def trim_log(member: LiveMember) -> None:
    """Trim all at a leader that both followers hold, as a server does; there is no sink."""
    log = ReleasedLog(
        member.engine, open_log(member.engine), lambda: member.released, lambda: trimmable(member.runner.member)
    )
    lease = leases.acquire(member.engine, "server", "a server", 600.0)
    assert lease is not None
    assert log.rotate(lease, 1, 600.0)
    for number in range(1, member_state.KEPT_TICKS + 1):
        (outcome,) = RingStore(member.engine, member.runner).store([request(number, producer="later")], now_us())
        assert outcome.verdict.name == "STORED"
    eventually(lambda: log.trim(lease, Retention(0.0, 0)).seq > 0, timeout=180)


def test_a_fenced_leader_stores_nothing(ring: LiveRing):
    leader = ring.led_by(0)
    stored(ring, request(1))
    ring.level(b"1")
    isolate(ring, 0)
    eventually(lambda: not leader.leads, timeout=180)
    before = log_rows(leader.engine)
    with pytest.raises(StoreUnavailableError):
        RingStore(leader.engine, leader.runner).store([request(2)], now_us())
    assert log_rows(leader.engine) == before


def test_a_wait_ends_with_the_leader_and_with_its_time(ring: LiveRing):
    leader = ring.led_by(0)
    isolate(ring, 0)
    tick = leader.runner.offer([], after=None)
    assert tick.exception(60) is not None
    role = leader.runner.member.role
    assert isinstance(role, Leading)
    never = leader.runner.member.record.history.newest._replace(seq=1_000)
    assert leader.runner.await_answerable(never, 0.01) is False
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(leader.runner.await_answerable(never, 300.0)))
    waiting.start()
    leader.runner.stop()
    waiting.join(120)
    assert answers == [False]


def test_several_producers_go_on_through_takeovers(ring: LiveRing):
    """Each request is in the log once, in the order of its producer, while leaders stop and come back."""
    ring.led_by(0)
    names = ["meter", "gauge", "clock"]

    def produce(name: str, first: int, last: int) -> None:
        for number in range(first, last):
            outcome = stored(ring, request(number, f"{name} {number}".encode(), producer=name))
            assert outcome.verdict.name in ("STORED", "REPEATED")

    done = 1
    for turn in range(3):
        threads = [threading.Thread(target=produce, args=(name, done, done + 6)) for name in names]
        for thread in threads:
            thread.start()
        if turn % 2:
            ring.members[0].runner.stop()
            ring.led_by(1)
        for thread in threads:
            thread.join(180)
        if turn % 2:
            ring.begin_again(0)
        ring.led_by(0)
        done += 6
    ring.level(*(f"{name} {done - 1}".encode() for name in names))
    payloads = [row.payload.decode() for content in ring.members[2].contents() for row in content.rows]
    for name in names:
        assert [one for one in payloads if one.startswith(name)] == [f"{name} {number}" for number in range(1, done)]
