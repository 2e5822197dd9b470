"""Looking into any queue of a site: what is outstanding, page by page, however long the queue is. Changes nothing."""

from collections.abc import Iterator
from typing import Final

from sqlalchemy import Connection, Engine

from queues import names
from queues.browse import log as browse_log
from queues.browse import received as browse_received
from queues.browse import snapshots as browse_snapshots
from queues.browse.entries import Entry, Page, QueueSummary, Wanted
from queues.errors import UsageError
from queues.transactions import reading

__all__ = ["Entry", "Page", "QueueSummary", "Wanted", "browse", "payload_at", "summaries"]

#: Largest payload that `payload_at` returns: more than any that can be transmitted.
_WHOLE: Final = 2**30


def browse(engine: Engine, queue: str, wanted: Wanted | None = None) -> Page:
    """Return the outstanding entries of *queue* that *wanted* asks for, oldest first.

    *queue* is one of the send queues or the name of a receive queue. Raises `UsageError` when there is no such queue,
    or when *wanted* asks for a position or a filter that this kind of queue does not have.
    """
    with reading(engine, snapshot=True) as connection:
        return _read(connection, queue, wanted or Wanted())


def payload_at(engine: Engine, queue: str, position: str) -> bytes:
    """Return the whole payload of the entry at *position*; raises `UsageError` when there is none (any more)."""
    with reading(engine, snapshot=True) as connection:
        before = _before(queue, position)
        wanted = Wanted(after=before, limit=1, everything=True, preview_bytes=_WHOLE, page_bytes=_WHOLE)
        entries = _read(connection, queue, wanted).entries
    if not entries or entries[0].position != position:
        raise UsageError(f"{queue} has no entry at {position}: `lrq browse {queue}` shows those that there are")
    return entries[0].payload


def summaries(engine: Engine) -> list[QueueSummary]:
    """Return every queue of the site with how much is outstanding in it; the send queues first."""
    with reading(engine, snapshot=True) as connection:
        return list(_summaries(connection))


def _summaries(connection: Connection) -> Iterator[QueueSummary]:
    yield browse_log.summary(connection)
    yield browse_snapshots.summary(connection)
    yield from browse_received.summaries(connection)


def _read(connection: Connection, queue: str, wanted: Wanted) -> Page:
    if queue == names.SEND_LOG_ENTRIES:
        return browse_log.read(connection, wanted)
    if queue == names.SEND_SNAP_SYNC:
        return browse_snapshots.read(connection, wanted)
    return browse_received.read(connection, queue, wanted)


def _before(queue: str, position: str) -> str:
    """Return the position after which the one at *position* comes first."""
    head, separator, last = position.rpartition("." if queue == names.SEND_LOG_ENTRIES else ":")
    if not last.isdecimal() or last == "0":
        raise UsageError(f"{position!r} is not a position in {queue}: use one that `lrq browse` shows")
    return f"{head}{separator}{int(last) - 1}"
