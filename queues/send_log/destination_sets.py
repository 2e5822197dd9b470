"""The dictionary of destination sets, kept by the server that takes ticks (docs/design.md, "Payload once").

A set is recorded in the transaction of its first tick, so the reader of a tick finds all sets. A set that occurs
again is `shared`: from then on rows carry only the set's number. Shared sets are never deleted, because a slow
transaction may still use the number. So their count is limited; sets beyond the limit stay inline in the rows.

A set keeps the destinations of entries as text. The members of a set are the sites that the entries are owed to. A
group of replicas stands for its sites (`queues.send_log.replica_sets`).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, update

from queues.database import dialects
from queues.database.left_out import require_stored
from queues.database.tables.destinations import tag_set_members, tag_sets
from queues.destinations import members
from queues.errors import DataLossError
from queues.names import SiteId
from queues.replica_groups import owed_sites
from queues.send_log.replica_members import read_groups
from queues.weighted_cache import WeightedCache

#: The largest number of shared sets.
MAX_SHARED = 4_096
#: A new set with at least so many rows in one tick is shared at once.
_MANY_ROWS = 8
#: The most names of sets in memory, where each set counts as some names more.
MAX_REMEMBERED_NAMES = 131_072
_NAMES_MORE = 8


@dataclass(frozen=True, slots=True)
class _Known:
    destinations: frozenset[SiteId]
    shared: bool


@dataclass(frozen=True, slots=True)
class Sighting:
    """One set in the rows of a tick: `text` is None if every row carries only the number."""

    number: int
    client: str
    text: str | None
    rows: int


class StoredSet(NamedTuple):
    """One client's set: the sites that its entries are owed to, as stored in the dictionary."""

    number: int
    client: str
    destinations: tuple[SiteId, ...]


class SetDictionary:
    """Records the sets of each tick. Not for several threads."""

    def __init__(self) -> None:
        self._known: WeightedCache[int, _Known] = WeightedCache(MAX_REMEMBERED_NAMES)
        self._shared_count: int | None = None

    def recall(self, sightings: Iterable[Sighting]) -> dict[int, frozenset[SiteId]] | None:
        """Return the result of `record` if all sets are in memory and shared; None if `record` needs the database."""
        found = {sighting.number: self._known.get(sighting.number) for sighting in sightings}
        if not all(known is not None and known.shared for known in found.values()):
            return None
        return {number: known.destinations for number, known in found.items() if known is not None}

    def record(self, connection: Connection, sightings: Iterable[Sighting], seq: int) -> dict[int, frozenset[SiteId]]:
        """Write missing sets in the caller's transaction; return the sites that the entries of every set are owed to.

        *seq* is the end of the tick with these sets. Raises `DataLossError` for a number without a set in the
        dictionary.
        """
        seen = {sighting.number: sighting for sighting in sightings}
        self._load(connection, [number for number in seen if number not in self._known])
        found: dict[int, frozenset[SiteId]] = {}
        for number, sighting in seen.items():
            known = self._known.get(number)
            if known is None:
                known = self._add(connection, sighting, seq)
            elif not known.shared:
                known = self._see_again(connection, sighting, known, seq)
            found[number] = known.destinations
        self._known.trim()
        return found

    def forget(self) -> None:
        """Clear the memory, after the transaction of `record` was rolled back, or after a change of the groups."""
        self._known.clear()
        self._shared_count = None

    def _load(self, connection: Connection, numbers: list[int]) -> None:
        for begin in range(0, len(numbers), 500):
            chosen = select(tag_sets).where(tag_sets.c.number.in_(numbers[begin : begin + 500]))
            rows = connection.execute(chosen).all()
            owed = _owed(connection, [row.number for row in rows])
            for row in rows:
                self._remember(row.number, _Known(frozenset(owed[row.number]), row.shared))

    def _room(self, connection: Connection) -> bool:
        if self._shared_count is None:
            counted = select(func.count()).select_from(tag_sets).where(tag_sets.c.shared)
            self._shared_count = connection.execute(counted).scalar_one()
        return self._shared_count < MAX_SHARED

    def _add(self, connection: Connection, sighting: Sighting, seq: int) -> _Known:
        number, client, text = sighting.number, sighting.client, sighting.text
        if text is None:
            raise DataLossError(
                f"destination set {number} of client {client!r} is lost: log entries refer to it, but lrq_tag_sets "
                "lacks it; restore lrq_tag_sets and lrq_tag_set_members from the backup that holds the entries"
            )
        shared = sighting.rows >= _MANY_ROWS and self._room(connection)
        adding = insert(tag_sets).values(number=number, client=client, destinations=text, shared=shared, last_seq=seq)
        added = connection.execute(adding.returning(tag_sets.c.number)).all()
        require_stored(tag_sets.name, len(added), 1)
        # After the insertion: a change of the groups waits for it, or is visible here.
        names = owed_sites(members(text), read_groups(connection))
        add_members(connection, client, number, names)
        return self._counted(number, _Known(frozenset(names), shared))

    def _see_again(self, connection: Connection, sighting: Sighting, known: _Known, seq: int) -> _Known:
        shared, own = self._room(connection), tag_sets.c.number == sighting.number
        if connection.execute(update(tag_sets).where(own).values(shared=shared, last_seq=seq)).rowcount:
            return self._counted(sighting.number, _Known(known.destinations, shared))
        # The set was trimmed with its last entries.
        return self._add(connection, sighting, seq)

    def _counted(self, number: int, known: _Known) -> _Known:
        self._remember(number, known)
        if known.shared and self._shared_count is not None:
            self._shared_count += 1
        return known

    def _remember(self, number: int, known: _Known) -> None:
        self._known.put(number, known, _NAMES_MORE + len(known.destinations))


def sightings(rows: Iterable[tuple[str, int, str | None]]) -> list[Sighting]:
    """Count the (client, tag set, inline text) triples of each set. Pure."""
    counts: dict[int, int] = {}
    clients: dict[int, str] = {}
    texts: dict[int, str | None] = {}
    for client, number, text in rows:
        counts[number] = counts.get(number, 0) + 1
        clients[number] = client
        if text is not None or number not in texts:
            texts[number] = text
    return [Sighting(number, clients[number], texts[number], rows=count) for number, count in counts.items()]


def recorded(connection: Connection, numbers: Iterable[int]) -> dict[int, StoredSet]:
    """Return the sets with these *numbers*, as far as the dictionary has them."""
    wanted = list(numbers)
    found: dict[int, StoredSet] = {}
    for begin in range(0, len(wanted), 500):
        rows = connection.execute(select(tag_sets).where(tag_sets.c.number.in_(wanted[begin : begin + 500]))).all()
        owed = _owed(connection, [row.number for row in rows])
        found |= {row.number: StoredSet(row.number, row.client, owed[row.number]) for row in rows}
    return found


def _owed(connection: Connection, numbers: Sequence[int]) -> dict[int, tuple[SiteId, ...]]:
    """Return the members of at most 500 sets, sorted."""
    found: dict[int, list[SiteId]] = {number: [] for number in numbers}
    if numbers:
        chosen = select(tag_set_members.c.tag_set, tag_set_members.c.destination)
        for number, destination in connection.execute(chosen.where(tag_set_members.c.tag_set.in_(numbers))):
            found[number].append(SiteId(destination))
    return {number: tuple(sorted(names)) for number, names in found.items()}


def add_members(connection: Connection, client: str, number: int, names: Collection[SiteId]) -> None:
    """Record the members of a set.

    Raises `SetupError` if a trigger of others leaves out a member, which would get no entries.
    """
    rows = [(client, name, number) for name in names]
    dialects.of(connection).bulk_insert(connection, tag_set_members, ("client", "destination", "tag_set"), rows)


def forget_unused(connection: Connection, trimmed_seq: int) -> None:
    """Delete the unshared sets of trimmed entries; later rows carry such a set inline and need no dictionary."""
    unused = select(tag_sets.c.number).where(~tag_sets.c.shared, tag_sets.c.last_seq <= trimmed_seq)
    connection.execute(delete(tag_set_members).where(tag_set_members.c.tag_set.in_(unused)))
    connection.execute(delete(tag_sets).where(~tag_sets.c.shared, tag_sets.c.last_seq <= trimmed_seq))
