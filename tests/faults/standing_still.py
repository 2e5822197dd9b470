"""Stopping a process for a while."""

import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from sqlalchemy import make_url

from queues.clock import SYSTEM_CLOCK


@contextmanager
def standing_still(pid: int, url: str) -> Iterator[None]:
    """Stop a child process for the time of the block, at a moment in which it does not hold SQLite's one write lock.

    What holds that lock keeps everybody out for as long as it stands still, its successor included; no database server
    is there to end its transaction.
    """
    _stop(pid)
    while not _can_be_written(url):
        os.kill(pid, signal.SIGCONT)
        # A stop that follows at once would not let it do anything.
        SYSTEM_CLOCK.wait(threading.Event(), 0.02)
        _stop(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _stop(pid: int) -> None:
    """Return when it stands still: a signal that is sent is not yet one that has arrived."""
    os.kill(pid, signal.SIGSTOP)
    found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert found is not None
    assert found.si_code == os.CLD_STOPPED, f"process {pid} has ended"


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
