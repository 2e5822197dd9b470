"""The inbox rule under random deliveries, against an oracle that is too simple to be wrong."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from queues.checksum import combine
from queues.positions import Position
from queues.receive.marks import ReceiveState, StagedRows
from queues.wire.replication_pb2 import Refusal
from sink.protocol.log_rules import FrameTick, Nothing, Refuse, TakeBatch, decide_batch
from sink.protocol.snapshot_rules import Publish, SnapshotClaim, Stage, TakeRows, decide_begin, decide_chunk, decide_end

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Tick:
    """A tick of the source: this session has `rows` of its numbers."""

    start: int
    end: int
    rows: int


@st.composite
def logs(draw):
    """Draw a source's log: some ticks are quiet, and some also hold rows of other sessions."""
    ticks, start = [], 0
    for size, share in draw(st.lists(st.tuples(st.integers(1, 6), st.floats(0, 1)), min_size=1, max_size=8)):
        ticks.append(Tick(start, start + size, round(size * share)))
        start += size
    return ticks


@st.composite
def parts(draw, tick):
    """Draw the parts of a tick, with cuts at any row; its end may be a part without rows."""
    inner = draw(st.lists(st.integers(1, 5), max_size=2))
    edges = [0, *sorted({cut for cut in inner if cut < tick.rows}), tick.rows]
    end_alone = tick.rows > 0 and draw(st.booleans())
    groups = [
        FrameTick("b1", tick.start, tick.end, upto - first, first, complete=upto == tick.rows and not end_alone)
        for first, upto in pairwise(edges)
    ]
    return [*groups, FrameTick("b1", tick.start, tick.end, 0, tick.rows)] if end_alone else groups


@st.composite
def deliveries(draw, log):
    """Draw the frames of a source that repeats and reorders frames, omits quiet ticks, and makes some errors."""
    frames = []
    for _ in range(draw(st.integers(1, 12))):
        groups = [part for tick in log for part in draw(parts(tick))]
        first = draw(st.integers(0, len(groups) - 1))
        last = draw(st.integers(first, len(groups)))
        start = groups[first].after_seq
        kept = [group for group in groups[first:last] if group.rows or draw(st.booleans())]
        if draw(st.integers(0, 3)) == 0:
            kept = draw(blunders(kept))
        frames.append((start, kept))
    return frames


@st.composite
def blunders(draw, groups):
    """Draw the groups in another order, or without some parts of ticks that have others."""
    if draw(st.booleans()):
        return draw(st.permutations(groups))
    kept = [group for group in groups if draw(st.booleans())]
    there = {group.start_seq for group in kept}
    return [group for group in groups if group in kept or group.start_seq not in there]


class Store:
    """Carries out the decisions of the machine on a list: the sequence numbers of the stored rows."""

    def __init__(self):
        self.marks = ReceiveState()
        self.rows = []

    def take(self, start, groups):
        decision = decide_batch(self.marks, Position("b1", start), groups, cut_passed=False)
        if isinstance(decision, TakeBatch):
            for group, step in zip(groups, decision.steps, strict=True):
                self.rows += list(range(group.after_seq + 1, group.after_seq + 1 + group.rows))[step.skip :]
            self.marks = decision.marks
        return decision


def owed(log, upto=None):
    """Return all rows of the session, or those up to a sequence number."""
    numbers = [tick.start + k + 1 for tick in log for k in range(tick.rows)]
    return numbers if upto is None else [seq for seq in numbers if seq <= upto]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_random_deliveries_store_each_row_once_in_order_without_a_gap(data):
    log = data.draw(logs())
    store = Store()
    store.marks = ReceiveState(received=Position("b1", 0))
    for start, groups in data.draw(deliveries(log)):
        before = store.marks
        decision = store.take(start, groups)
        assert store.rows == owed(log, store.marks.received.seq)
        assert store.marks.boundary_seq in {0, *(tick.end for tick in log)}
        assert store.marks.boundary_seq <= store.marks.received.seq
        assert store.marks.received.seq >= before.received.seq
        if isinstance(decision, Refuse):
            assert decision.kind in (Refusal.GAP, Refusal.CORRUPT)
            assert store.marks == before
        else:
            assert start <= before.received.seq
            assert store.marks.entries_total == len(store.rows)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_source_that_continues_at_the_sink_s_position_delivers_all_rows(data):
    log = data.draw(logs())
    store = Store()
    store.marks = ReceiveState(received=Position("b1", 0))
    for start, groups in data.draw(deliveries(log)):
        store.take(start, groups)
    received = store.marks.received.seq
    rest = [tick for tick in log if tick.end > store.marks.boundary_seq]
    whole = [FrameTick("b1", tick.start, tick.end, tick.rows) for tick in rest]
    exact = [
        FrameTick("b1", tick.start, tick.end, tick.rows - known, first_index=known)
        for tick in rest
        for known in [received - tick.start if tick.start < received else 0]
    ]
    assert isinstance(store.take(received, data.draw(st.sampled_from([whole, exact]))), TakeBatch)
    assert store.rows == owed(log)
    assert store.marks.boundary_seq == log[-1].end


class SnapshotTransfer(RuleBasedStateMachine):
    """Two snapshots with frames that are cut, doubled and reordered; a row's checksum is its number."""

    SIZES = {"s1": 4, "s2": 7}  # noqa: RUF012 - a constant

    def __init__(self):
        super().__init__()
        self.marks = ReceiveState()
        self.staged = []

    @rule(sync_id=st.sampled_from(["s1", "s2"]))
    def begin(self, sync_id):
        decision = decide_begin(self.marks, sync_id)
        if isinstance(decision, Stage):
            self.marks, self.staged = decision.marks, []

    @rule(sync_id=st.sampled_from(["s1", "s2"]), first=st.integers(1, 7), rows=st.integers(0, 7))
    def chunk(self, sync_id, first, rows):
        numbers = [number for number in range(first, first + rows) if number <= self.SIZES[sync_id]]
        decision = decide_chunk(self.marks, sync_id, first, len(numbers))
        if isinstance(decision, TakeRows):
            new = [(sync_id, number) for number in numbers[decision.skip :]]
            there = self.marks.staging
            checksum = combine(there.checksum, *(number for _, number in new))
            progress = StagedRows(sync_id, there.rows + len(new), there.bytes + len(new), checksum)
            self.marks = ReceiveState(staging=progress, sync_id=self.marks.sync_id)
            self.staged += new

    @rule(sync_id=st.sampled_from(["s1", "s2"]))
    def end(self, sync_id):
        rows = self.SIZES[sync_id]
        claim = SnapshotClaim(sync_id, Position("b1", 1), rows, rows, sum(range(1, rows + 1)))
        before = self.marks
        decision = decide_end(self.marks, claim)
        if isinstance(decision, Publish):
            assert self.staged == [(sync_id, number) for number in range(1, rows + 1)]
            self.marks, self.staged = decision.marks, []
        elif isinstance(decision, Nothing):
            assert before.sync_id == sync_id
        else:
            assert isinstance(decision, Refuse)

    @precondition(lambda self: self.marks.staging.sync_id)
    @rule()
    def the_rest_of_the_staged_one(self):
        sync_id = self.marks.staging.sync_id
        self.chunk(sync_id, 1, self.SIZES[sync_id])
        self.end(sync_id)
        assert self.marks.sync_id == sync_id

    @invariant()
    def one_snapshot_is_staged_from_its_first_row_without_a_gap(self):
        sync_id = self.marks.staging.sync_id
        assert self.staged == [(sync_id, number) for number in range(1, self.marks.staging.rows + 1)]


TestSnapshotTransfer = SnapshotTransfer.TestCase
