"""Watch one site for all tabs of the console: one thread reads its status, again and again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlalchemy import Engine

from discovery.site_status import SiteStatus
from discovery.status import read_status
from lrq.cli.views.rates import Look, Rates, rates
from lrq.console.reading import PageThreads, reader
from lrq.console.repeated import Repeated
from lrq.console.samples import SitePast
from queues.clock import SYSTEM_CLOCK, Clock, now_us
from queues.words import in_words

#: A site whose reading takes longer than this, in seconds, does not answer.
SLOW: Final = 8.0


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
        #: The other sites of the console.
        self.beside: Sequence[SiteWatch] = ()
        self._clock = clock
        self._view = WatchedSite(key)
        self._last: Look | None = None
        self._repeated = Repeated(f"console-watch-{key}", self._read, on_change, clock)

    def start(self) -> None:
        """Start the thread unless it runs; a site is first read at once."""
        self._repeated.start()

    @property
    def name(self) -> str:
        """The id of the site; its key until the first answer."""
        return self._view.name

    @property
    def address(self) -> str:
        """The name of the site in links: its id once known, unless another watched site has that name."""
        return self.key if any(self.name in (each.key, each.name) for each in self.beside) else self.name

    def look(self) -> WatchedSite:
        """Return the last view, and read more often for a while; an overdue reading shows as a trouble."""
        self.attend()
        view = replace(self._view, key=self.address)
        if (waited := self._repeated.overdue()) > SLOW:
            return replace(view, trouble=f"the database has not answered for {waited:.0f} s")
        return view

    def attend(self) -> None:
        """Note that a page is looked at."""
        self._repeated.attend()

    def refresh(self) -> None:
        """Read the site soon, after an action."""
        self._repeated.refresh()

    def ask_to_stop(self) -> None:
        """Begin no further reading."""
        self._repeated.ask_to_stop()
        self.pages.close()

    def stop(self) -> None:
        """End the thread after its present reading; a site that does not answer is not waited for."""
        self.ask_to_stop()
        self._repeated.stop()

    def read(self) -> None:
        """Read the site once and keep the view."""
        self._repeated.read()

    def _read(self) -> None:
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
