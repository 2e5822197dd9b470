"""A step out of the blocks in memory is the one that a look at the queue would give."""

import random
from contextlib import AbstractContextManager

import pytest
from sqlalchemy import Connection, Engine

from lr_client.subscriber.delivery import Delivery, Superseded
from lr_client.subscriber.steps import DeliveryStep, next_step, step_after
from queues.clock import SystemClock
from queues.database.transactions import reading
from queues.receive import log_blocks
from queues.receive.batches import BatchLimits
from queues.receive.kept_blocks import KeptBlocks
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from tests.lr_client.subscriber.applying import Apply, payloads, story, texts
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.lr_client.subscriber.test_shards import StandingClock
from tests.lr_client.subscriber.test_takeover import deliveries
from tests.waiting import eventually

ONE_BY_ONE = BatchLimits(entries=1, bytes=1 << 20)


class Walk:
    """Carries out steps at a sink, with blocks that stay in memory between them."""

    def __init__(self, sink: Engine, tokyo: Arrivals, limits: BatchLimits = ONE_BY_ONE) -> None:
        self.sink, self.limits, self.kept = sink, limits, KeptBlocks()
        self.delivery: Delivery = deliveries(sink, Apply())[1]
        with reading(sink) as connection:
            self.queue_id = tokyo.queue_id(connection)

    def looked(self, kept: KeptBlocks | None = None, *, one: bool = False) -> DeliveryStep | None:
        with reading(self.sink) as connection:
            kept = self.kept if kept is None else kept
            return next_step(connection, self.queue_id, self.limits, kept, one=one)

    def after(self, done: DeliveryStep) -> DeliveryStep | None:
        return step_after(done.to, done.version + 1, self.queue_id, self.limits, self.kept)

    def begin(self) -> DeliveryStep:
        """Carry out the first step, and return it."""
        first = self.looked()
        assert first is not None
        self.carry_out(first)
        return first

    def carry_out(self, step: DeliveryStep) -> None:
        self.delivery.carry_out(step)
        self.kept.moved(step.version)


def comparable(step: DeliveryStep | None) -> object:
    return step and (step.kind, step.seen, step.to, list(step.rows), step.version, step.blocks, step.freed)


@pytest.mark.parametrize("seed", range(12))
def test_each_step_in_memory_is_the_one_that_a_look_would_give(
    sink: Engine, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, blocks_at_once = random.Random(seed), (1, 2, 5, 100)[seed % 4]
    monkeypatch.setattr("queues.receive.log_blocks.NEXT", log_blocks.NEXT.limit(blocks_at_once))
    monkeypatch.setattr("queues.receive.kept_blocks.FETCH_BYTES", chance.choice([0, 100, 1 << 20]))
    tokyo, written = Arrivals(sink, log_block_rows=chance.randint(1, 9)), 0
    for _ in range(8):
        sizes = [chance.randint(1, 6) for _ in range(chance.randint(1, 6))]
        tokyo.tick(*[[b"%d" % (written + n)] * n for n in sizes], gap=chance.choice([0, 0, 3]))
        written += sum(sizes)
    walk = Walk(sink, tokyo, BatchLimits(entries=chance.randint(1, 20), bytes=chance.choice([40, 1 << 20])))
    step, in_memory = walk.looked(), 0
    while step is not None:
        walk.carry_out(step)
        ahead, looked = walk.after(step), walk.looked(KeptBlocks())
        if ahead is not None:
            in_memory += 1
            assert comparable(ahead) == comparable(looked)
        step = ahead or walk.looked()
    assert tokyo.left == 0
    assert in_memory or blocks_at_once < 100


def test_a_transaction_that_goes_on_behind_the_kept_blocks_needs_a_look(
    sink: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queues.receive.log_blocks.NEXT", log_blocks.NEXT.limit(1))
    monkeypatch.setattr("queues.receive.kept_blocks.FETCH_BYTES", 0)
    tokyo = Arrivals(sink, log_block_rows=4)
    tokyo.tick([b"e1"], payloads("f", 4))
    walk = Walk(sink, tokyo)
    second = walk.after(walk.begin()) or walk.looked()
    assert second is not None
    assert [row.payload for row in second.rows] == payloads("f", 4)


def test_a_step_in_memory_after_a_rollback_is_refused(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick(*[[payload] for payload in payloads("e", 3)])
    walk = Walk(sink, tokyo)
    second = walk.after(walk.begin())
    assert second is not None
    tokyo.go_back(1)
    tokyo.tick([b"f2"], [b"f3"])
    with pytest.raises(Superseded):
        walk.carry_out(second)
    assert story(sink) == ["e1"]


def test_a_step_in_memory_after_a_newer_snapshot_is_refused(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick(*[[payload] for payload in payloads("e", 3)])
    walk = Walk(sink, tokyo)
    second = walk.after(walk.begin())
    assert second is not None
    tokyo.snapshot("sync-2", [b"row"], base=3)
    with pytest.raises(Superseded):
        walk.carry_out(second)
    assert story(sink) == ["e1"]


def test_other_marks_than_those_of_the_last_step_give_no_step_in_memory(sink: Engine, tokyo: Arrivals) -> None:
    tokyo.tick(*[[payload] for payload in payloads("e", 3)])
    walk = Walk(sink, tokyo)
    first = walk.looked()
    assert first is not None
    assert walk.after(first) is None
    walk.carry_out(first)
    assert walk.after(first) is not None
    walk.kept.forget()
    assert walk.after(first) is None


class HastyClock(SystemClock):
    """A clock whose every look is a second after the last one."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 1
        return self._now


@pytest.mark.parametrize(
    ("clock", "least", "most"), [(StandingClock(), 1, 3), (HastyClock(), 20, 1_000)], ids=["at once", "later"]
)
def test_steps_in_memory_need_no_look_at_the_queue_until_a_tenth_of_a_second_is_over(
    sink: Engine,
    tokyo: Arrivals,
    follow: Follow,
    clock: SystemClock,
    least: int,
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokyo.tick(*[[payload] for payload in payloads("e", 20)])
    looks: list[Engine] = []

    def noted(engine: Engine, **options: bool) -> AbstractContextManager[Connection]:
        looks.append(engine)
        return reading(engine, **options)

    def at_the_last(entry: RoutingTableEntryMsg) -> None:
        if entry.opaque_payload == b"e20":
            seen.append(len(looks))

    seen: list[int] = []
    monkeypatch.setattr("lr_client.subscriber.follower.reading", noted)
    follow(Apply(at_the_last), max_batch_entries=1, clock=clock)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == texts("e", 20)
    assert least <= seen[0] <= most
