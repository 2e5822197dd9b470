"""The end of a server that waits for locks of others: it is told, and has a limit."""

import threading
from types import TracebackType
from typing import Final, Self

from discovery.threads import watched
from lr_server.connections import ServerEngines
from lr_server.present_trouble import PresentTrouble
from queues.clock import Clock
from queues.database import dialects
from queues.database.transactions import mapped_errors
from queues.errors import LrqError, UsageError
from queues.logs import logger
from queues.thread_lack import reason_of

#: The seconds of a stop after which its waits for locks are told, and those after which they are ended.
TOLD_AFTER: Final = 2.0
ENDED_AFTER: Final = 10.0
_PAUSE: Final = 1.0

log = logger("lrq.server")


class StopWatch:
    """Watches the block of a stop in a thread of its own, since all others may wait for locks."""

    def __init__(self, engines: ServerEngines, clock: Clock) -> None:
        self._engines = engines
        self._clock = clock
        self._is_over = threading.Event()
        self._trouble = PresentTrouble(log, "the stop takes long, and the database does not tell why")
        self._told: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        """Begin to watch."""
        try:
            watched("lrq-stop", self._run, lambda _error: None).start()
        except (RuntimeError, UsageError) as error:
            lack = reason_of(error)
            if not lack:
                raise
            log.warning("the stop is not watched", reason=lack)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the watch, without a wait for its last look."""
        self._is_over.set()

    def _run(self) -> None:
        began = self._clock.monotonic()
        pause = TOLD_AFTER
        while not self._clock.wait(self._is_over, pause):
            pause = _PAUSE
            try:
                self._look(may_end=self._clock.monotonic() - began >= ENDED_AFTER)
            except LrqError as error:
                self._trouble.note(error)

    def _look(self, *, may_end: bool) -> None:
        numbers = self._engines.opened.numbers()
        if not numbers:
            return
        # The pools may have no connection left.
        apart = self._engines.apart
        dialect = dialects.of(apart)
        with mapped_errors(apart), apart.begin() as connection:
            waits = dialect.lock_waits(connection, numbers)
            if may_end and waits and not self._is_over.is_set():
                dialect.end_waits(connection, waits)
        locks = sorted({(wait.table or "rows", wait.holders) for wait in waits})
        for table, holders in locks:
            if may_end:
                log.warning("the stop has ended statements that waited for a lock", table=table, holders=holders)
            elif (table, holders) not in self._told:
                self._told.add((table, holders))
                log.warning(
                    "the stop waits for a lock: end the transaction of its holders", table=table, holders=holders
                )
