"""A reader of the live feed that waits for the next tick in its thread."""

import threading
from collections.abc import Callable

from lr_server.feed.feed import Behind, LiveFeed, Ready
from queues.send_log.port import SessionKey


def after(
    feed: LiveFeed,
    owed: SessionKey,
    seq: int,
    timeout: float,
    wanted: Callable[[], bool] = lambda: True,
    *,
    rests: bool = False,
) -> Ready | Behind:
    """Return `feed.after`; wait up to *timeout* seconds if there is no tick yet."""
    bell = threading.Event()
    found = feed.after(owed, seq, wanted, ring=bell.set, rests=rests)
    if isinstance(found, Ready) and not found.ticks and wanted():
        bell.wait(timeout)
        found = feed.after(owed, seq, wanted)
    return found
