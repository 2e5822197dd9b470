"""The turns of a session: each event once, in order, by one thread at a time; and few threads."""

import random
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from discovery.threads import OnEnded
from lr_server.protocol.events import Event, PeerLost, RetryDue
from lr_server.session.stream import FrameStream
from lr_server.session.turns import SlowWork, Turns
from queues.errors import ThreadEndedError
from tests.shifted_clock import ShiftedClock
from tests.waiting import eventually

NAME = "lrq-session-policy-tokyo"
LAST = PeerLost("last")
PATIENCE = 0.5


class Session:
    """Takes each event, and has slow work for those whose words begin with "slow"; LAST ends it."""

    def __init__(self, on_ended: OnEnded) -> None:
        self.clock = ShiftedClock()
        self.turns = Turns(
            NAME, self._take, lambda: self.done.append("finished"), self.clock, on_ended, patience=PATIENCE
        )
        self.done: list[str] = []
        self.threads: dict[str, str] = {}
        #: The work to do, by the words of its event.
        self.acts: dict[str, Callable[[], None]] = {}
        self._alone = threading.Lock()

    def post(self, words: str) -> None:
        self.turns.post(PeerLost(words))

    def _take(self, event: Event, stream: FrameStream | None) -> SlowWork:
        words = event.error if isinstance(event, PeerLost) else type(event).__name__
        if event == LAST or words.startswith("slow"):
            return partial(self._do, words)
        self._do(words)
        return None

    def _do(self, words: str) -> None:
        assert self._alone.acquire(blocking=False)
        self.threads[words] = threading.current_thread().name
        self.acts.get(words, lambda: None)()
        self.done.append(words)
        if words == LAST.error:
            self.turns.end()
        self._alone.release()


@pytest.fixture
def errors() -> list[ThreadEndedError]:
    return []


@pytest.fixture
def session(errors: list[ThreadEndedError]) -> Iterator[Session]:
    session = Session(errors.append)
    yield session
    session.turns.post(LAST)
    session.turns.join()


def own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


def test_an_event_without_slow_work_is_taken_by_the_thread_that_brings_it(session: Session) -> None:
    session.post("1")
    assert session.threads == {"1": threading.current_thread().name}


def test_slow_work_runs_in_the_sessions_own_thread_which_ends_with_it(session: Session) -> None:
    held = threading.Event()
    session.acts["slow"] = held.wait
    session.post("slow")
    session.post("2")
    assert session.done == []
    held.set()
    eventually(lambda: session.done == ["slow", "2"])
    assert set(session.threads.values()) == {NAME}
    eventually(lambda: not own_threads())


@pytest.mark.parametrize("run", range(20))
def test_the_events_of_many_threads_are_taken_once_and_each_threads_in_its_order(session: Session, run: int) -> None:
    chance = random.Random(run)
    kinds = [[chance.choice(["slow", "now"]) for _ in range(50)] for _ in range(6)]
    writers = [
        threading.Thread(target=lambda n=n: [session.post(f"{kind} {n} {k}") for k, kind in enumerate(kinds[n])])
        for n in range(6)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    eventually(lambda: len(session.done) == 300)
    for n in range(6):
        mine = [words for words in session.done if words.split()[1] == str(n)]
        assert mine == [f"{kind} {n} {k}" for k, kind in enumerate(kinds[n])]


def test_a_retry_comes_in_its_time_and_events_come_before_it(session: Session) -> None:
    def work() -> None:
        session.turns.retry_after(0.2)
        session.post("before")

    session.acts["slow"] = work
    session.post("slow")
    eventually(lambda: session.done == ["slow", "before", RetryDue.__name__])
    eventually(lambda: not own_threads())


def test_no_thread_waits_for_a_late_retry_which_comes_once_in_its_time(session: Session) -> None:
    session.acts["slow"] = lambda: session.turns.retry_after(600)
    session.post("slow")
    eventually(lambda: session.done == ["slow"] and not own_threads())
    session.turns.retry_if_due()
    # The thread of the test takes an event meanwhile, and must not wait for the retry either.
    session.post("between")
    assert session.done == ["slow", "between"]
    session.clock.shift = 600
    session.turns.retry_if_due()
    session.turns.retry_if_due()
    assert session.done == ["slow", "between", RetryDue.__name__]


def test_a_session_ends_while_it_waits_for_a_late_retry(session: Session) -> None:
    session.acts["slow"] = lambda: session.turns.retry_after(600)
    session.post("slow")
    eventually(lambda: session.done == ["slow"] and not own_threads())
    session.post(str(LAST.error))
    session.turns.join()
    assert session.done == ["slow", "last", "finished"]


def test_nothing_counts_after_the_end(session: Session) -> None:
    session.turns.post(LAST)
    session.turns.join()
    session.post("late")
    assert session.done == ["last", "finished"]


@pytest.mark.parametrize("words", ["slow", "here"])
def test_an_error_ends_the_session_and_is_passed_on(
    session: Session, errors: list[ThreadEndedError], words: str
) -> None:
    session.acts[words] = lambda: [][0]
    session.post(words)
    session.turns.join()
    session.post("late")
    assert session.done == ["finished"]
    assert isinstance(errors[0].__cause__, IndexError)


class Refusing:
    """Refuses new threads while `refuses` is True, as a machine at its limit does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refuses = True
        self._begin: Callable[[threading.Thread], None] = threading.Thread.start
        monkeypatch.setattr(threading.Thread, "start", lambda thread: self._start(thread))

    def _start(self, thread: threading.Thread) -> None:
        if self.refuses and thread.name == NAME:
            raise RuntimeError("can't start new thread")
        self._begin(thread)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Refusing:
    return Refusing(monkeypatch)


def test_slow_work_without_a_thread_is_told_and_runs_once_there_is_one(session: Session, machine: Refusing) -> None:
    session.post("slow")
    session.post("2")
    with pytest.raises(RuntimeError, match="new thread"):
        session.turns.look_for_thread()
    assert session.done == []
    machine.refuses = False
    session.turns.look_for_thread()
    eventually(lambda: session.done == ["slow", "2"])
    session.turns.look_for_thread()
    assert session.done == ["slow", "2"]


def test_a_session_without_a_thread_ends_in_the_thread_that_waits_for_the_end(
    session: Session, machine: Refusing
) -> None:
    session.post("slow")
    session.turns.post(LAST)
    session.turns.join()
    assert session.done == ["slow", "last", "finished"]


@pytest.mark.usefixtures("machine")
def test_the_end_comes_although_the_thread_is_refused_while_it_is_awaited(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on, awaited = threading.Event(), threading.Event(), threading.Event()
    really = session.turns._ended.wait

    def wait(*timeout: float) -> bool:
        awaited.set()
        return really(*timeout)

    def stand_still() -> None:
        begun.set()
        goes_on.wait(60)

    monkeypatch.setattr(session.turns._ended, "wait", wait)
    session.acts["here"] = stand_still
    threads = [
        threading.Thread(target=work, daemon=True) for work in (lambda: session.post("here"), session.turns.join)
    ]
    threads[0].start()
    assert begun.wait(60)
    session.turns.post(LAST)
    threads[1].start()
    assert awaited.wait(60)
    goes_on.set()
    eventually(lambda: not any(thread.is_alive() for thread in threads))
    assert session.done == ["here", "last", "finished"]
