"""The requests of producers beside the ticks that hold them. The functions need the caller's transaction."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from sqlalchemy import Connection, Select, bindparam, delete, select, text

from queues.database import dialects
from queues.database.tables.ring import ring_productions
from queues.database.tables.site import site
from queues.database.tables.ticks import ticks
from queues.names import ClientName
from queues.positions import Position, PositionToken, Tick
from queues.send_log.history import branch_at
from queues.send_log.producers import Last, ProducerKey
from queues.send_log.reads import trimmed_seq
from queues.send_log.ring.tick_productions import ProducerStanding, TickProduction, token_of

#: The requests of so many newest ticks stay, because a later leader may replace ticks. Half as many ticks may wait for
#: a follower.
KEPT_TICKS: Final = 128
#: Older requests of a producer go at each tick whose number is a multiple of this one.
PRUNED_EACH: Final = 64
#: The most requests of one read, apart from those of the first tick.
MOST_PRODUCTIONS: Final = 20_000
#: The most producers of one statement; SQLite takes at least 999 values.
_AT_ONCE: Final = 400

_INSERTED: Final = ("entry", "client", "producer", "sequence", "process", "first_sequence", "branch")
_COLUMNS: Final = "p.client, p.producer, p.sequence, p.process, p.first_sequence, p.branch, p.entry"
_NEWEST: Final = (
    f"WITH asked (client, producer) AS (VALUES {{places}}) SELECT {_COLUMNS}"  # noqa: S608 - constants
    " FROM asked JOIN lrq_ring_productions p ON p.entry = (SELECT max(entry) FROM lrq_ring_productions n"
    " WHERE n.client = asked.client AND n.producer = asked.producer)"
)
# Each producer's newest request among the entries :low + 1 to :high replaces all older ones of that producer.
_PRUNE: Final = text(
    "DELETE FROM lrq_ring_productions WHERE entry IN (SELECT o.entry FROM"
    " (SELECT client, producer, max(entry) AS entry FROM lrq_ring_productions"
    "  WHERE entry > :low AND entry <= :high GROUP BY client, producer) n"
    " JOIN lrq_ring_productions o ON o.client = n.client AND o.producer = n.producer AND o.entry < n.entry)"
)


def standings(connection: Connection, keys: Iterable[ProducerKey]) -> dict[ProducerKey, ProducerStanding]:
    """Return the standing of each of the producers that has a request in the log, with few statements."""
    found: dict[ProducerKey, ProducerStanding] = {}
    ordered = sorted(keys)
    site_id = connection.execute(select(site.c.site_id)).scalar_one()
    for start in range(0, len(ordered), _AT_ONCE):
        some = ordered[start : start + _AT_ONCE]
        places = ", ".join(["(?, ?)"] * len(some))
        rows = connection.exec_driver_sql(_NEWEST.format(places=places), tuple(chain.from_iterable(some)))
        for client, producer, sequence, process, first, branch, entry in rows:
            key = ProducerKey(ClientName(client), producer)
            position = Position(branch, entry)
            found[key] = ProducerStanding(Last(sequence, token_of(site_id, client, position), process, first), position)
    return found


def place_of(connection: Connection, token: PositionToken) -> tuple[Position, tuple[int, int]] | None:
    """Return the place of a request's last entry with the generation and the number of its tick.

    The answer is None if no tick of this log has the entry: a later leader has replaced the tick. For a trimmed entry
    the last trimmed tick stands, because the row of its own tick may be gone.
    """
    entry = token.transaction
    trimmed = trimmed_seq(connection)
    if entry <= trimmed and branch_at(connection, entry) == token.branch:
        last = connection.execute(_ending_at(trimmed)).one()
        return Position(token.branch, entry), (last.generation, last.number)
    row = connection.execute(_ending_at(entry)).first()
    if row is None or row.branch != token.branch:
        return None
    return Position(row.branch, entry), (row.generation, row.number)


def _ending_at(entry: int) -> Select[tuple[str, int, int]]:
    """Return a query for the first tick that ends at or after an entry."""
    holding = select(ticks.c.branch, ticks.c.generation, ticks.c.number).where(ticks.c.end_seq >= entry)
    return holding.order_by(ticks.c.end_seq, ticks.c.number).limit(1)


def insert_productions(connection: Connection, tick: Tick, productions: Sequence[TickProduction]) -> None:
    """Store the requests of a tick that was stored before, and let requests go that nothing asks for any more."""
    if productions:
        values = [
            (tick.start_seq + each.last_row, *each.key, each.sequence, each.process, each.first, tick.branch)
            for each in productions
        ]
        dialects.of(connection).bulk_insert(connection, ring_productions, _INSERTED, values)
    if tick.number % PRUNED_EACH == 0:
        low, high = _settled(connection, tick.number - PRUNED_EACH), _settled(connection, tick.number)
        if low < high:
            connection.execute(_PRUNE, {"low": low, "high": high})


def remove_productions(connection: Connection, after: int) -> None:
    """Remove the requests of the entries after number *after*."""
    connection.execute(delete(ring_productions).where(ring_productions.c.entry > after))


def read_productions(connection: Connection, found: Sequence[Tick]) -> list[list[TickProduction]]:
    """Return the requests of each of *found*, which follow one another: of fewer ticks if they are too many."""
    chosen = (
        select(ring_productions)
        .where(ring_productions.c.entry > bindparam("low"), ring_productions.c.entry <= bindparam("high"))
        .order_by(ring_productions.c.entry)
        .limit(MOST_PRODUCTIONS + 1)
    )
    first, ends = found[0], [tick.end_seq for tick in found]
    given = connection.execute(chosen, {"low": first.start_seq, "high": ends[-1]}).all()
    if len(given) > MOST_PRODUCTIONS:
        # The last tick may be cut off, unless it is the first one.
        whole = max(bisect_left(ends, given[-1].entry), 1)
        found, ends = found[:whole], ends[:whole]
        given = connection.execute(chosen.limit(None), {"low": first.start_seq, "high": ends[-1]}).all()
    groups: list[list[TickProduction]] = [[] for _ in found]
    for row in given:
        place = bisect_left(ends, row.entry)
        key = ProducerKey(ClientName(row.client), row.producer)
        last_row = row.entry - found[place].start_seq
        groups[place].append(TickProduction(key, row.sequence, row.process, row.first_sequence, last_row))
    return groups


def _settled(connection: Connection, upto: int) -> int:
    """Return the last entry that no later leader replaces, as the ticks up to number *upto* prove.

    A leader with 64 waiting ticks takes no entries. So a tick with entries proves that each tick 64 before it is
    released; `KEPT_TICKS` are more.
    """
    with_entries = select(ticks.c.number).where(ticks.c.number <= upto, ticks.c.end_seq > ticks.c.start_seq)
    newest = connection.execute(with_entries.order_by(ticks.c.number.desc()).limit(1)).scalar() or 0
    return connection.execute(select(ticks.c.end_seq).where(ticks.c.number == newest - KEPT_TICKS)).scalar() or 0
