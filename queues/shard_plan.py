"""The next transactions of a shard, from the positions of all shards and the maps in force. Pure.

A shard's position `p` means: of the source transactions up to `p`, all that the shard owns are applied. A transaction
is a barrier if it has entries without a key, or keys of several shards. Shard 0 delivers barriers.

* A shard goes on behind a barrier only after shard 0 has delivered it.
* Shard 0 delivers a barrier only when each other shard has nothing left to deliver before it.
* A step with a barrier may take the transactions of all shards up to a later barrier. The step lifts all shards there.
  No other shard can have applied one of them: the first barrier stops it until the step is committed.
* A map holds for transactions that begin after its change. A shard delivers entries of a slot that
  it has gained only when the owner before stands at the change.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import pairwise
from typing import Final, NamedTuple

from queues.errors import UsageError
from queues.shard_maps import ShardMap
from queues.shard_stretches import Ahead, Candidate

#: The shard that delivers barriers.
FIRST: Final = 0


class Change(NamedTuple):
    """`map` holds for transactions that begin after number `after`."""

    after: int
    map: ShardMap


@dataclass(frozen=True, slots=True)
class ShardsView:
    """The positions of all shards of a queue, and its changes, oldest first; at least one change is in force.

    Shards that have retired are not among the positions: see `active_view`.
    """

    positions: Mapping[int, int]
    changes: Sequence[Change]

    @property
    def lowest(self) -> int:
        """The position up to which every transaction is applied."""
        return min(self.positions.values())

    @property
    def highest(self) -> int:
        """The position behind which no shard has applied anything."""
        return max(self.positions.values())

    @property
    def shards(self) -> int:
        """The number of shards by the newest map."""
        return self.changes[-1].map.shards

    @property
    def is_single(self) -> bool:
        """Whether shard 0 is alone and stands behind the last change: before it, other shards have applied entries."""
        return set(self.positions) == {FIRST} and self.shards == 1 and self.lowest >= self.changes[-1].after

    def leavers(self, shards: Iterable[int]) -> frozenset[int]:
        """Return those of the stored *shards* whose positions may be forgotten: they have retired for good.

        A later map holds behind the highest position of all. So a shard that has retired keeps its position until every
        other shard stands behind the last change. Otherwise a later map would begin before entries that it has applied.
        """
        if self.lowest < self.changes[-1].after:
            return frozenset()
        return frozenset(shards) - self.positions.keys()


def active_view(positions: Mapping[int, int], changes: Sequence[Change]) -> ShardsView:
    """Return the view without shards that the newest map does not have and that have nothing left to deliver."""
    last = changes[-1]
    active = {
        shard: position for shard, position in positions.items() if shard < last.map.shards or position < last.after
    }
    return ShardsView(active, changes)


class ShardRole(Enum):
    """The part of one shard in one transaction."""

    OWN = auto()
    BARRIER = auto()
    OTHER = auto()
    WAIT = auto()


@dataclass(slots=True)
class Scan:
    """Judges the transactions after the position of `shard`, one after the other."""

    view: ShardsView
    shard: int
    #: The end of the last transaction that shard 0 has left to each other shard.
    _left: dict[int, int] = field(default_factory=dict)

    def judge(self, candidate: Candidate) -> ShardRole:
        """Return the part of the shard in the next transaction; no later one counts after WAIT.

        Raises `UsageError` for a key without a slot.
        """
        number = self._change(candidate.first)
        owner = self._owner(self.view.changes[number].map, candidate.keys)
        if owner is None:
            return self._barrier(candidate)
        if owner != self.shard:
            self._left[owner] = candidate.end
            return ShardRole.OTHER
        return ShardRole.OWN if self._is_handed_over(number, candidate.keys) else ShardRole.WAIT

    def is_barrier(self, candidate: Candidate) -> bool:
        """Return whether no single shard owns a transaction; raises the error of `judge`."""
        return self._owner(self.view.changes[self._change(candidate.first)].map, candidate.keys) is None

    def level(self, end: int) -> None:
        """Go on from *end*, to which the step lifts all shards."""
        self.view = ShardsView(dict.fromkeys(self.view.positions, end), self.view.changes)
        self._left.clear()

    def _change(self, first: int) -> int:
        """Return the place of the change whose map holds for a transaction."""
        changes = self.view.changes
        return max(place for place, change in enumerate(changes) if not place or change.after < first)

    def _owner(self, shard_map: ShardMap, keys: frozenset[str | None]) -> int | None:
        """Return the one shard that owns all *keys*; None for a barrier."""
        if shard_map.shards == 1:
            return FIRST
        owners = {None if key is None else shard_map.owners[shard_map.slot(key)] for key in keys}
        return owners.pop() if len(owners) == 1 else None

    def _barrier(self, candidate: Candidate) -> ShardRole:
        positions = self.view.positions
        if self.shard != FIRST:
            return ShardRole.OTHER if positions[FIRST] >= candidate.end else ShardRole.WAIT
        begin = positions[FIRST]
        stand = all(position >= self._left.get(shard, begin) for shard, position in positions.items() if shard != FIRST)
        return ShardRole.BARRIER if stand else ShardRole.WAIT

    def _is_handed_over(self, number: int, keys: frozenset[str | None]) -> bool:
        """Return whether the earlier owners of *keys* stand at the changes at which they lost them."""
        changes = self.view.changes
        for before, change in pairwise(changes[: number + 1]):
            # A shard without a position has left, with nothing left to deliver.
            places = (
                self.view.positions.get(owner, change.after) for owner in _losers(before, change, keys) - {self.shard}
            )
            if any(place < change.after for place in places):
                return False
        return True

    def needs_rows(self, first: int, keys: frozenset[str | None]) -> bool:
        """Return whether the shard may deliver a transaction that begins with *keys*; more keys may follow."""
        if self.shard == FIRST:
            return True
        with suppress(UsageError):  # `judge` raises it
            return self._owner(self.view.changes[self._change(first)].map, keys) == self.shard
        return False


def _losers(before: Change, change: Change, keys: frozenset[str | None]) -> set[int]:
    """Return the shards that may have lost one of *keys* at *change*."""
    if None in keys or not before.map.same_slots(change.map):
        return set(range(before.map.shards))
    try:
        slots = {change.map.slot(key) for key in keys if key is not None}
    except UsageError:  # a later map has another partitioner
        return set(range(before.map.shards))
    return {before.map.owners[slot] for slot in slots if before.map.owners[slot] != change.map.owners[slot]}


class ShardBatch(NamedTuple):
    """The transactions to deliver in one step, which ends at number `end`.

    `lift`: after a barrier, and after the stretch behind it, all other shards move to this number; -1 without one.
    `waits`: the scan has ended at a transaction that must wait for other shards. `problem`: that transaction has a key
    without a slot.
    """

    taken: Sequence[Candidate]
    end: int
    lift: int = -1
    waits: bool = False
    problem: UsageError | None = None


class BatchSize(NamedTuple):
    """The limits of one step; a single larger transaction is taken alone. `scanned` counts entries of all shards.

    `stretch`: shard 0 takes the entries between two barriers along if they are at most so many.
    """

    entries: int
    bytes: int
    scanned: int
    stretch: int = 0


def next_batch(
    scan: Scan,
    candidates: Iterable[Candidate],
    upto: int,
    size: BatchSize,
    *,
    one: bool = False,
    take: Callable[[Candidate], None] = lambda _candidate: None,
) -> ShardBatch:
    """Take the next transactions of a shard; *candidates* are all transactions after its position, up to *upto*.

    With *one*, at most one transaction is taken. *take* is called with each, in their order.
    """
    taken: list[Candidate] = []
    entries = size_taken = scanned = 0
    ahead = Ahead(candidates)
    # With a barrier all shards move to `lift`. The transactions up to `stretch` are taken for all shards.
    lift = stretch = -1
    for candidate in ahead:
        try:
            verdict = ShardRole.BARRIER if candidate.end <= stretch else scan.judge(candidate)
        except UsageError as problem:
            return ShardBatch(taken, candidate.first - 1, lift, waits=True, problem=problem)
        scanned += candidate.entries
        if verdict is ShardRole.WAIT:
            return ShardBatch(taken, candidate.first - 1, lift, waits=True)
        if verdict is not ShardRole.OTHER:
            entries, size_taken = entries + candidate.entries, size_taken + candidate.bytes
            if taken and (one or entries > size.entries or size_taken > size.bytes):
                return ShardBatch(taken, candidate.first - 1, lift)
            taken.append(candidate)
            take(candidate)
        if verdict is ShardRole.BARRIER:
            lift = candidate.end
            if lift >= stretch and not one:
                scan.level(lift)
                stretch = ahead.next_barrier(scan.is_barrier, size.stretch, size.bytes) if size.stretch else -1
        if scanned >= size.scanned or (one and taken):
            return ShardBatch(taken, candidate.end, lift)
    return ShardBatch(taken, upto, lift)
