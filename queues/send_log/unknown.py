"""Count the entries that were trimmed for destinations that were no peers, until an operator forgets the counts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, delete, func, insert, select, update

from queues.clock import now_us
from queues.database.tables.destinations import dropped_entries
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey

#: The most destinations with a count of their own; the entries of all further ones are counted as `OTHERS`.
MOST_COUNTED: Final = 1_000
#: No site has this name.
OTHERS: Final = SiteId("*")

_COLUMNS = dropped_entries.c.client, dropped_entries.c.destination, dropped_entries.c.entries
#: Selects the numbers, for sending with other statements.
READ_DROPPED: Final = select(*_COLUMNS).order_by(*_COLUMNS[:2])


def read_dropped(connection: Connection) -> dict[SessionKey, int]:
    """Return the number of dropped entries for each client and unknown destination."""
    return dropped_of(connection.execute(READ_DROPPED).all())


def dropped_of(rows: Iterable[Sequence[Any]]) -> dict[SessionKey, int]:
    """Return the numbers in the rows of `READ_DROPPED`. Pure."""
    return {SessionKey(ClientName(client), SiteId(destination)): entries for client, destination, entries in rows}


def record_dropped(connection: Connection, dropped: Mapping[SessionKey, int]) -> None:
    """Add the numbers of *dropped* entries."""
    for owed, entries in sorted(dropped.items()):
        if entries and not _add(connection, owed, entries):
            _begin(connection, owed, entries)


def forget_dropped(connection: Connection) -> int:
    """Forget all counts; return the sum of them."""
    total = sum(read_dropped(connection).values())
    connection.execute(delete(dropped_entries))
    return total


def _add(connection: Connection, owed: SessionKey, entries: int) -> bool:
    own = dropped_entries.c.client == owed.client, dropped_entries.c.destination == owed.destination
    values = {"entries": dropped_entries.c.entries + entries, "dropped_us": now_us()}
    return bool(connection.execute(update(dropped_entries).where(*own).values(values)).rowcount)


def _begin(connection: Connection, owed: SessionKey, entries: int) -> None:
    counted = connection.execute(select(func.count()).select_from(dropped_entries)).scalar_one()
    if counted >= MOST_COUNTED and owed.destination != OTHERS:
        record_dropped(connection, {SessionKey(owed.client, OTHERS): entries})
        return
    connection.execute(insert(dropped_entries).values(**owed._asdict(), entries=entries, dropped_us=now_us()))
