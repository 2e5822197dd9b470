"""Stopping a process for a while."""

import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from sqlalchemy import make_url


@contextmanager
def standing_still(send_signal: Callable[[signal.Signals], None], url: str) -> Iterator[None]:
    """Stop a process for the time of the block, at a moment in which it does not hold SQLite's one write lock.

    What holds that lock keeps everybody out for as long as it stands still, its successor included; no database server
    is there to end its transaction.
    """
    send_signal(signal.SIGSTOP)
    while not _can_be_written(url):
        send_signal(signal.SIGCONT)
        send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        send_signal(signal.SIGCONT)


def _can_be_written(url: str) -> bool:
    database = make_url(url)
    if database.get_backend_name() == "postgresql":
        return True
    with closing(sqlite3.connect(str(database.database), timeout=0.5, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        return True
