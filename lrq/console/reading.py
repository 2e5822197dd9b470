"""Read a site's database for the console: read-only, with time limits, at most a few threads for each site."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from sqlalchemy import Connection, Engine, event

from queues.database import dialects
from queues.errors import StoreUnavailableError

Result = TypeVar("Result")

#: The longest statement of the console on PostgreSQL, in seconds; a wait for a lock ends sooner.
STATEMENT_SECONDS: Final = 5
_LOCK_SECONDS: Final = 1
#: A page waits this long for a site, in seconds.
PAGE_SECONDS: Final = 8.0
#: The threads that read one site for pages.
_THREADS: Final = 3


#: The advice after a page that was given up.
_AGAIN: Final = "look at its database, then try again"


class LateError(StoreUnavailableError):
    """A call that was given up; its thread may go on."""


def reader(engine: Engine) -> Engine:
    """Return an engine with the pool of *engine*, whose transactions are read-only and limited in time.

    SQLite needs neither: its readers never keep a writer waiting, and each page reads a bounded number of rows.
    """
    made = engine.execution_options()
    limits = dialects.of(engine).reading_limits(STATEMENT_SECONDS, _LOCK_SECONDS)

    def limit(connection: Connection) -> None:
        for statement in limits:
            connection.execute(statement)

    event.listen(made, "begin", limit)
    return made


class PageThreads:
    """Runs the calls of pages to one site, so that a site without an answer blocks no other site."""

    def __init__(self, name: str, *, seconds: float = PAGE_SECONDS) -> None:
        """Prepare for the site *name*; a call is given up after *seconds*."""
        self._name = name
        self._seconds = seconds
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"console-{name}")

    async def call(self, function: Callable[[], Result], *, late: str = _AGAIN) -> Result:
        """Return the result of *function*; raise `LateError`, with the advice *late*, if it does not come in time."""
        running = asyncio.get_running_loop().run_in_executor(self._pool, function)
        try:
            return await asyncio.wait_for(running, self._seconds)
        except TimeoutError as error:
            raise LateError(f"{self._name} gave no answer within {self._seconds:g} s: {late}") from error

    def close(self) -> None:
        """Start no further call."""
        self._pool.shutdown(wait=False, cancel_futures=True)
