"""The balance of an adaptive partitioner."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from queues.shard_maps import new_map, with_moves
from queues.shard_plan import Candidate, Change, ShardsView
from queues.slot_moves import TOLERATED, Work, balancing_moves, work_of


@given(st.dictionaries(st.integers(0, 1023), st.integers(1, 500), max_size=80), st.integers(2, 6))
def test_moves_never_make_the_busiest_shard_busier(work: dict[int, int], shards: int) -> None:
    before = new_map(1, shards, "adaptive")
    moves = balancing_moves(before, Work(Counter(), Counter(work)))
    after = with_moves(before, moves)

    def busiest(owners: tuple[int, ...]) -> int:
        loads = Counter(dict.fromkeys(range(shards), 0))
        for slot, each in work.items():
            loads[owners[slot]] += each
        return max(loads.values())

    assert busiest(after.owners) <= busiest(before.owners)
    assert not moves or busiest(after.owners) < busiest(before.owners)


def test_many_hot_slots_of_one_shard_are_spread_evenly() -> None:
    before = new_map(1, 4, "adaptive")
    hot = {slot: 10 for slot in range(1024) if before.owners[slot] == 0}
    after = with_moves(before, balancing_moves(before, Work(Counter(), Counter(hot))))
    loads = Counter(after.owners[slot] for slot in hot)
    assert max(loads.values()) <= TOLERATED * len(hot) / 4 + 1


def test_entries_before_the_next_change_are_bound_to_their_shard() -> None:
    newest = new_map(1, 2, "key")
    waiting = [Candidate(number, number, frozenset({str(number % 4)}), 1, 1) for number in range(1, 301)]
    work = work_of(ShardsView({0: 0, 1: 100}, [Change(0, newest)]), waiting)
    assert work.bound == Counter({0: 50})
    assert work.of_slots.total() == 200
