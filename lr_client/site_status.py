"""The status of a site for its applications: read once, or watched."""

import threading
from collections.abc import Iterator

from sqlalchemy import Engine

from discovery.site_status import SiteStatus
from discovery.status import read_status
from discovery.status_changes import StatusChange, change_between
from lr_client.arguments import checked_timeout
from queues.clock import SYSTEM_CLOCK, Clock
from queues.database.engine_check import require_engine
from queues.errors import UsageError


def status(engine: Engine) -> SiteStatus:
    """Return the status of this site at one moment: its sessions, links, receive queues, snapshots and log.

    The application needs no server for it, and reads its own database only. See `SiteStatus` for the parts;
    `as_json()` gives the JSON of `lrq status --json` without `troubles`. Raises `NotInitializedError` without lrq's
    tables, and `StoreUnavailableError` if the database cannot be used.

    Example:
        >>> behind = [each for each in status(engine).sessions if each.applied_lag.seconds > 60]
    """
    require_engine(engine, "status")
    return read_status(engine)


def watch_status(
    engine: Engine,
    timeout: float,
    *,
    interval: float = 1.0,
    stopping: threading.Event | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Iterator[StatusChange]:
    """Yield the status of this site now, and again after each change, for at most *timeout* seconds.

    The site is read every *interval* seconds, and again right before the end. Between two readings nothing is held: no
    connection, no lock. Changes between two readings come as one. The iteration also ends once *stopping* is set.
    Raises `UsageError` for an interval that is not above zero, and the errors of `status`.

    Example:
        >>> for change in watch_status(engine, timeout=3600):
        ...     for queue in change.receive_queues:
        ...         print(queue.name, queue.applied_seq, queue.failure)
    """
    require_engine(engine, "watch_status")
    if not interval > 0:
        raise UsageError(f"interval is {interval!r}: use a number of seconds above zero")
    deadline = clock.monotonic() + checked_timeout(timeout)
    return _watched(engine, deadline, interval, stopping or threading.Event(), clock)


def _watched(
    engine: Engine, deadline: float, interval: float, stopping: threading.Event, clock: Clock
) -> Iterator[StatusChange]:
    before = None
    while not stopping.is_set():
        left = deadline - clock.monotonic()
        found = read_status(engine)
        change = change_between(before, found)
        if before is None or not change.is_empty:
            yield change
        if left <= 0:
            return
        before = found
        clock.wait(stopping, min(interval, left))
