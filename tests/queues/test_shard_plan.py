"""Random histories of several shards against one shard: order of each key, exactly once, and barriers."""

import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queues.shard_maps import ShardMap, new_map, with_moves
from queues.shard_plan import BatchSize, Change, Scan, active_view, next_batch
from queues.shard_stretches import Candidate

KEYS = tuple(f"k{number}" for number in range(12))
#: Less than the limits of any step.
SMALL = BatchSize(entries=3, bytes=1_000, scanned=9)


@dataclass
class Queue:
    """A queue with N shards as the database keeps it, and a table that the listener fills."""

    changes: list[Change]
    positions: dict[int, int]
    log: list[Candidate] = field(default_factory=list)
    boundary: int = 0
    #: The applied transactions by their first numbers, in the order of the commits.
    applied: list[Candidate] = field(default_factory=list)
    barriers: set[int] = field(default_factory=set)
    #: A rollback waits until all shards stand at this number.
    back: int | None = None
    newest: ShardMap = field(init=False)

    def __post_init__(self) -> None:
        self.newest = self.changes[-1].map

    def receive(self, keys: list[frozenset[str | None]], gap: int) -> None:
        """Receive one tick."""
        at = self.boundary + gap
        for each in keys:
            self.log.append(Candidate(at + 1, at + len(each), each, len(each), 10 * len(each)))
            at += len(each)
        self.boundary = at

    def step(self, shard: int, *, stale: "Queue | None" = None, one: bool = False, stretch: int = 2) -> bool:
        """Make one step of a shard; *stale* is the view of an earlier moment, without exclusive steps since."""
        if shard not in self.positions:
            return False
        seen = stale or self
        view = active_view(seen.positions | {shard: self.positions[shard]}, self.changes)
        if shard not in view.positions:
            return False
        upto = self.boundary if self.back is None else min(self.back, self.boundary)
        after = self.positions[shard]
        candidates = [each for each in self.log if each.first > after and each.end <= upto]
        batch = next_batch(Scan(view, shard), candidates, upto, SMALL._replace(stretch=stretch), one=one)
        if batch.end <= after:
            return False
        self.applied += batch.taken
        self.barriers |= {each.first for each in batch.taken if self.is_barrier(each)}
        self.positions[shard] = batch.end
        for other, position in self.positions.items():
            if other != shard and position < batch.lift:
                self.positions[other] = batch.lift
        return True

    def is_barrier(self, candidate: Candidate) -> bool:
        held = [change.map for change in self.changes if change.after < candidate.first][-1:] or [self.changes[0].map]
        owners = {None if key is None else held[0].owners[held[0].slot(key)] for key in candidate.keys}
        return held[0].shards > 1 and (None in owners or len(owners) > 1)

    def upkeep(self) -> bool:
        """Make the next step that concerns all shards."""
        low = min(active_view(self.positions, self.changes).positions.values())
        if self.back is not None:
            if low < self.back:
                return False
            self.applied = [each for each in self.applied if each.end <= self.back]
            self.level(self.back)
            self.back = None
            return True
        while len(self.changes) > 1 and self.changes[1].after <= low:
            del self.changes[0]
        if self.newest.version > self.changes[-1].map.version and len(self.changes) < 8:
            after = max(self.positions.values())
            self.changes.append(Change(after, self.newest))
            for shard in range(self.newest.shards):
                self.positions.setdefault(shard, after)
            return True
        for shard in active_view(self.positions, self.changes).leavers(self.positions):
            del self.positions[shard]
        if active_view(self.positions, self.changes).is_single and len(self.changes) > 1:
            # The subscriber goes on without shards: it applies everything after the position of shard 0.
            self.level(self.positions[0])
            return True
        return False

    def level(self, seq: int) -> None:
        self.changes = [Change(seq, self.changes[-1].map)]
        self.positions = dict.fromkeys(self.positions, seq)

    def lose(self, seq: int) -> None:
        """The source has lost everything after *seq*, the end of a tick."""
        self.log = [each for each in self.log if each.end <= seq]
        self.boundary = seq
        # Another entry may get the number of a lost barrier.
        self.barriers = {first for first in self.barriers if first <= seq}
        if seq < (max(self.positions.values()) if self.back is None else self.back):
            self.back = seq

    def snapshot(self, base: int) -> None:
        """Apply a snapshot: it replaces everything."""
        self.log, self.applied, self.boundary, self.back = [], [], base, None
        self.level(base)

    def run(self) -> None:
        """Run all shards until nothing is left."""
        while any([self.upkeep(), *[self.step(shard) for shard in sorted(self.positions)]]):
            pass


def check(queue: Queue) -> None:
    """Compare the applied transactions with those of one shard, which applies them in their order."""
    order = [each.first for each in queue.applied]
    assert sorted(order) == [each.first for each in queue.log], "each exactly once"
    for key in KEYS:
        of_key = [each.first for each in queue.applied if key in each.keys]
        assert of_key == sorted(of_key), f"order of {key}"
    for place, first in enumerate(order):
        if first in queue.barriers:
            assert all(before < first for before in order[:place]), "a barrier comes after everything before it"
            assert all(after > first for after in order[place + 1 :]), "everything after a barrier comes after it"


keys_of_transactions = st.lists(
    st.one_of(
        st.sampled_from(KEYS).map(lambda key: frozenset({key})),
        st.frozensets(st.sampled_from(KEYS), min_size=1, max_size=2),
        st.just(frozenset({None})),
    ),
    min_size=1,
    max_size=6,
)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("receive"), keys_of_transactions, st.integers(0, 3)),
        st.tuples(st.just("step"), st.integers(0, 5), st.booleans(), st.integers(0, 3)),
        st.tuples(st.just("step"), st.integers(0, 5), st.booleans(), st.integers(0, 3)),
        st.tuples(st.just("remember")),
        st.tuples(st.just("stale"), st.integers(1, 5)),
        st.tuples(st.just("move"), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 5)), max_size=4)),
        st.tuples(st.just("shards"), st.integers(1, 5)),
        st.tuples(st.just("upkeep")),
        st.tuples(st.just("lose"), st.floats(0, 1)),
        st.tuples(st.just("snapshot")),
    ),
    max_size=60,
)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 5), actions)
def test_any_history_of_shards_equals_that_of_one_shard(shards: int, history: list[tuple]) -> None:
    queue = Queue([Change(0, new_map(1, shards, "hash"))], dict.fromkeys(range(shards), 0))
    ends, remembered = [0], None
    for kind, *details in history:
        if kind == "receive":
            queue.receive(*details)
            ends.append(queue.boundary)
        elif kind == "step":
            queue.step(details[0], one=details[1], stretch=details[2])
        elif kind == "remember":
            remembered = replace(queue, positions=dict(queue.positions))
        elif kind == "stale" and remembered is not None:
            queue.step(details[0], stale=remembered)
        elif kind == "move":
            moves = {queue.newest.slot(KEYS[key]): shard for key, shard in details[0] if shard < queue.newest.shards}
            queue.newest = with_moves(queue.newest, moves)
        elif kind == "shards":
            queue.newest = new_map(queue.newest.version + 1, details[0], "hash", queue.newest)
        elif kind == "upkeep":
            remembered = None if queue.upkeep() else remembered
        elif kind == "lose":
            queue.lose(ends[int(details[0] * (len(ends) - 1))])
            ends = [end for end in ends if end <= queue.boundary]
            remembered = None
        elif kind == "snapshot":
            queue.snapshot(queue.boundary + 5)
            ends, remembered = [queue.boundary], None
    queue.run()
    check(queue)


@pytest.mark.parametrize("seed", range(300))
def test_any_history_with_few_steps_of_all_shards_equals_that_of_one_shard(seed: int) -> None:
    """Here shards stay behind for long, while the number of shards and the partitioner change."""
    chance = random.Random(seed)
    queue = Queue([Change(0, new_map(1, 3, "modulo"))], dict.fromkeys(range(3), 0))
    ends = [0]
    for _ in range(60):
        kind = chance.choices(["receive", "step", "upkeep", "map", "lose"], [30, 40, 10, 10, 3])[0]
        if kind == "receive":
            queue.receive([_keys(chance) for _ in range(chance.randrange(1, 6))], chance.randrange(4))
            ends.append(queue.boundary)
        elif kind == "step":
            queue.step(chance.randrange(6), one=chance.random() < 0.5, stretch=chance.randrange(4))
        elif kind == "upkeep":
            queue.upkeep()
        elif kind == "map":
            shards = chance.randrange(1, 6)
            limits = ",".join(sorted(chance.sample(KEYS, shards - 1)))
            partitioner = chance.choice(["hash", "adaptive", "modulo", f"range({limits})" if limits else "hash"])
            queue.newest = new_map(queue.newest.version + 1, shards, partitioner, queue.newest)
        else:
            queue.lose(chance.choice(ends))
            ends = [end for end in ends if end <= queue.boundary]
    queue.run()
    check(queue)


def _keys(chance: random.Random) -> frozenset[str | None]:
    if chance.random() < 0.9:
        return frozenset({chance.choice(KEYS)})
    return frozenset(chance.sample(KEYS, 2)) if chance.random() < 0.5 else frozenset({None})


def test_each_of_a_hundred_moves_keeps_the_order_of_every_key() -> None:
    for seed in range(20):
        chance = random.Random(seed)
        queue = Queue([Change(0, new_map(1, 4, "hash"))], dict.fromkeys(range(4), 0))
        for _ in range(100):
            queue.receive([frozenset({chance.choice(KEYS)}) for _ in range(chance.randrange(1, 20))], 0)
            moved = {queue.newest.slot(key): chance.randrange(4) for key in chance.sample(KEYS, 3)}
            queue.newest = with_moves(queue.newest, moved)
            for _ in range(chance.randrange(8)):
                queue.step(chance.randrange(4))
                queue.upkeep()
        queue.run()
        check(queue)
        assert queue.changes[-1].map.version > 50, "moves were adopted"


def test_a_shard_that_stands_still_leaves_the_others_going() -> None:
    queue = Queue([Change(0, new_map(1, 3, "hash"))], dict.fromkeys(range(3), 0))
    queue.receive([frozenset({key}) for key in KEYS * 10], 0)
    owners = queue.newest.owners
    while any([queue.step(1), queue.step(2)]):
        pass
    applied = {first for each in queue.applied for first in each.keys}
    assert applied == {key for key in KEYS if owners[queue.newest.slot(key)] != 0}
    assert queue.positions == {0: 0, 1: queue.boundary, 2: queue.boundary}


def test_a_barrier_waits_for_the_shard_that_stands_still() -> None:
    queue = Queue([Change(0, new_map(1, 2, "modulo"))], {0: 0, 1: 0})
    one = next(key for key in KEYS if queue.newest.slot(key) == 1)
    queue.receive([frozenset({one}), frozenset({None}), frozenset({one})], 0)
    assert not any(queue.step(0) for _ in range(3) if queue.positions[0] == 1)
    queue.step(1)
    queue.run()
    assert [each.keys for each in queue.applied] == [each.keys for each in queue.log]


def _barriers_between(keys: list[str | None]) -> Queue:
    """Return a queue of two shards that waits for shard 0; the transactions have these keys."""
    queue = Queue([Change(0, new_map(1, 2, "modulo"))], {0: 0, 1: 0})
    queue.receive([frozenset({key}) for key in keys], 0)
    return queue


@pytest.mark.parametrize(("stretch", "taken"), [(0, 1), (1, 1), (2, 4)])
def test_shard_0_takes_a_short_stretch_up_to_the_next_barrier_along(stretch: int, taken: int) -> None:
    slots = new_map(1, 2, "modulo")
    own, other = (next(key for key in KEYS if slots.slot(key) == shard) for shard in (0, 1))
    queue = _barriers_between([None, other, own, None, other])
    big = BatchSize(100, 10_000, 1_000, stretch)
    batch = next_batch(Scan(active_view(queue.positions, queue.changes), 0), queue.log, queue.boundary, big)
    assert [each.first for each in batch.taken][:taken] == list(range(1, taken + 1))
    assert batch.lift == taken, "the others go on behind the last barrier"
    assert len(batch.taken) == (4 if taken == 4 else 2), "its own entries are taken in any case"


def test_a_stretch_ends_at_the_limit_of_a_step() -> None:
    slots = new_map(1, 2, "modulo")
    other = next(key for key in KEYS if slots.slot(key) == 1)
    queue = _barriers_between([None, other, other, other, None])
    size = BatchSize(3, 10_000, 1_000, 10)
    batch = next_batch(Scan(active_view(queue.positions, queue.changes), 0), queue.log, queue.boundary, size)
    assert ([each.first for each in batch.taken], batch.end, batch.lift) == ([1, 2, 3], 3, 3)


def test_no_stretch_is_taken_up_to_a_key_without_a_slot() -> None:
    queue = Queue([Change(0, new_map(1, 2, "key"))], {0: 0, 1: 0})
    queue.receive([frozenset({None}), frozenset({"1"}), frozenset({"no number"}), frozenset({None})], 0)
    size = BatchSize(100, 10_000, 1_000, 10)
    batch = next_batch(Scan(active_view(queue.positions, queue.changes), 0), queue.log, queue.boundary, size)
    assert ([each.first for each in batch.taken], batch.end, batch.lift, batch.waits) == ([1], 2, 1, True)
    assert batch.problem is not None


def test_the_last_shard_applies_nothing_that_others_have_applied_before_they_left() -> None:
    queue = Queue([Change(0, new_map(1, 2, "modulo"))], {0: 0, 1: 0})
    one = next(key for key in KEYS if queue.newest.slot(key) == 1)
    queue.receive([frozenset({one})] * 3, 0)
    queue.step(1)
    queue.newest = new_map(2, 1, "modulo")
    while queue.upkeep():
        pass
    assert queue.positions == {0: 0, 1: 3}, "shard 1 has retired, and shard 0 stands before its entries"
    queue.run()
    check(queue)
    assert queue.positions == {0: 3}, "shard 1 has left"
