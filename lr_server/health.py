"""The health of one server: a thread looks at the database, and another one tells. So no probe waits."""

import math
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from sqlalchemy import Engine

from discovery.threads import OnEnded, watched
from lr_server.readiness import ANSWER_SECONDS, DatabaseLook, stuck_loops, unready_parts
from queues.clock import Clock
from queues.database.followers import standby_facts
from queues.database.migrations import require
from queues.database.site_look import is_well
from queues.database.transactions import reading
from queues.errors import LrqError, NotInitializedError
from queues.logs import logger
from queues.names import SiteId
from queues.words import in_words

#: The time between two looks at the database, in seconds.
PAUSE: Final = 2.0

log = logger("lrq.health")


class Health:
    """Tells whether a server is ready and alive, from `start` to `stop`; see `lr_server.readiness`.

    The methods wait for nothing, so any number of probes may call them.
    """

    def __init__(
        self,
        engine: Engine,
        site: SiteId,
        *,
        role: Callable[[], str],
        parts: Callable[[], Mapping[str, str]],
        turns: Callable[[], Mapping[str, float]],
        on_ready: Callable[[bool], None],
        on_ended: OnEnded,
        clock: Clock,
    ) -> None:
        """Look at the database of *site*; *on_ready* gets the result after each look, and while one does not end."""
        self._engine = engine
        self._site = site
        self._role = role
        self._parts = parts
        self._turns = turns
        self._on_ready = on_ready
        self._clock = clock
        self._look = DatabaseLook()
        self._is_ready = False
        self._stopping = threading.Event()
        # Nothing is told after `begin_stop`.
        self._telling = threading.Lock()
        self._looking = watched("lrq-health", self._look_again, on_ended)
        self._teller = watched("lrq-health-words", self._tell_again, on_ended)

    def start(self) -> None:
        """Start the threads."""
        self._looking.start()
        self._teller.start()

    def begin_stop(self) -> None:
        """Tell from now on that the server stops, and look no more; does not wait."""
        self._stopping.set()
        with self._telling:
            self._on_ready(False)

    def stop(self) -> None:
        """Wait until the threads have ended; call `begin_stop` first."""
        for thread in (self._looking, self._teller):
            thread.join()

    @property
    def is_silent(self) -> bool:
        """Whether the database has answered before, but not for `ANSWER_SECONDS`."""
        return math.isfinite(self._look.began) and self._clock.monotonic() - self._look.began > ANSWER_SECONDS

    def troubles(self) -> Mapping[str, str]:
        """Return one sentence for each reason why the server is not ready."""
        now, is_stopping = self._clock.monotonic(), self._stopping.is_set()
        return unready_parts(self._look, now, self._role(), self._parts(), stopping=is_stopping)

    def stuck(self) -> Mapping[str, str]:
        """Return one sentence for each loop that does not turn any more."""
        return stuck_loops(self._look, self._clock.monotonic(), self._turns())

    def _tell_again(self) -> None:
        # A look that the database does not answer ends late or never.
        while not self._clock.wait(self._stopping, PAUSE):
            self._tell()

    def _look_again(self) -> None:
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            self._look = self._look.next(began, self._trouble())
            self._tell()
            self._clock.wait(self._stopping, PAUSE)

    def _trouble(self) -> str:
        try:
            # Almost always one statement suffices; if not, the others find the words.
            with suppress(NotInitializedError), reading(self._engine) as connection:
                if is_well(connection, self._site):
                    return ""
            with reading(self._engine) as connection:
                require(connection, site_id=self._site)
                facts = standby_facts(connection)
        except LrqError as error:
            return in_words(error)
        except Exception as error:
            log.exception("the database cannot be looked at")
            return in_words(error)
        return "" if facts is None else facts.why_commits_wait

    def _tell(self) -> None:
        with self._telling:
            found = self.troubles()
            if self._stopping.is_set():
                return
            if self._is_ready and found:
                log.warning("the server is not ready", troubles=dict(found))
            elif not self._is_ready and not found:
                log.info("the server is ready")
            self._is_ready = not found
            self._on_ready(self._is_ready)
