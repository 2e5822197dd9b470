"""Sessions with work have threads of their own, at most so many, and idle ones give theirs back."""

from collections import defaultdict

import pytest

from lr_server.session.stream_threads import BUSY, IDLE_SECONDS, StreamThreads
from lr_server.session.traffic import WorkDone
from queues.clock import SystemClock
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey

PLACES = 2


class Sink:
    is_closed = False


class Hand(SystemClock):
    """A clock that a test moves."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def session(number: int) -> SessionKey:
    return SessionKey(ClientName("policy"), SiteId(f"site{number}"))


class Server:
    """The sessions of a server, with the work that a test gives them."""

    def __init__(self) -> None:
        self.clock = Hand()
        self.frames: dict[SessionKey, int] = defaultdict(int)
        self.sent_bytes: dict[SessionKey, int] = defaultdict(int)
        self.threads = StreamThreads(
            lambda owed: WorkDone(self.frames[owed], self.sent_bytes[owed]), self.clock, PLACES
        )
        self.sinks: dict[SessionKey, Sink] = {}

    def connect(self, number: int) -> bool:
        """Connect a session; return whether it has threads of its own."""
        owed = session(number)
        if (before := self.sinks.pop(owed, None)) is not None:
            before.is_closed = True
        sink = self.threads.place(owed, Sink)
        if sink is not None:
            self.sinks[owed] = sink
        return sink is not None

    def look(self, number: int, seconds: float, *, frames: float = 0, sent_bytes: float = 0) -> bool:
        """Let time pass, and the session send so much a second; return whether it shall connect again."""
        owed = session(number)
        self.clock.now += seconds
        self.frames[owed] += int(frames * seconds)
        self.sent_bytes[owed] += int(sent_bytes * seconds)
        return self.threads.is_change_due(owed)


@pytest.fixture
def server() -> Server:
    return Server()


def test_the_first_sessions_have_threads(server: Server):
    assert [server.connect(number) for number in range(PLACES + 1)] == [True, True, False]


def test_an_idle_session_shares_threads_until_it_is_busy(server: Server):
    assert server.connect(1)
    assert not server.look(1, 5)
    assert not server.look(1, IDLE_SECONDS - 1, sent_bytes=50)
    # The bytes of heartbeats are no work.
    assert server.look(1, 2, sent_bytes=50)
    assert not server.connect(1)
    assert not server.look(1, 5, frames=BUSY - 1)
    assert not server.connect(1)
    assert server.look(1, 5, frames=BUSY)
    assert server.connect(1)
    assert not server.look(1, IDLE_SECONDS - 1)


def test_a_session_with_few_entries_keeps_its_threads(server: Server):
    assert server.connect(1)
    assert not any(server.look(1, 30, frames=0.1) for _ in range(20))


def test_large_frames_make_a_session_busy_too(server: Server):
    for number in range(PLACES):
        server.connect(number)
    assert not server.connect(7)
    assert not server.look(7, 1)
    server.sinks[session(0)].is_closed = True
    assert server.look(7, 5, sent_bytes=BUSY * 65_536)
    assert server.connect(7)


def test_a_busy_session_waits_for_a_place(server: Server):
    for number in range(PLACES + 1):
        server.connect(number)
    server.look(PLACES, 1)
    assert not server.look(PLACES, 5, frames=10 * BUSY)
    assert not server.threads.is_change_due(session(0))
    assert server.look(0, IDLE_SECONDS + 1)
    assert not server.connect(0)
    assert not server.look(PLACES, 0)
    assert server.look(PLACES, 5, frames=10 * BUSY)
    assert server.connect(PLACES)


def test_a_free_place_is_kept_for_the_session_that_connects_again_for_it(server: Server):
    for number in range(PLACES):
        server.connect(number)
    busy = (7, 8, 9)
    for number in busy:
        assert not server.connect(number)
        server.look(number, 1)
    server.sinks[session(0)].is_closed = True
    assert [server.look(number, 5, frames=10 * BUSY) for number in busy] == [True, False, False]
    assert not server.connect(10)
    assert server.look(7, 5, frames=10 * BUSY)
    assert server.connect(7)
    assert not server.connect(8)
    server.sinks[session(1)].is_closed = True
    assert server.connect(9)


@pytest.mark.parametrize("why", ["idle", "over"])
def test_a_kept_place_is_free_again_once_its_session_does_not_need_it(server: Server, why: str):
    for number in range(PLACES):
        server.connect(number)
    for number in (7, 8):
        server.connect(number)
        server.look(number, 1)
    server.sinks[session(0)].is_closed = True
    assert server.look(7, 5, frames=10 * BUSY)
    if why == "idle":
        assert not server.look(7, 5)
    else:
        server.threads.forget(session(7))
    assert server.look(8, 5, frames=10 * BUSY)


def test_a_session_whose_peer_was_away_for_long_keeps_its_new_threads(server: Server):
    assert server.connect(1)
    assert not server.look(1, 5, frames=1)
    server.sinks[session(1)].is_closed = True
    assert not server.look(1, 10 * IDLE_SECONDS)
    assert server.connect(1)
    assert not server.look(1, IDLE_SECONDS - 1)
    assert server.look(1, 2)


def test_work_in_less_than_a_second_does_not_count_yet(server: Server):
    for number in range(PLACES):
        server.connect(number)
    server.connect(7)
    server.look(7, 1)
    server.sinks[session(0)].is_closed = True
    assert not server.look(7, 0.5, frames=10 * BUSY)
    assert server.look(7, 0.5, frames=10 * BUSY)


def test_a_session_within_the_process_never_changes(server: Server):
    assert not server.look(1, 1)
    assert not server.look(1, 5, frames=10 * BUSY)
    assert not server.look(1, 10 * IDLE_SECONDS)


def test_a_session_that_begins_again_gets_threads(server: Server):
    server.connect(1)
    server.look(1, 1)
    assert server.look(1, IDLE_SECONDS + 1)
    server.threads.forget(session(1))
    assert server.connect(1)
    assert not server.look(1, IDLE_SECONDS - 1)
