"""A step out of one brief look is the one that a whole look at the queue would give."""

import random
from typing import Any

import pytest
from sqlalchemy import Engine

from lr_client.subscriber.brief_steps import BriefStep, brief_step
from lr_client.subscriber.delivery import Superseded
from lr_client.subscriber.steps import DeliveryStep, next_step
from queues.database.transactions import reading
from queues.receive import brief_look, log_blocks
from queues.receive.batches import BatchLimits
from queues.receive.kept_blocks import KeptBlocks
from tests.lr_client.subscriber.applying import Apply, payloads, story, texts
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.lr_client.subscriber.test_steps_in_memory import Walk, comparable
from tests.waiting import eventually

WIDE = BatchLimits(entries=100, bytes=1 << 20)


def briefly(walk: Walk, *, one: bool = False) -> BriefStep:
    with reading(walk.sink, snapshot=True, rewritten=False) as connection:
        found = brief_look.look(connection, walk.queue_id, walk.kept.covered)
    return brief_step(found, walk.queue_id, walk.limits, walk.kept, one=one)


def happen(chance: random.Random, tokyo: Arrivals, walk: Walk, number: int) -> None:
    """Let one thing happen to the queue."""
    match chance.choice(["tick", "tick", "tick", "gap", "part", "whole", "back", "snapshot", "nothing", "other"]):
        case "tick":
            tokyo.tick(*[[b"%d" % number] * chance.randint(1, 6) for _ in range(chance.randint(1, 6))])
        case "gap":
            tokyo.tick(gap=chance.randint(1, 4))
        case "part":
            tokyo.part_of_a_tick([b"%d" % number] * chance.randint(1, 5))
        case "whole":
            tokyo.complete_the_tick()
        case "back" if (seen := walk.looked(KeptBlocks())) is not None and seen.kind.name == "LOG_ENTRIES":
            tokyo.go_back(chance.randint(seen.seen.seq, seen.to.seq))
        case "snapshot" if chance.random() < 0.3:
            tokyo.snapshot(f"sync-{number}", payloads("row", chance.randint(0, 3)), base=chance.randint(0, 9))
        case "other" if (step := walk.looked(KeptBlocks())) is not None:
            # Another subscriber takes the step, of which the kept blocks know nothing.
            walk.delivery.carry_out(step)
        case _:
            pass


@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(10, 30))]
)
def test_each_brief_step_is_the_one_that_a_whole_look_would_give(
    sink: Engine, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, blocks_at_once = random.Random(seed), (1, 2, 5, 100)[seed % 4]
    monkeypatch.setattr("queues.receive.log_blocks.NEXT", log_blocks.NEXT.limit(blocks_at_once))
    monkeypatch.setattr("queues.receive.brief_look.BLOCKS", brief_look.BLOCKS.limit(blocks_at_once))
    tokyo, certain = Arrivals(sink, log_block_rows=chance.randint(1, 9)), 0
    tokyo.tick([b"first"])
    walk = Walk(sink, tokyo, BatchLimits(entries=chance.randint(1, 20), bytes=chance.choice([40, 1 << 20])))
    for number in range(60):
        happen(chance, tokyo, walk, number)
        one = chance.random() < 0.2
        brief, whole = briefly(walk, one=one), walk.looked(KeptBlocks(), one=one)
        if brief.is_certain:
            certain += 1
            assert comparable(brief.step) == comparable(whole)
        step = brief.step if brief.is_certain else walk.looked(one=one)
        assert comparable(step) == comparable(whole)
        if step is not None and chance.random() < 0.7:
            walk.carry_out(step)
    assert certain


@pytest.mark.parametrize("gap", [0, 3], ids=["entries", "entries of other sites last"])
def test_one_brief_look_is_enough_for_the_entries_of_a_quiet_queue(sink: Engine, tokyo: Arrivals, gap: int) -> None:
    tokyo.tick([b"e1"], [b"e2"])
    walk = Walk(sink, tokyo, WIDE)
    if gap:
        tokyo.tick(gap=gap)
    first = briefly(walk)
    assert first.step is not None
    assert first.step.to.seq == 2 + gap
    walk.carry_out(first.step)
    assert briefly(walk) == BriefStep(None)
    tokyo.tick([b"e3"])
    second = briefly(walk)
    assert second.step is not None
    walk.carry_out(second.step)
    assert story(sink) == ["e1", "e2", "e3"]


def test_a_brief_step_after_a_rollback_is_refused(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick([b"e1"], [b"e2"])
    walk = Walk(sink, tokyo, WIDE)
    found = briefly(walk)
    tokyo.go_back(0)
    tokyo.tick([b"f1"], [b"f2"])
    assert found.step is not None
    with pytest.raises(Superseded):
        walk.carry_out(found.step)
    assert not briefly(walk).is_certain, "the look has left out the numbers of the lost entries"
    again = walk.looked()
    assert again is not None
    walk.carry_out(again)
    assert story(sink) == ["f1", "f2"]


def test_a_follower_looks_briefly_except_while_much_waits(
    sink: Engine, tokyo: Arrivals, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole: list[object] = []

    def noted(*given: Any, one: bool) -> DeliveryStep | None:
        whole.append(given)
        return next_step(*given, one=one)

    monkeypatch.setattr("lr_client.subscriber.follower.next_step", noted)
    monkeypatch.setattr("queues.receive.brief_look.BLOCKS", brief_look.BLOCKS.limit(2))
    tokyo.tick([b"e1"])
    follow(Apply())
    for number in (2, 3):
        eventually(lambda: tokyo.left == 0)
        tokyo.tick([b"e%d" % number])
    eventually(lambda: tokyo.left == 0)
    assert not whole
    many = Arrivals(sink, log_block_rows=1)
    many.tick(*[[payload] for payload in payloads("f", 9)])
    eventually(lambda: many.left == 0)
    assert whole
    assert story(sink) == [*texts("e", 3), *texts("f", 9)]
