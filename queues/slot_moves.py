"""Move the hottest slots of an adaptive partitioner to shards with less work. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from queues.shard_maps import ShardMap
from queues.shard_plan import ShardsView
from queues.shard_stretches import Candidate

#: The shard with the most work may have this multiple of the mean before slots move.
TOLERATED: Final = 1.1
#: Fewer unapplied entries than this call for no move.
FEW_ENTRIES: Final = 64
#: The most slots that move at once.
MOST_MOVES: Final = 256


class Work(NamedTuple):
    """The unapplied entries of a client: those that shards must apply in any case, and those of each slot.

    The latter come after the next change of the map.
    """

    bound: Counter[int]
    of_slots: Counter[int]

    def __add__(self, other: object) -> "Work":
        """Return the work of two queues together."""
        if not isinstance(other, Work):
            return NotImplemented
        return Work(self.bound + other.bound, self.of_slots + other.of_slots)


NO_WORK: Final = Work(Counter(), Counter())


def work_of(view: ShardsView, waiting: Iterable[Candidate]) -> Work:
    """Return the work in the *waiting* transactions of one queue, from its lowest position on.

    Barriers do not count. If few entries come after the next change, the slots of all entries are a forecast.
    """
    newest, bound, later, seen = view.changes[-1].map, Counter[int](), Counter[int](), Counter[int]()
    for candidate in waiting:
        slots = {newest.slot(key) for key in candidate.keys if key is not None}
        if len(slots) != 1 or None in candidate.keys:
            continue
        slot = slots.pop()
        owner = newest.owners[slot]
        seen[slot] += candidate.entries
        if candidate.first > view.highest:
            later[slot] += candidate.entries
        elif candidate.first > view.positions.get(owner, view.highest):
            bound[owner] += candidate.entries
    return Work(bound, later if later.total() >= FEW_ENTRIES else seen)


def balancing_moves(shard_map: ShardMap, work: Work) -> Mapping[int, int]:
    """Return the slots to move, each with its new shard; empty while the work is nearly even.

    Each move takes a slot from the busiest shard. Afterwards the least busy shard comes nearest to the busiest one.
    """
    loads = {shard: float(work.bound[shard]) for shard in range(shard_map.shards)}
    owned: dict[int, set[int]] = {shard: set() for shard in loads}
    for slot, owner in enumerate(shard_map.owners):
        owned[owner].add(slot)
        loads[owner] += work.of_slots[slot]
    mean = sum(loads.values()) / len(loads)
    moves: dict[int, int] = {}
    while mean * len(loads) >= FEW_ENTRIES and len(moves) < MOST_MOVES:
        busiest, idlest = max(loads, key=loads.__getitem__), min(loads, key=loads.__getitem__)
        gap = loads[busiest] - loads[idlest]
        useful = [slot for slot in owned[busiest] if 0 < work.of_slots[slot] < gap]
        if loads[busiest] <= TOLERATED * mean or not useful or len(owned[busiest]) == 1:
            break
        slot = min(useful, key=lambda each: (abs(work.of_slots[each] - gap / 2), each))
        owned[busiest].remove(slot)
        owned[idlest].add(slot)
        loads[busiest] -= work.of_slots[slot]
        loads[idlest] += work.of_slots[slot]
        moves[slot] = idlest
    return {slot: shard for slot, shard in moves.items() if shard_map.owners[slot] != shard}
