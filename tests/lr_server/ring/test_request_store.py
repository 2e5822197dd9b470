"""The store of requests on a ring: decided over the leader's log, and told after the release."""

from collections.abc import Callable
from concurrent.futures import Future

import pytest
from sqlalchemy import Engine

from lr_server.protocol.agreement.effects import Decline
from lr_server.protocol.agreement.events import BeatDue
from lr_server.protocol.agreement.generations import RANKS
from lr_server.protocol.agreement.history import TickMark
from lr_server.protocol.agreement.roles import DEFAULT_LIMITS
from lr_server.ring.request_store import RingStore
from queues.clock import now_us
from queues.database.transactions import writing
from queues.errors import StoreUnavailableError, UsageError
from queues.names import SiteId
from queues.positions import Position
from queues.send_log.known_sites import KnownSites, record_known
from queues.send_log.port import TickLimits
from queues.send_log.producers import Last, Place, Production, StoreOutcome
from tests.conftest import NewSite
from tests.lr_server.ring.edges import RingOfFiles
from tests.lr_server.ring.requests import FileMember, key_of, lead_without_rank_0, request, verdicts
from tests.lr_server.ring.stores import LOG_TABLES, log_rows, new_entry

LIMITS = TickLimits()


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ring(new_site: NewSite) -> RingOfFiles:
    """Give three members; rank 0 leads."""
    made = RingOfFiles([new_site("paris") for _ in RANKS], DEFAULT_LIMITS)
    made.settle()
    return made


class Leader:
    """A member with its store of requests."""

    def __init__(self, ring: RingOfFiles, rank: int, limits: TickLimits = LIMITS) -> None:
        self.ring = ring
        self.machine = ring.machines[rank]
        self.member = FileMember(ring, rank)
        self.engine: Engine = self.machine.engine
        self.requests = RingStore(self.engine, self.member, limits)

    def store(self, *asked: Production) -> list[StoreOutcome]:
        return self.requests.store(asked, now_us())

    def payloads(self) -> list[bytes]:
        return [row.payload for content in self.machine.store.read(0, 10_000) for row in content.rows]

    @property
    def branch(self) -> str:
        return self.machine.store.end().tick.branch


def take_over(ring: RingOfFiles) -> Leader:
    """Let rank 1 lead, while rank 0 hears nothing."""
    lead_without_rank_0(ring)
    return Leader(ring, 1)


# --- outcomes -------------------------------------------------------------------------------------------------


def test_requests_are_stored_with_their_places_and_known_again(ring: RingOfFiles):
    leader = Leader(ring, 0)
    assert leader.requests.is_durable_at_once
    outcomes = leader.store(request(1, b"one", b"two"), request(1, b"three", producer="gauge"), request(2, b"four"))
    assert verdicts(outcomes) == [("STORED", 1), ("STORED", 1), ("STORED", 2)]
    assert [outcome.position for outcome in outcomes] == [Position(leader.branch, seq) for seq in (2, 3, 4)]
    assert outcomes[2].last == Last(2, f"paris/policy/{leader.branch}/4")
    assert leader.payloads() == [b"one", b"two", b"three", b"four"]
    again = leader.store(
        request(2, b"four"), request(1, b"one"), request(0), request(4), request(1, b"three", producer="gauge")
    )
    assert verdicts(again) == [("REPEATED", 2), ("REPEATED", 2), ("ASKED", 2), ("GAP", 2), ("REPEATED", 1)]
    assert [outcome.last for outcome in again[::4]] == [outcomes[2].last, outcomes[1].last]
    assert [outcome.position for outcome in again[::4]] == [outcomes[2].position, outcomes[1].position]
    rows = [log_rows(machine.engine) for machine in ring.machines]
    assert rows[0] == rows[1] == rows[2]
    assert [row["sequence"] for row in rows[2]["lrq_ring_productions"]] == [1, 1, 2]


def test_a_group_is_decided_one_by_one(ring: RingOfFiles):
    leader = Leader(ring, 0)
    leader.store(request(1))
    asked = [request(number) for number in (1, 2, 3, 3, 0, 4, 9, 5)]
    assert verdicts(leader.store(*asked)) == [
        ("REPEATED", 1), ("STORED", 2), ("STORED", 3), ("REPEATED", 3), ("ASKED", 3), ("STORED", 4), ("GAP", 4),
        ("STORED", 5),
    ]  # fmt: skip
    assert leader.payloads() == [b"1", b"2", b"3", b"4", b"5"]


def test_another_process_with_the_same_number_is_told_that_it_is_taken(ring: RingOfFiles):
    leader = Leader(ring, 0)
    assert verdicts(leader.store(request(1, process=7, first=1), request(2, process=7, first=1))) == [
        ("STORED", 1), ("STORED", 2),
    ]  # fmt: skip
    assert verdicts(leader.store(request(2, process=8, first=1))) == [("TAKEN", 2)]
    assert verdicts(leader.store(request(3, process=8, first=3))) == [("STORED", 3)]
    later = take_over(ring)
    asked = [request(3, process=8, first=3), request(2, process=8, first=2), request(4, process=9, first=2)]
    assert verdicts(later.store(*asked, request(4, process=8, first=3))) == [
        ("REPEATED", 3), ("TAKEN", 3), ("TAKEN", 3), ("STORED", 4),
    ]  # fmt: skip


def test_a_question_of_an_unknown_producer_is_answered(ring: RingOfFiles):
    (outcome,) = Leader(ring, 0).store(request(0))
    assert outcome == StoreOutcome(outcome.verdict)
    assert outcome.verdict.name == "ASKED"


def test_a_leader_that_is_cut_off_answers_no_question(ring: RingOfFiles):
    """The next leader has stored a request since, of which the earlier one knows nothing."""
    before = Leader(ring, 0)
    before.store(request(1))
    later = take_over(ring)
    assert verdicts(later.store(request(2), request(0))) == [("STORED", 2), ("ASKED", 2)]
    assert before.member.declined() is None
    assert verdicts(before.store(request(1), request(0))) == [("REPEATED", 1), ("UNKNOWN", 0)]


def test_a_request_is_repeated_with_its_place_at_the_next_leader(ring: RingOfFiles):
    (before,) = Leader(ring, 0).store(request(1, b"one", b"two"))
    later = take_over(ring)
    (again, new) = later.store(request(1, b"one", b"two"), request(2, b"three"))
    assert verdicts([again, new]) == [("REPEATED", 1), ("STORED", 2)]
    assert (again.last, again.position) == (before.last, before.position)
    assert new.position == Position(later.branch, 3)
    assert new.position.branch != before.position.branch
    assert later.requests.places([(key_of(), before.last)]) == [Place(is_durable=True, position=before.position)]


# --- ticks ----------------------------------------------------------------------------------------------------


def test_requests_are_divided_among_ticks_but_never_themselves(ring: RingOfFiles):
    leader = Leader(ring, 0, TickLimits(rows=3, payload_bytes=100))
    outcomes = leader.store(
        request(1, b"a", b"b"), request(2, b"c"), request(3, b"d", b"e"), request(4, b"f" * 99), request(5, b"g" * 100)
    )
    assert verdicts(outcomes) == [("STORED", number) for number in range(1, 6)]
    contents = [content for content in leader.machine.store.read(0, 100) if content.rows]
    assert [[len(row.payload) for row in content.rows] for content in contents] == [[1, 1, 1], [1, 1], [99], [100]]
    assert [[each.last_row for each in content.productions] for content in contents] == [[2, 3], [2], [1], [1]]
    assert [outcome.position.seq for outcome in outcomes] == [2, 3, 5, 6, 7]


@pytest.mark.parametrize("payloads", [[b"x"] * 4, [b"x" * 101]])
def test_a_request_above_the_limits_of_a_tick_is_refused(ring: RingOfFiles, payloads: list[bytes]):
    leader = Leader(ring, 0, TickLimits(rows=3, payload_bytes=100))
    outcomes = leader.store(request(1), request(2, *payloads), request(2, b"smaller"))
    assert verdicts(outcomes) == [("STORED", 1), ("REFUSED", 0), ("STORED", 2)]
    size = sum(map(len, payloads))
    assert outcomes[1].reason == (
        f"the request has {len(payloads)} messages of {size} bytes in all, but a request to a ring has at most 3 of "
        "100: send fewer at once"
    )


def test_destinations_count_once_in_each_tick(ring: RingOfFiles):
    leader = Leader(ring, 0, TickLimits(rows=100, payload_bytes=100))
    names = [letter * 40 for letter in "abc"]
    outcomes = leader.store(*(request(1 + place, b"x", to=names[place // 2]) for place in range(6)))
    assert verdicts(outcomes) == [("STORED", number) for number in range(1, 7)]
    contents = [content for content in leader.machine.store.read(0, 100) if content.rows]
    assert [sorted(content.sets.values()) for content in contents] == [names[:2], names[2:]]
    assert [len(content.rows) for content in contents] == [4, 2]


def test_a_request_with_too_many_destinations_for_a_tick_is_refused(ring: RingOfFiles):
    leader = Leader(ring, 0, TickLimits(rows=100, payload_bytes=100))
    entries = [new_entry(b"x", letter * 40) for letter in "abcc"]
    [refused] = leader.store(request(1)._replace(entries=entries))
    assert (refused.verdict.name, refused.reason) == (
        "REFUSED",
        "the request names destinations of 120 bytes in all, but a request to a ring has at most 100: send fewer "
        "messages at once",
    )
    assert verdicts(leader.store(request(1)._replace(entries=entries[1:]))) == [("STORED", 1)]


def test_unknown_destinations_are_refused_where_only_known_ones_are_allowed(ring: RingOfFiles):
    leader = Leader(ring, 0)
    with writing(leader.engine) as connection:
        record_known(connection, KnownSites(frozenset([SiteId("lima")]), known_only=True))
    outcomes = leader.store(request(1, to="lima"), request(2, to="lime"), request(2, to="lima"))
    assert verdicts(outcomes) == [("STORED", 1), ("REFUSED", 0), ("STORED", 2)]
    assert "did you mean 'lima'?" in outcomes[1].reason


# --- failures -------------------------------------------------------------------------------------------------


def changed_nothing(ring: RingOfFiles, work: Callable[[], object], match: str) -> None:
    before = [log_rows(machine.engine) for machine in ring.machines]
    with pytest.raises(StoreUnavailableError, match=match):
        work()
    assert [log_rows(machine.engine) for machine in ring.machines] == before


def test_a_follower_stores_nothing_and_names_its_leader(ring: RingOfFiles):
    changed_nothing(ring, lambda: Leader(ring, 2).store(request(1)), "rank 0 leads this token")


def test_a_declined_group_is_not_stored(ring: RingOfFiles):
    leader = Leader(ring, 0)
    leader.member.answers = [Decline(None, "the member of this token is busy, or stops")]
    changed_nothing(ring, lambda: leader.store(request(1), request(0)), "busy, or stops")


def test_a_request_without_a_release_is_unknown_and_in_the_log_once_in_the_end(ring: RingOfFiles):
    """The tick never reaches a follower, and the next leader stores the repeated request."""
    leader = Leader(ring, 0)
    leader.store(request(1))
    ring.cuts |= {(0, 1), (0, 2)}
    outcomes = leader.store(request(1), request(2), request(9, producer="gauge"), request(2), request(4))
    assert verdicts(outcomes) == [("REPEATED", 1), ("UNKNOWN", 0), ("GAP", 0), ("UNKNOWN", 0), ("UNKNOWN", 0)]
    assert outcomes[1].reason == "the requests are stored, but it is not known whether on enough disks: repeat them"
    assert leader.payloads() == [b"1", b"2"]
    later = take_over(ring)
    assert verdicts(later.store(request(2))) == [("STORED", 2)]
    ring.settle()
    assert leader.payloads() == later.payloads() == [b"1", b"2"]
    assert [log_rows(machine.engine) for machine in ring.machines[:2]].count(log_rows(ring.machines[2].engine)) == 2


def test_a_tick_that_one_follower_has_is_kept_by_the_next_leader(ring: RingOfFiles):
    leader = Leader(ring, 0)
    ring.cuts |= {(1, 0), (2, 0)}
    (unknown,) = leader.store(request(1))
    assert unknown.verdict.name == "UNKNOWN"
    later = take_over(ring)
    (again,) = later.store(request(1))
    assert verdicts([again]) == [("REPEATED", 1)]
    assert later.payloads() == [b"1"]


def test_nothing_is_told_of_earlier_requests_before_their_release(ring: RingOfFiles):
    """A second call after an unknown outcome must not call the request repeated."""
    leader = Leader(ring, 0)
    ring.cuts |= {(0, 1), (0, 2)}
    assert verdicts(leader.store(request(1))) == [("UNKNOWN", 0)]
    for asked in (request(1), request(0), request(2)):
        changed_nothing(ring, lambda asked=asked: leader.store(asked), "is not on enough disks yet")
    ring.cuts.clear()
    ring.post(0, BeatDue())
    assert verdicts(leader.store(request(1))) == [("REPEATED", 1)]


def test_the_ticks_after_an_unreleased_one_are_unknown_and_those_before_are_told(ring: RingOfFiles):
    leader = Leader(ring, 0, TickLimits(rows=1))
    member = leader.member
    released = member.await_answerable
    begun = leader.machine.store.end().tick.number
    member.await_answerable = lambda tick, timeout: tick.seq <= begun + 1 and released(tick, timeout)
    outcomes = leader.store(request(1), request(2), request(3), request(0))
    assert verdicts(outcomes) == [("STORED", 1), ("UNKNOWN", 0), ("UNKNOWN", 0), ("UNKNOWN", 0)]


def test_the_requests_after_a_declined_tick_are_unknown(ring: RingOfFiles):
    leader = Leader(ring, 0, TickLimits(rows=1))
    offer = leader.member.offer

    def declining(*given) -> "Future[TickMark | Decline]":
        if leader.member.offers == 1:
            leader.member.answers = [Decline(None, "64 ticks wait for a follower")]
        return offer(*given)

    leader.member.offer = lambda transactions, productions, after: declining(transactions, productions, after)
    outcomes = leader.store(request(1), request(2), request(3))
    assert verdicts(outcomes) == [("STORED", 1), ("UNKNOWN", 0), ("UNKNOWN", 0)]
    assert {outcome.reason for outcome in outcomes[1:]} == {"64 ticks wait for a follower"}
    assert leader.member.offers == 2
    assert leader.payloads() == [b"1"]


def test_an_error_of_the_member_leaves_the_outcome_unknown(ring: RingOfFiles):
    leader = Leader(ring, 0)
    leader.member.answers = [StoreUnavailableError("the disk is full")]
    (outcome,) = leader.store(request(1))
    assert (outcome.verdict.name, outcome.reason) == ("UNKNOWN", "the disk is full")


def test_a_mistake_of_the_caller_is_an_error(ring: RingOfFiles):
    leader = Leader(ring, 0)
    leader.member.answers = [UsageError("too many entries")]
    with pytest.raises(UsageError):
        leader.store(request(1))


@pytest.mark.parametrize("is_running", [False, True])
def test_a_member_without_an_answer_is_not_waited_for_for_ever(ring: RingOfFiles, *, is_running: bool):
    leader = Leader(ring, 0)
    offered: Future[TickMark | Decline] = Future()
    if is_running:
        offered.set_running_or_notify_cancel()
    leader.member.offer = lambda *_given, **_named: offered
    requests = RingStore(leader.engine, leader.member, longest_wait=0.0)
    if is_running:
        (outcome,) = requests.store([request(1)], now_us())
        assert (outcome.verdict.name, outcome.reason) == (
            "UNKNOWN",
            "the member of this token took too long to store the requests",
        )
    else:
        with pytest.raises(StoreUnavailableError, match="took too long"):
            requests.store([request(1)], now_us())
        assert offered.cancelled()


def test_a_leader_that_led_again_meanwhile_stores_no_decision_from_before(ring: RingOfFiles):
    """Between the decision and the offer another leader has stored the same request."""
    leader = Leader(ring, 0)
    leader.store(request(1))
    offer = leader.member.offer

    def late(*given) -> "Future[TickMark | Decline]":
        assert verdicts(take_over(ring).store(request(2, b"of the other leader"))) == [("STORED", 2)]
        ring.settle()
        return offer(*given)

    leader.member.offer = lambda *given, after: late(*given, after)
    with pytest.raises(StoreUnavailableError, match="has gone on since"):
        leader.store(request(2, b"of the other leader"))
    ring.deliver_all()
    assert leader.payloads() == [b"1", b"of the other leader"]


# --- places ---------------------------------------------------------------------------------------------------


def test_the_place_of_a_request_is_durable_once_its_tick_is_released(ring: RingOfFiles):
    leader = Leader(ring, 0)
    ring.cuts |= {(0, 1), (0, 2)}
    leader.store(request(1))
    branch = leader.branch
    last = Last(1, f"paris/policy/{branch}/1")
    assert leader.requests.places([(key_of(), last)]) == [Place(is_durable=False, position=Position(branch, 1))]
    ring.cuts.clear()
    ring.post(0, BeatDue())
    assert leader.requests.places([(key_of(), last)]) == [Place(is_durable=True, position=Position(branch, 1))]
    assert leader.requests.places([(key_of(), Last(1, "paris/policy/elsewhere/1"))]) == [Place(is_durable=False)]
    assert leader.requests.places([(key_of(), Last(1, f"paris/policy/{branch}/2"))]) == [Place(is_durable=False)]


def test_the_table_of_requests_is_among_those_that_all_members_have_alike():
    assert "lrq_ring_productions" in LOG_TABLES
