"""Three members with threads and real connections: they agree, lead, replicate, and go on through cuts and losses."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from lr_server.protocol.agreement.effects import Decline
from lr_server.protocol.agreement.generations import RANKS
from lr_server.ring.links import RingLink
from lr_server.ring.runner import RingPace
from queues.clock import now_us
from queues.errors import PeerUnreachableError
from tests.certificates import issued
from tests.conftest import NewSite
from tests.lr_server.ring.live import ADDRESS, LiveRing, running
from tests.lr_server.ring.stores import log_rows, transaction, witness_path
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ring(new_site: NewSite) -> Iterator[LiveRing]:
    yield from running([new_site("paris") for _ in RANKS])


def check_that_nothing_is_lost(ring: LiveRing) -> None:
    """Take entries beside the cut ways, and all together after the cut; the ring has taken one entry before."""
    for number in range(5):
        ring.take(b"%d" % number)
    ring.heal()
    ring.led_by(0)
    ring.take(b"after")
    assert ring.level(b"after") == [b"before", *(b"%d" % number for number in range(5)), b"after"]


def test_the_member_of_rank_0_leads_and_all_three_store_its_ticks(ring: LiveRing):
    ring.led_by(0)
    for number in range(10):
        ring.take(b"%d" % number, b"second")
    assert ring.level(b"9") == [text for number in range(10) for text in (b"%d" % number, b"second")][:2] + [
        b"%d" % number for number in range(1, 10)
    ]
    rows = [log_rows(member.engine)["lrq_ticks"] for member in ring.members]
    assert rows[0] == rows[1] == rows[2]
    # The leader tells each new released end once, in order.
    ends = ring.members[0].ends
    assert ends == sorted(set(ends))


def test_a_follower_declines_entries_and_names_the_leader(ring: LiveRing):
    ring.led_by(0)
    ring.take(b"one")
    eventually(lambda: ring.members[2].runner.offer([transaction(b"no")]).result(60) == Decline(
        0, "rank 0 leads this token"))  # fmt: skip


def test_rank_1_takes_over_from_a_stopped_leader_and_gives_back_the_lead(ring: LiveRing):
    ring.led_by(0)
    ring.take(b"one")
    ring.members[0].runner.stop()
    ring.led_by(1)
    ring.take(b"two")
    ring.begin_again(0)
    ring.led_by(0)
    ring.take(b"three")
    assert ring.level(b"three") == [b"one", b"two", b"three"]


@pytest.mark.parametrize("ways", [
    [(0, 1)], [(1, 0)], [(0, 2)], [(2, 0)], [(1, 2)], [(2, 1)],
    # Rank 0 hears rank 1 alone, and speaks to rank 2 alone.
    [(0, 1), (2, 0)],
])  # fmt: skip
def test_a_cut_of_one_direction_loses_nothing(ring: LiveRing, ways: list[tuple[int, int]]):
    ring.led_by(0)
    ring.take(b"before")
    for one, other in ways:
        ring.cut(one, other)
    check_that_nothing_is_lost(ring)


def test_rank_1_leads_beside_a_rank_0_that_speaks_and_hears_nothing(ring: LiveRing):
    leader = ring.led_by(0)
    ring.take(b"before")
    for other in (1, 2):
        ring.cut(other, 0)
    eventually(lambda: not leader.leads, timeout=180)
    check_that_nothing_is_lost(ring)


def test_a_leader_without_followers_takes_no_entries_until_one_is_back(ring: LiveRing):
    leader = ring.led_by(0)
    ring.take(b"before")
    for other in (1, 2):
        ring.cut(0, other)
        ring.cut(other, 0)
    eventually(lambda: not leader.leads, timeout=180)
    answer = leader.runner.offer([transaction(b"no")]).result(60)
    assert isinstance(answer, Decline)
    ring.heal()
    ring.led_by(0)
    ring.take(b"after")
    assert ring.level(b"after") == [b"before", b"after"]


def test_each_member_tells_since_when_it_knows_no_leader(ring: LiveRing):
    def fenced() -> list[int]:
        return [member.runner.status.fenced_us for member in ring.members]

    began = now_us()
    ring.led_by(0)
    eventually(lambda: fenced() == [0, 0, 0], timeout=180)
    for one, other in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)]:
        ring.cut(one, other)
    eventually(lambda: all(fenced()), timeout=180)
    since = fenced()
    assert all(began < each <= now_us() for each in since)
    eventually(lambda: ring.members[0].runner.status.role != "leading", timeout=180)
    assert fenced()[0] == since[0], "the beginning stays"
    ring.heal()
    eventually(lambda: fenced() == [0, 0, 0], timeout=180)


def test_a_member_without_its_witness_copies_the_log_and_counts_again(ring: LiveRing):
    ring.led_by(0)
    for number in range(70):
        ring.take(b"%d" % number)
    lost = ring.members[2]
    lost.runner.stop()
    witness_path(lost.engine).unlink()
    again = ring.begin_again(2)
    eventually(lambda: again.runner.member is not None and again.runner.member.record.store.number == 2, timeout=180)
    ring.take(b"the last")
    assert ring.level(b"the last") == [*(b"%d" % number for number in range(70)), b"the last"]
    eventually(lambda: again.runner.alarm_words == "", timeout=180)


def test_members_meet_over_tls_and_refuse_strangers_and_other_sites(new_site: NewSite, tmp_path: Path):
    authority = trustme.CA()
    credentials, *strangers = (
        issued(authority, folder(tmp_path, "member"), "127.0.0.1", common_name="paris"),
        issued(authority, folder(tmp_path, "other"), "127.0.0.1", common_name="tokyo"),
        issued(trustme.CA(), folder(tmp_path, "unknown"), "127.0.0.1", common_name="paris"),
    )
    for ring in running([new_site("paris") for _ in RANKS], credentials):
        ring.led_by(0)
        ring.take(b"one")
        assert ring.level(b"one") == [b"one"]
        for stranger in strangers:
            link = RingLink(ADDRESS, 0, ring.members[0].service.endpoints[0], credentials=stranger)
            with pytest.raises(PeerUnreachableError):
                link.pull(0)
            link.close()


def folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


def test_a_quiet_ring_begins_no_generation(new_site: NewSite):
    """Signs of life go on and on, and the clocks of all members run. A busy machine is no loss of a leader here."""
    pace = RingPace(beat=0.05, lease=300.0, stall=300.0, retry=0.1, longest_retry=1.0)
    for ring in running([new_site("paris") for _ in RANKS], pace=pace):
        leader = ring.led_by(0)
        ring.take(b"one")
        ring.level(b"one")
        generation = leader.runner.member.role.generation
        beats = Counting(leader.links[1])
        leader.links[1] = beats
        eventually(lambda beats=beats: beats.seen >= 30, timeout=180)
        assert {member.runner.member.record.promised for member in ring.members} == {generation}


class Counting:
    """Counts the parcels of a link."""

    def __init__(self, link) -> None:
        self._link, self.seen = link, 0

    def send(self, parcel) -> None:
        self.seen += 1
        self._link.send(parcel)

    def pull(self, after):
        return self._link.pull(after)
