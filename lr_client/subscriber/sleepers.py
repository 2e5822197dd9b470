"""The pauses of idle followers: a thread of the process wakes a follower when its queue has new work."""

import socket
import threading
from collections import deque
from contextlib import closing, suppress
from multiprocessing import connection
from typing import Final
from weakref import WeakKeyDictionary

from sqlalchemy import Engine

from queues.clock import SYSTEM_CLOCK, Clock
from queues.database.transactions import reading
from queues.errors import LrqError
from queues.logs import logger
from queues.receive import wakeups
from queues.receive.wakeup_watch import WakeupWatch, open_watch
from queues.thread_lack import is_lack
from queues.words import in_words

#: Notifications are worth their cost up to this rate of deliveries in the process, in deliveries a second.
_FEW_DELIVERIES: Final = 500
#: The number of newest deliveries that measure the rate.
_RECENT: Final = 32
#: The watch is kept alive this often, in seconds.
_KEEP: Final = 4.0
#: The shortest and the longest rest before a lost watch is opened again, in seconds.
_FIRST_REST: Final = 0.5
_LONGEST_REST: Final = 30.0
#: The longest wait for the end of the thread, in seconds: its connection may hang.
_PATIENCE: Final = 5.0

_log = logger("lrq.subscriber")


class Sleeper:
    """The pauses of one follower; `wake` and `close` may be called by any thread."""

    def __init__(self, owner: "Sleepers", queue_id: int, clock: Clock) -> None:
        """Sleep for the follower of queue *queue_id*."""
        self._owner = owner
        self._clock = clock
        self._event = threading.Event()
        self.queue_id = queue_id
        #: Whether the follower wants wakeups, and whether each change of the sink's marks brings one.
        self.wants = False
        self.is_notified = False

    def sleep(self, seconds: float) -> None:
        """Wait up to *seconds*; a wakeup or `wake` ends this wait, or else the next one."""
        self._owner.begin()
        if not self.wants and self._owner.is_light():
            self.wants = True
            self._owner.call()
        self._clock.wait(self._event, seconds)
        # The follower looks at its queue after this line, so a later wakeup is never lost.
        self._event.clear()

    def delivered(self) -> None:
        """Note a delivery; under load the sinks then send no more notifications."""
        self._owner.deliveries.append(SYSTEM_CLOCK.monotonic())
        if self.wants and not self._owner.is_light():
            self.wants = self.is_notified = False
            self._owner.call()

    def wake(self) -> None:
        """End the present wait, or the next one."""
        self._event.set()

    def close(self) -> None:
        """End the notifications."""
        self._owner.remove(self)

    def listen(self, place: wakeups.WakeupPlace) -> None:
        """Let the sinks of this process wake the follower."""
        wakeups.listen(place, self.queue_id, self._event)


class Sleepers:
    """The sleepers of one process and engine. The thread begins with the first sleep of a follower."""

    def __init__(self, engine: Engine) -> None:
        """Serve the followers of *engine*."""
        self._engine = engine
        self._guard = threading.Lock()
        self._sleepers: tuple[Sleeper, ...] = ()
        self._thread: _Thread | None = None
        #: The times of the newest deliveries.
        self.deliveries: deque[float] = deque(maxlen=_RECENT)

    def sleeper(self, queue_id: int, clock: Clock) -> Sleeper:
        """Return a new sleeper, which the caller must close."""
        made = Sleeper(self, queue_id, clock)
        with self._guard:
            self._sleepers = (*self._sleepers, made)
            thread = self._thread
        if thread is not None and thread.place is not None:
            made.listen(thread.place)
        return made

    def begin(self) -> None:
        """Start the thread, unless it works already: a process that is never idle needs none.

        Without a thread the followers poll, and the next sleep tries again.
        """
        if self._thread is None:
            with self._guard:
                if self._thread is None and self._sleepers:
                    thread = _Thread(self, self._engine)
                    if thread.start():
                        self._thread = thread

    def remove(self, sleeper: Sleeper) -> None:
        """Forget *sleeper*; with the last one the thread ends."""
        with self._guard:
            self._sleepers = tuple(each for each in self._sleepers if each is not sleeper)
            thread = self._thread
            if not self._sleepers:
                self._thread = None
        if thread is None:
            return
        if self._sleepers:
            thread.call()
        else:
            thread.stop()

    def all(self) -> tuple[Sleeper, ...]:
        """Return the sleepers of the moment."""
        return self._sleepers

    def is_light(self) -> bool:
        """Return whether few deliveries were made lately."""
        times = tuple(self.deliveries)
        return len(times) < _RECENT or SYSTEM_CLOCK.monotonic() - times[0] > _RECENT / _FEW_DELIVERIES

    def call(self) -> None:
        """Have the thread look at the wishes of the sleepers."""
        thread = self._thread
        if thread is not None:
            thread.call()


class _Thread:
    """Asks for wakeups, receives them, and opens a lost watch again."""

    def __init__(self, sleepers: Sleepers, engine: Engine) -> None:
        self._sleepers = sleepers
        self._engine = engine
        self._stopping = threading.Event()
        self._ours, self._theirs = socket.socketpair()
        for each in (self._ours, self._theirs):
            each.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="lrq-wakeups", daemon=True)
        self.place: wakeups.WakeupPlace | None = None

    def start(self) -> bool:
        """Return whether the machine has a thread."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self._close()
            if not is_lack(error):
                raise
            return False
        return True

    def call(self) -> None:
        """End the present wait of the thread."""
        with suppress(OSError):
            self._theirs.send(b"\0")

    def stop(self) -> None:
        """End the thread, and with it the notifications."""
        self._stopping.set()
        self.call()
        if self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)

    def _run(self) -> None:
        rest, told = _FIRST_REST, ""
        while not self._stopping.is_set():
            opened = SYSTEM_CLOCK.monotonic()
            try:
                self._listen()
            except Exception as error:  # noqa: BLE001 - wakeups are hints: without them the followers poll
                words = in_words(error)
                (_log.debug if isinstance(error, LrqError) or words == told else _log.warning)(
                    "idle queues are polled", reason=words
                )
                told = words
            self._forget()
            rest = _FIRST_REST if SYSTEM_CLOCK.monotonic() - opened > _LONGEST_REST else min(2 * rest, _LONGEST_REST)
            self._stopping.wait(rest)
        self._close()

    def _close(self) -> None:
        for each in (self._ours, self._theirs):
            each.close()

    def _listen(self) -> None:
        if self.place is None:
            with reading(self._engine) as opened:
                self.place = wakeups.place_of(opened)
            for sleeper in self._sleepers.all():
                sleeper.listen(self.place)
        with closing(open_watch(self._engine, self.place)) as watch:
            held: set[int] = set()
            # Entries may have come before the watch.
            for sleeper in self._sleepers.all():
                sleeper.wake()
            kept = SYSTEM_CLOCK.monotonic()
            while not self._stopping.is_set():
                self._ask(watch, held)
                ready = connection.wait([self._ours, *watch.sources], min(watch.silence, _KEEP))  # type: ignore[list-item]
                with suppress(BlockingIOError):
                    self._ours.recv(64)
                woken = watch.woken()
                for sleeper in self._sleepers.all():
                    if sleeper.queue_id in woken:
                        sleeper.wake()
                if not ready or SYSTEM_CLOCK.monotonic() - kept > _KEEP:
                    watch.keep()
                    kept = SYSTEM_CLOCK.monotonic()

    def _ask(self, watch: WakeupWatch, held: set[int]) -> None:
        """Ask for the notifications that sleepers want, and end the others."""
        wanting: dict[int, list[Sleeper]] = {}
        for sleeper in self._sleepers.all():
            if sleeper.wants:
                wanting.setdefault(sleeper.queue_id, []).append(sleeper)
        for queue_id in held - wanting.keys():
            watch.end_sleep(queue_id)
            held.discard(queue_id)
        for queue_id, sleepers in wanting.items():
            if queue_id not in held and watch.sleep(queue_id):
                held.add(queue_id)
            for sleeper in sleepers:
                if queue_id not in held:
                    sleeper.wants = False
                elif not sleeper.is_notified:
                    sleeper.is_notified = True
                    # Earlier commits have sent no notification, so the follower looks once more.
                    sleeper.wake()

    def _forget(self) -> None:
        for sleeper in self._sleepers.all():
            sleeper.wants = sleeper.is_notified = False
            sleeper.wake()


_shared: WeakKeyDictionary[Engine, Sleepers] = WeakKeyDictionary()
_guard = threading.Lock()


def sleepers_of(engine: Engine) -> Sleepers:
    """Return the sleepers of this process for *engine*."""
    with _guard:
        if engine not in _shared:
            _shared[engine] = Sleepers(engine)
        return _shared[engine]
