"""Browse any queue of a site: its outstanding entries, page by page, at bounded cost. Read-only."""

from collections.abc import Iterator
from typing import Final

from sqlalchemy import Connection, Engine

from queues import names
from queues.browse import receive as browse_received
from queues.browse import send_log as browse_log
from queues.browse import send_snapshot as browse_snapshots
from queues.browse.entries import Entry, Page, QueueSummary, Wanted
from queues.database.transactions import reading
from queues.errors import UsageError
from queues.positions import is_number

__all__ = ["Entry", "Page", "QueueSummary", "Wanted", "browse", "payload_at", "summaries"]

#: The size limit of `payload_at`, above that of any transmitted payload.
_WHOLE: Final = 2**30


def browse(engine: Engine, queue: str, wanted: Wanted | None = None) -> Page:
    """Return the outstanding entries of *queue* that match *wanted*, oldest first.

    *queue* is one of the send queues or the name of a receive queue. Raises `UsageError` if the queue does not exist,
    or lacks the position or the filter in *wanted*.
    """
    with reading(engine, snapshot=True) as connection:
        return _read(connection, queue, wanted or Wanted())


def payload_at(engine: Engine, queue: str, position: str) -> bytes:
    """Return the whole payload of the entry at *position*; raises `UsageError` if the queue has no such entry."""
    with reading(engine, snapshot=True) as connection:
        before = _before(queue, position)
        wanted = Wanted(after=before, limit=1, everything=True, preview_bytes=_WHOLE, page_bytes=_WHOLE)
        entries = _read(connection, queue, wanted).entries
    if not entries or entries[0].position != position:
        raise UsageError(f"{queue} has no entry at {position}: `lrq browse {queue}` shows those that there are")
    return entries[0].payload


def summaries(engine: Engine) -> list[QueueSummary]:
    """Return every queue of the site with its number of outstanding entries; the send queues come first."""
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
    """Return the position directly before *position*."""
    head, separator, last = position.rpartition("." if queue == names.SEND_LOG_ENTRIES else ":")
    if not is_number(last) or last == "0":
        raise UsageError(f"{position!r} is not a position in {queue}: use one that `lrq browse` shows")
    return f"{head}{separator}{int(last) - 1}"
