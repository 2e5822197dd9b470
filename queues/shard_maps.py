"""Maps of slots to shards, and the checks that a map passes before it is stored."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Final

from queues.errors import UsageError
from queues.partitioner_names import partitioner_of
from queues.partitioners import Partitioner, adapts
from queues.words import in_words

#: The most shards of a client.
MAX_SHARDS: Final = 256


@dataclass(frozen=True, slots=True)
class ShardMap:
    """The shard that owns each slot, in one version.

    `partitioner` is the text of the partitioner. Invariant: `owners` are exactly 0 to `shards` - 1.
    """

    version: int
    shards: int
    partitioner: str
    owners: tuple[int, ...]

    @property
    def division(self) -> Partitioner:
        """The partitioner itself; raises `UsageError` if no package here has it."""
        return partitioner_of(self.partitioner)

    @property
    def adapts(self) -> bool:
        """Whether the hottest slots move; not by a partitioner that no package here has."""
        try:
            return adapts(self.division)
        except UsageError:
            return False

    def slot(self, key: str) -> int:
        """Return the slot of *key*; raise `UsageError` for a slot that the map does not have."""
        slots = len(self.owners)
        try:
            found = self.division.slot(key, slots)
        except UsageError:
            raise
        except Exception as error:
            raise UsageError(
                f"the partitioner {self.partitioner} gives no slot to key {key!r} ({in_words(error)}): correct the "
                "partitioner, or choose another one by `lrq subscribe shards`"
            ) from error
        if not isinstance(found, int) or not 0 <= found < slots:
            raise UsageError(
                f"the partitioner {self.partitioner} gives slot {found!r} to key {key!r}, but there are slots 0 to "
                f"{slots - 1}: correct the partitioner"
            )
        return found

    def same_slots(self, other: "ShardMap") -> bool:
        """Return whether each key has the same slot in both maps."""
        return self.partitioner == other.partitioner and len(self.owners) == len(other.owners)


def new_map(version: int, shards: int, partitioner: str, before: ShardMap | None = None) -> ShardMap:
    """Return an even map of *shards* shards that moves as few slots of *before* as possible.

    Raises `UsageError` for a number out of range, and for a partitioner that is unknown or does not fit.
    """
    checked_shards(shards)
    slots = partitioner_of(partitioner).slots(shards)
    new = ShardMap(version, shards, partitioner, tuple(slot % shards for slot in range(slots)))
    if before is not None and before.same_slots(new):
        new = replace(new, owners=_spread(before.owners, shards))
    return checked(new)


def checked_shards(shards: object) -> int:
    """Return *shards*; raise `UsageError` unless it is a number from 1 to `MAX_SHARDS`."""
    if not isinstance(shards, int) or isinstance(shards, bool) or not 1 <= shards <= MAX_SHARDS:
        raise UsageError(f"shards is {shards!r}: choose a number from 1 to {MAX_SHARDS}")
    return shards


def _spread(owners: Sequence[int], shards: int) -> tuple[int, ...]:
    """Return an even spread of the slots; a slot keeps its owner up to that owner's share."""
    share, more = divmod(len(owners), shards)
    kept: Counter[int] = Counter()
    left: list[int] = []
    spread = list(owners)
    for slot, owner in enumerate(owners):
        if owner < shards and kept[owner] < share + (owner < more):
            kept[owner] += 1
        else:
            left.append(slot)
    places = (shard for shard in range(shards) for _ in range(share + (shard < more) - kept[shard]))
    for slot, shard in zip(left, places, strict=True):
        spread[slot] = shard
    return tuple(spread)


def checked(new: ShardMap) -> ShardMap:
    """Return *new*; raise `UsageError` unless it has all slots, and owners that are exactly the shards."""
    checked_shards(new.shards)
    slots = partitioner_of(new.partitioner).slots(new.shards)
    if len(new.owners) != slots:
        raise UsageError(f"the map has owners for {len(new.owners)} slots, but {new.partitioner} has {slots}")
    strange = sorted(set(new.owners) - set(range(new.shards)))
    if strange:
        raise UsageError(
            f"the map names the shards {_some(strange)}, but the shards are 0 to {new.shards - 1}: name only those"
        )
    idle = sorted(set(range(new.shards)) - set(new.owners))
    if idle:
        raise UsageError(f"the shards {_some(idle)} of {new.shards} own no slot: give each at least one slot")
    return new


def with_moves(before: ShardMap, moves: Mapping[int, int]) -> ShardMap:
    """Return the next version of *before*, in which the slots of *moves* have the shards that it names.

    Raises `UsageError` for a slot or shard that *before* lacks, and for a shard that is left without a slot.
    """
    owners = list(before.owners)
    for slot, shard in moves.items():
        if (number := _whole(slot)) not in range(len(owners)):
            raise UsageError(f"there is no slot {slot!r}: {before.partitioner} has slots 0 to {len(owners) - 1}")
        owners[number] = owner = _whole(shard)
        if owner < 0:
            raise UsageError(f"there is no shard {shard!r}: the shards are 0 to {before.shards - 1}")
    return checked(replace(before, version=before.version + 1, owners=tuple(owners)))


def _whole(number: object) -> int:
    """Return *number* as a whole number, -1 for anything else: the map is stored as text."""
    try:
        return int(index(number))  # type: ignore[arg-type]
    except TypeError:
        return -1


def _some(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:8]))
    return f"{shown} and {len(numbers) - 8} more" if len(numbers) > 8 else shown
