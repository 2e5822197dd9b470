"""A server follows a provider, and keeps the last good peers while the provider fails or talks nonsense."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from discovery.topology import Peer
from lr_server.topology.followed import PATIENCE, FollowedTopology
from lr_server.topology.providers import PeerList
from lr_server.topology.rules import OwnSite, checked_peers
from queues.clock import SYSTEM_CLOCK
from queues.errors import ConfigurationError, StoreUnavailableError
from tests.waiting import eventually

TOKYO, LIMA = {"tokyo": "tcp://a:1"}, {"lima": "tcp://b:1"}


class Given:
    """A provider that returns or raises its `answer`."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.reads = 0

    def read(self) -> PeerList:
        self.reads += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        found: PeerList = self.answer
        return found


@dataclass
class MovedClock:
    """The clock of this machine, ahead by `seconds`."""

    seconds: float = 0.0

    def now_us(self) -> int:
        return SYSTEM_CLOCK.now_us()

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic() + self.seconds

    def wait(self, event: threading.Event, timeout: float) -> bool:
        return SYSTEM_CLOCK.wait(event, timeout)


@dataclass
class Follower:
    """A topology that follows `provider`, and the number of the changes that it has told."""

    provider: Any
    poll_seconds: float | None = None
    may_go_back: bool = False
    told: int = 0
    clock: MovedClock = field(default_factory=MovedClock)

    def __post_init__(self) -> None:
        self.topology = FollowedTopology(
            self.provider, "the directory", check=lambda peers: checked_peers(peers, OwnSite("paris")),
            poll_seconds=self.poll_seconds, may_go_back=self.may_go_back, clock=self.clock, on_change=self._count,
        )  # fmt: skip

    def _count(self) -> None:
        self.told += 1

    @property
    def sites(self) -> set[str]:
        return set(self.topology.peers())

    @property
    def trouble(self) -> str:
        return self.topology.facts.trouble


@pytest.fixture
def polled() -> Iterator[Follower]:
    follower = Follower(Given(PeerList(TOKYO)), poll_seconds=0.01)
    yield follower
    follower.topology.stop()


def test_before_the_first_good_list_the_peers_are_not_known():
    follower = Follower(Given(RuntimeError("no token")))
    assert (follower.topology.version, follower.sites) == (0, set())
    follower.topology.refresh()
    assert (follower.topology.version, follower.sites) == (0, set())
    assert follower.topology.facts == ("the directory", 0, "RuntimeError: no token")


def test_wrong_peers_that_are_read_once_are_refused_at_the_start():
    follower = Follower(Given(PeerList({"paris": "tcp://a:1"})))
    with pytest.raises(ConfigurationError, match="peers names 'paris', which is this site itself: remove that peer"):
        follower.topology.start(1)


def test_each_change_has_a_higher_version_and_is_told_once():
    follower = Follower(Given(PeerList(TOKYO)))
    follower.topology.start(1)
    assert (follower.topology.version, follower.topology.peers()) == (1, {"tokyo": Peer("tcp://a:1")})
    follower.topology.refresh()
    assert (follower.topology.version, follower.told) == (1, 1)
    follower.provider.answer = PeerList(LIMA)
    follower.topology.refresh()
    assert (follower.topology.version, follower.sites, follower.told) == (2, {"lima"}, 2)
    assert follower.topology.facts == ("the directory", 2, "")


def test_a_provider_may_change_the_mapping_that_it_has_given():
    peers = dict(TOKYO)
    follower = Follower(Given(PeerList(peers)))
    follower.topology.start(1)
    peers |= LIMA
    follower.topology.refresh()
    assert follower.sites == {"tokyo", "lima"}


def test_a_provider_may_change_the_members_that_it_has_given():
    members = ["tokyo"]
    follower = Follower(Given(PeerList({**TOKYO, **LIMA}, replicas={"east": members})))
    follower.topology.start(1)
    members.append("lima")
    follower.topology.refresh()
    assert follower.topology.replicas() == {"east": ("tokyo", "lima")}


def test_the_same_list_is_not_checked_again():
    checks: list[int] = []
    follower = Follower(Given(PeerList(TOKYO)))
    check = follower.topology._check
    follower.topology._check = lambda peers: checks.append(len(peers)) or check(peers)
    for answer in (PeerList(TOKYO), PeerList(dict(TOKYO)), RuntimeError("no token"), PeerList(TOKYO)):
        follower.provider.answer = answer
        follower.topology.refresh()
    assert (checks, follower.trouble) == ([1], "")


def test_the_provider_s_own_version_is_shown():
    follower = Follower(Given(PeerList(TOKYO, version=41)))
    follower.topology.start(1)
    follower.provider.answer = PeerList(TOKYO, version=43)
    follower.topology.refresh()
    assert (follower.topology.facts.version, follower.topology.version) == (43, 1)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (RuntimeError("no token"), "RuntimeError: no token"),
        (SystemExit(1), "SystemExit: 1"),
        (StoreUnavailableError("the database is away: look"), "the database is away: look"),
        (None, "the provider returned NoneType, not a lr_server.PeerList"),
        ({"tokyo": "tcp://a:1"}, "the provider returned dict, not a lr_server.PeerList"),
        (PeerList(["tokyo"]), "the provider returned peers that are no mapping"),  # type: ignore[arg-type]
        (PeerList(LIMA, version="8"), "the provider returned '8' as version"),  # type: ignore[arg-type]
        (PeerList(LIMA, version=True), "the provider returned True as version"),
        (PeerList(LIMA, version=0), "the provider returned version 0: count from 1"),
        (PeerList({"paris": "tcp://a:1"}), "peers names 'paris', which is this site itself"),
        (PeerList({"lima": "nowhere"}), "peers[lima]: 'nowhere' is not an endpoint"),
        (PeerList({7: "tcp://a:1"}), "site id must be a string, not int"),  # type: ignore[dict-item]
    ],
)
def test_a_failure_or_nonsense_keeps_the_last_good_peers_and_is_told_once(answer: object, words: str):
    follower = Follower(Given(PeerList(TOKYO)))
    follower.topology.start(1)
    follower.provider.answer = answer
    follower.topology.refresh()
    follower.topology.refresh()
    assert (follower.topology.version, follower.sites, follower.told) == (1, {"tokyo"}, 2)
    assert follower.trouble.startswith(words)
    follower.provider.answer = PeerList(LIMA)
    follower.topology.refresh()
    assert (follower.sites, follower.trouble, follower.told) == ({"lima"}, "", 3)


def test_an_older_version_is_ignored():
    follower = Follower(Given(PeerList(TOKYO, version=5)))
    follower.topology.start(1)
    follower.provider.answer = PeerList(LIMA, version=4)
    follower.topology.refresh()
    assert (follower.sites, follower.topology.facts.version) == ({"tokyo"}, 5)
    assert follower.trouble == "version 4 is older than version 5, which stays"


def test_other_peers_of_the_same_version_are_refused():
    follower = Follower(Given(PeerList(TOKYO, version=5)))
    follower.topology.start(1)
    follower.provider.answer = PeerList(LIMA, version=5)
    follower.topology.refresh()
    assert follower.sites == {"tokyo"}
    assert follower.trouble == "the peers changed, but version 5 did not: raise the version"


def test_a_place_that_may_go_back_is_followed_back_also_with_the_same_version():
    follower = Follower(Given(PeerList(TOKYO, version=5)), may_go_back=True)
    follower.topology.start(1)
    for version in (3, 3):
        follower.provider.answer = PeerList(LIMA if follower.sites == {"tokyo"} else TOKYO, version=version)
        follower.topology.refresh()
    assert (follower.sites, follower.topology.version, follower.topology.facts.version) == ({"tokyo"}, 3, 3)


def test_a_polled_provider_is_read_again_and_again_until_the_end(polled: Follower):
    polled.topology.start(30)
    assert polled.sites == {"tokyo"}
    polled.provider.answer = PeerList(LIMA)
    eventually(lambda: polled.sites == {"lima"})
    polled.topology.stop()
    reads = polled.provider.reads
    polled.provider.answer = PeerList(TOKYO)
    assert not polled.topology._thread.is_alive()
    assert polled.provider.reads == reads


def test_a_provider_without_polls_is_read_on_request_only():
    follower = Follower(Given(PeerList(TOKYO)))
    follower.topology.start(1)
    assert not follower.topology._thread.is_alive()
    assert follower.sites == {"tokyo"}
    follower.topology.stop()


def test_a_provider_that_hangs_holds_up_neither_the_start_nor_the_status():
    released = threading.Event()

    class Hanging:
        def read(self) -> PeerList:
            released.wait(30)
            return PeerList(TOKYO)

    follower = Follower(Hanging(), poll_seconds=0.01)
    follower.topology.start(0.01)
    assert (follower.topology.version, follower.trouble) == (0, "")
    follower.clock.seconds = PATIENCE
    eventually(lambda: follower.trouble == "the provider has not answered for 30 s or longer")
    released.set()
    eventually(lambda: follower.sites == {"tokyo"})
    follower.topology.stop()


def test_a_polled_provider_is_read_in_one_thread_also_on_request():
    threads: set[int] = set()

    class Noting:
        answer = TOKYO

        def read(self) -> PeerList:
            threads.add(threading.get_ident())
            return PeerList(self.answer)

    follower = Follower(Noting(), poll_seconds=3_600)
    follower.topology.start(30)
    follower.provider.answer = LIMA
    follower.topology.refresh()
    eventually(lambda: follower.sites == {"lima"})
    assert len(threads) == 1
    follower.topology.stop()


def test_a_request_does_not_wait_for_ever_for_a_provider_that_hangs():
    released = threading.Event()

    class Hanging:
        def read(self) -> PeerList:
            released.wait()
            return PeerList(TOKYO)

    follower = Follower(Hanging(), poll_seconds=3_600)
    follower.topology.start(0.01)
    waiting = threading.Thread(target=follower.topology.refresh, daemon=True)
    waiting.start()
    try:
        eventually(lambda: not waiting.is_alive())
        assert follower.topology._asked == set()
    finally:
        released.set()
        follower.topology.stop()


def test_a_request_during_a_reading_reads_once_more():
    begun, released = threading.Event(), threading.Event()

    class Slow:
        answer = TOKYO

        def read(self) -> PeerList:
            found = PeerList(self.answer)
            begun.set()
            released.wait(30)
            return found

    follower = Follower(Slow(), poll_seconds=3_600)
    follower.topology.start(0.01)
    begun.wait(30)
    follower.provider.answer = LIMA
    waiting = threading.Thread(target=follower.topology.refresh)
    waiting.start()
    eventually(lambda: follower.topology._asked)
    released.set()
    waiting.join(30)
    assert follower.sites == {"lima"}
    follower.topology.stop()
