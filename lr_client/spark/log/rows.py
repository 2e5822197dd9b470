"""Read the entries of a source's send log, for all destinations, in the order of the log."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from sqlalchemy import Engine

from queues.errors import NeedsFullSyncError
from queues.send_log.opening import open_log
from queues.send_log.port import LoggedEntry, TickLimits

#: The size limits of one page; a larger entry comes alone.
PAGE: Final = TickLimits(rows=2_000, payload_bytes=4 * 1024 * 1024)


class LogEntry(NamedTuple):
    """One entry; `sequence` is unique among the entries of all clients and destinations.

    `commit_time` is in microseconds since 1970.
    """

    payload: bytes
    item_key: str | None
    partition_key: str | None
    client: str
    destinations: tuple[str, ...]
    tick: int
    sequence: int
    transaction: int
    commit_time: int
    branch: str


def log_pages(engine: Engine, after: int, upto: int) -> Iterator[list[LogEntry]]:
    """Read, in pages, the entries of the ticks whose end is above *after* and at most *upto*.

    Each page is a separate read, so a slow reader blocks no writer. Raises `TrimmedError` when entries are trimmed, and
    `NeedsFullSyncError` when the log has no tick any more that ends at *upto*.
    """
    log = open_log(engine)
    while after < upto:
        ticks = [tick for tick in log.ticks_after(after, PAGE) if tick.end_seq <= upto]
        if not ticks:
            raise NeedsFullSyncError(
                f"the log ends at {after} and not at {upto} any more: the database was restored from an earlier time "
                "during the reading. Read the log again"
            )
        for page in log.read_all(ticks, PAGE):
            yield [_entry(found) for found in page]
        after = ticks[-1].end_seq


def _entry(found: LoggedEntry) -> LogEntry:
    row, tick = found.row, found.tick
    return LogEntry(
        payload=row.payload,
        item_key=row.item_key,
        partition_key=row.partition_key,
        client=row.client,
        destinations=found.destinations,
        tick=tick.number,
        sequence=found.seq,
        transaction=row.transaction,
        commit_time=row.committed_us,
        branch=tick.branch,
    )
