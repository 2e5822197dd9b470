"""Pause a process for a while."""

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
    """Pause a child process during the block, at a moment when it does not hold SQLite's write lock.

    A paused process with that lock would block every other writer, its successor included. SQLite has no server that
    could end its transaction.
    """
    stop_process(pid)
    while not _can_be_written(url):
        os.kill(pid, signal.SIGCONT)
        # On a busy machine the process needs some time to release the lock.
        SYSTEM_CLOCK.wait(threading.Event(), 0.02)
        _can_be_written(url)
        stop_process(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def stop_process(pid: int) -> None:
    """Send SIGSTOP and wait until the process has stopped: signals arrive late."""
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
