"""Browse the send log: the entries that at least one destination lacks."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from queues import names
from queues.browse.coverage import NOTHING, TickSearch, acknowledged
from queues.browse.entries import LOG_ENTRY, Entry, Page, QueueSummary, TickSpan, Wanted, fitting
from queues.browse.port import Cursor, LogBrowsing, StoredEntry
from queues.browse.postgresql import PostgresqlBrowsing
from queues.browse.set_listing import sets_in_use
from queues.browse.sqlite import SqliteBrowsing
from queues.counts import COUNTED, Count
from queues.database import dialects
from queues.database.dialect import Dialect
from queues.database.schema import require
from queues.destinations import members
from queues.names import SiteId
from queues.positions import Tick, Visibility
from queues.send_log.destination_sets import StoredSet, recorded
from queues.send_log.reads import newest_tick

#: Above this number of sets, the queue is read in its order instead of set by set.
MAX_SETS: Final = 1_024
#: The most entries that one page reads to find matching ones.
MAX_SCANNED: Final = 50_000

_CHUNK: Final = 500
#: Up to this number, entries are read one by one for an exact count.
_COUNTED_ONE_BY_ONE: Final = 500


def browsing(connection: Connection) -> LogBrowsing:
    """Return the reads for the connection's database."""
    return _BROWSING[dialects.of(connection)]


_BROWSING: Final[Mapping[Dialect, LogBrowsing]] = {
    dialects.SQLITE: SqliteBrowsing(),
    dialects.POSTGRESQL: PostgresqlBrowsing(),
}


def waiting(connection: Connection, newest: Tick | None, limit: int = COUNTED) -> int:
    """Count the committed entries after the *newest* tick, up to *limit*; without a server, the number only grows."""
    source = browsing(connection)
    return source.uncovered(
        connection, Visibility.parse(newest.mark) if newest else None, source.committed(connection), limit
    )


def read(connection: Connection, wanted: Wanted) -> Page:
    """See `queues.browse.api.browse`."""
    found, after = _Search(connection, wanted).run(wanted.limit + 1)
    taken = fitting([lacked.entry.size for lacked in found], wanted)
    if taken < len(found):
        after = found[taken - 1].entry.cursor
    return Page(_shown(connection, found[:taken], wanted.preview_bytes), None if after is None else str(after))


def count_lacked(connection: Connection, wanted: Wanted) -> tuple[Count, int]:
    """Count the matching entries, and return the time of the first one; 0 without one."""
    search = _Search(connection, wanted)
    found, _ = search.run(1)
    return (search.count(), found[0].entry.created_us) if found else (Count(0), 0)


def summary(connection: Connection) -> QueueSummary:
    """See `queues.browse.api.summaries`."""
    count, oldest_us = count_lacked(connection, Wanted())
    newest = newest_tick(connection)
    words = f"newest tick ends at {newest.end_seq:,}" if newest else "no tick yet"
    if unticked := waiting(connection, newest):
        words += f"; {unticked:,}{'+' * (unticked == COUNTED)} in no tick yet"
    return QueueSummary(names.SEND_LOG_ENTRIES, count, oldest_us, words)


class _Lacked(NamedTuple):
    """An entry, its commit sequence, all its destinations and those that lack the entry."""

    entry: StoredEntry
    order: int
    destinations: tuple[SiteId, ...]
    lacking: tuple[SiteId, ...]


class _Search:
    """One pass through the queue, in its order, for the entries that match *wanted*."""

    def __init__(self, connection: Connection, wanted: Wanted) -> None:
        self._connection = connection
        self._wanted = wanted
        self._source = browsing(connection)
        self._acknowledged = acknowledged(connection)
        in_use = sets_in_use(connection, self._source.tables, MAX_SETS)
        self._sets: dict[int, StoredSet] = {known.number: known for known in in_use or ()}
        self._floors: Mapping[int, int] | None = None
        if in_use is not None:
            about = {known: self._about(known) for known in in_use}
            self._floors = {known.number: self._floor(known, names) for known, names in about.items() if names}

    def run(self, limit: int) -> tuple[list[_Lacked], Cursor | None]:
        """Return up to *limit* entries and the place to continue from; None at the end of the queue."""
        found: list[_Lacked] = []
        after = Cursor.parse(self._wanted.after)
        scanned, chunk = 0, min(_CHUNK, limit)
        while scanned < MAX_SCANNED:
            rows = self._source.entries(self._connection, after, self._floors, chunk)
            for lacked in self._lacked(rows):
                found.append(lacked)
                if len(found) == limit:
                    return found, lacked.entry.cursor
            if len(rows) < chunk:
                return found, None
            scanned, after = scanned + chunk, rows[-1].cursor
        return found, after

    def count(self) -> Count:
        """Count the matching entries: exactly if they are few, otherwise an upper bound."""
        most = self._source.count(self._connection, self._floors, COUNTED + 1)
        if most > _COUNTED_ONE_BY_ONE:
            return Count(min(most, COUNTED), is_least=most > COUNTED)
        return Count(len(self.run(most + 1)[0]))

    def _about(self, known: StoredSet) -> tuple[SiteId, ...]:
        """Return the destinations of a set that match the filters; none if the client does not match."""
        if self._wanted.client not in (None, known.client):
            return ()
        return tuple(name for name in known.destinations if self._wanted.destination in (None, name))

    def _floor(self, known: StoredSet, about: Sequence[SiteId]) -> int:
        if self._wanted.everything:
            return 0
        return min(self._acknowledged.get((known.client, name), NOTHING).floor for name in about)

    def _lacked(self, rows: Sequence[StoredEntry]) -> list[_Lacked]:
        """Return the matching ones of *rows*, each with the destinations that lack the entry."""
        self._learn(rows)
        orders = self._source.orders(self._connection, {row.transaction for row in rows})
        found: list[_Lacked] = []
        for row in rows:
            known, order = self._sets[row.tag_set], orders.get(row.transaction, row.id)
            about = self._about(known)
            lacking = tuple(
                name
                for name in about
                if not self._acknowledged.get((row.client, name), NOTHING).has(row.transaction, order)
            )
            if lacking or (about and self._wanted.everything):
                found.append(_Lacked(row, order, known.destinations, lacking))
        return found

    def _learn(self, rows: Sequence[StoredEntry]) -> None:
        unknown = {row.tag_set: row for row in rows if row.tag_set not in self._sets}
        if unknown:
            self._sets |= recorded(self._connection, unknown)
        for number, row in unknown.items():
            inline = members(row.destinations) if row.destinations else ()
            self._sets.setdefault(number, StoredSet(number, row.client, inline))


def _shown(connection: Connection, found: Sequence[_Lacked], preview_bytes: int) -> list[Entry]:
    source, ticks = browsing(connection), TickSearch(connection)
    site = require(connection).site_id
    shown = []
    for entry, order, destinations, lacking in found:
        tick = ticks.holding(entry.transaction, order)
        shown.append(
            Entry(
                position=str(entry.cursor),
                kind=LOG_ENTRY,
                client=entry.client,
                source=site,
                tags=tuple(names.log_entry_tag(name) for name in destinations),
                outstanding=lacking,
                transaction=entry.transaction,
                tick=TickSpan(tick.number, tick.start_seq, tick.end_seq) if tick else None,
                seq=None,
                item_key=entry.item_key,
                partition_key=entry.partition_key,
                written_us=entry.created_us,
                size=entry.size,
                payload=source.payload(connection, entry, preview_bytes),
                headers=entry.headers,
            )
        )
    return shown
