"""Watch one site for all tabs of the console: one thread reads its status, again and again."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from sqlalchemy import Engine

from discovery.status import read_status
from discovery.status_types import SiteStatus
from lrq.cli.rates import Look, Rates, rates
from lrq.console.reading import PageThreads, reader
from lrq.console.samples import SitePast
from queues.clock import SYSTEM_CLOCK, Clock, now_us
from queues.words import in_words

#: Seconds between two readings while a page is open, and otherwise.
WATCHED: Final = 2.0
UNWATCHED: Final = 10.0
#: A page counts as looked at for this time after its last request, in seconds.
_ATTENTION: Final = 30.0
_GOODBYE: Final = 2.0
#: Readings take at most this share of the time, unless they take longer than `_LONGEST_PAUSE` allows.
SHARE: Final = 0.05
_LONGEST_PAUSE: Final = 20.0
#: A site whose reading takes longer than this, in seconds, does not answer.
SLOW: Final = 8.0


def pause_after(took: float, *, is_watched: bool) -> float:
    """Return the seconds between a reading that *took* so long and the next one; a slow site is read less. Pure."""
    return max(WATCHED if is_watched else UNWATCHED, min(took / SHARE, _LONGEST_PAUSE))


@dataclass(frozen=True, slots=True)
class WatchedSite:
    """The last status of a site with its rates; `trouble` is the reason if the last reading failed.

    `key` names the site in links of the console. `read_us` is the time of the last answer, 0 before the first.
    """

    key: str
    status: SiteStatus | None = None
    rates: Rates = field(default_factory=Rates)
    trouble: str = ""
    read_us: int = 0

    @property
    def name(self) -> str:
        """The id of the site; its key until the first answer."""
        return self.key if self.status is None else self.status.site


class SiteWatch:
    """The engine of one site, its last view, its past, and the threads that read it."""

    def __init__(
        self,
        key: str,
        engine: Engine,
        *,
        messages: bool = False,
        on_change: Callable[[], None] = lambda: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Prepare; *on_change* is called after each reading, in the thread of the watch.

        Without *messages*, the views have none of a listener's errors, because these may hold payloads.
        """
        self._messages = messages
        self.key = key
        self.engine = engine
        self.reading = reader(engine)
        self.pages = PageThreads(key)
        self.past = SitePast()
        self._on_change = on_change
        self._clock = clock
        self._view = WatchedSite(key)
        self._last: Look | None = None
        self._began: float | None = None
        self._attention = 0.0
        self._stopping = threading.Event()
        self._is_asked = False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the thread unless it runs; a site is first read at once."""
        with self._lock:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run, name=f"console-watch-{self.key}", daemon=True)
                self._thread.start()

    def look(self) -> WatchedSite:
        """Return the last view, and read more often for a while; an overdue reading shows as a trouble."""
        self.attend()
        began, view = self._began, self._view
        if began is not None and (waited := self._clock.monotonic() - began) > SLOW:
            return replace(view, trouble=f"the database has not answered for {waited:.0f} s")
        return view

    def attend(self) -> None:
        """Note that a page is looked at."""
        was = self._clock.monotonic() - self._attention < _ATTENTION
        self._attention = self._clock.monotonic()
        if not was:
            self._wake.set()

    def refresh(self) -> None:
        """Read the site soon, after an action."""
        self._is_asked = True
        self._wake.set()

    def ask_to_stop(self) -> None:
        """Begin no further reading."""
        self._stopping.set()
        self._wake.set()
        self.pages.close()

    def stop(self) -> None:
        """End the thread after its present reading; a site that does not answer is not waited for."""
        self.ask_to_stop()
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_GOODBYE)

    def read(self) -> None:
        """Read the site once and keep the view; the thread calls this."""
        self._began = self._clock.monotonic()
        try:
            found = read_status(self.reading)
            status = found if self._messages else found.without_messages()
        except Exception as error:  # noqa: BLE001 - of a driver, say; the watch goes on, and the page shows the error
            self._view = replace(self._view, trouble=in_words(error))
            self._last = None
        else:
            look = Look(status, self._clock.monotonic())
            fresh = rates(self._last, look) if self._last is not None else Rates()
            self.past.note(status)
            self._view = WatchedSite(self.key, status, fresh, "", now_us())
            self._last = look
        finally:
            self._began = None

    def _run(self) -> None:
        while not self._stopping.is_set():
            began, self._is_asked = self._clock.monotonic(), False
            self.read()
            ended = self._clock.monotonic()
            self._on_change()
            self._rest(ended, ended - began)

    def _rest(self, ended: float, took: float) -> None:
        """Wait until the next reading is due; a new page shortens the wait, but not that after a slow reading."""
        while not (self._stopping.is_set() or self._is_asked):
            is_watched = self._clock.monotonic() - self._attention < _ATTENTION
            left = ended + pause_after(took, is_watched=is_watched) - self._clock.monotonic()
            if left <= 0:
                return
            self._clock.wait(self._wake, left)
            self._wake.clear()
