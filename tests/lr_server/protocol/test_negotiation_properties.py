"""`decide` for pairs of histories whose common part is known."""

from dataclasses import dataclass, replace
from itertools import accumulate

from hypothesis import event, given, settings
from hypothesis import strategies as st

from lr_server.protocol.histories import Branch, OfferedSnapshot, SinkHistory, SourceHistory, TickKey
from lr_server.protocol.negotiation import Cause, ConfirmSnapshot, Rebuild, Resume, ResumeSnapshot, Rollback, decide
from queues.positions import Position


@dataclass(frozen=True)
class World:
    """Two histories that are equal up to `common` and continue independently after it."""

    source: SourceHistory
    sink: SinkHistory
    common: int


@st.composite
def worlds(draw: st.DrawFn) -> World:
    steps = st.lists(st.integers(1, 5), max_size=5)
    shared = list(accumulate(draw(steps)))
    common = shared[-1] if shared else 0
    on_source = list(accumulate(draw(steps), initial=common))[1:]
    on_sink = list(accumulate(draw(steps), initial=common))[1:]
    source_branch = draw(st.sampled_from(["b", "c"])) if on_source else "b"
    branches = (Branch("b", 0), Branch("c", common)) if source_branch == "c" else (Branch("b", 0),)
    kept = [TickKey("b", seq, 1) for seq in shared]
    own = {TickKey(source_branch, seq, 2) for seq in on_source}
    sink_ticks = kept + [TickKey("b", seq, 3) for seq in on_sink]
    reached = draw(st.integers(0, len(sink_ticks)))
    closed = sink_ticks[:reached]
    boundary = closed[-1].seq if closed else 0
    upcoming = sink_ticks[reached] if reached < len(sink_ticks) else None
    inside = draw(st.integers(0, upcoming.seq - boundary - 1)) if upcoming else 0
    headers = closed[draw(st.integers(0, len(closed))) :]
    if inside and upcoming and draw(st.booleans()):
        headers.append(upcoming)
    newest = max([common, *on_source])
    # Trimming always ends at the end of a tick, and so do the entries lost by trimming.
    ends = [0, *shared, *on_source]
    trimmed = draw(st.just(0) | st.sampled_from(ends))
    source = SourceHistory(
        branches,
        newest_seq=newest,
        trimmed_seq=trimmed,
        lost_seq=draw(st.just(0) | st.sampled_from([end for end in ends if end <= trimmed])),
        known=frozenset(headers) & (set(kept) | own),
        is_whole=draw(st.booleans()),
        is_provided=draw(st.booleans()),
    )
    cut = draw(st.sampled_from(["", "id/7"]))
    sink = SinkHistory(
        Position("b", boundary + inside, cut),
        boundary,
        applied_seq=draw(st.just(0) | st.integers(0, boundary)),
        undoes=draw(st.booleans()),
        headers=tuple(reversed(headers)),
        sync_id=draw(st.sampled_from(["", "s"])),
    )
    return World(source, sink, common)


@settings(max_examples=600)
@given(worlds(), st.sampled_from(["snapshot", "log", "auto"]))
def test_the_answer_never_leaves_the_shared_history(world: World, initial_sync):
    source, sink = world.source, world.sink
    decision = decide(source, sink, initial_sync=initial_sync)
    event(type(decision).__name__)
    match decision:
        case Resume(position=position, read_after=read_after):
            assert position == sink.received
            assert position.seq <= world.common
            assert read_after >= position.seq
            assert read_after in (position.seq, source.trimmed_seq)
            assert position.seq >= source.lost_seq or (sink.is_empty and (initial_sync == "log" or source.is_whole))
        case Rollback(position=position):
            assert source.lost_seq <= position.seq < sink.received.seq
            assert position.seq <= min(world.common, sink.boundary_seq)
            assert sink.applied_seq <= position.seq or sink.undoes
            assert position.cut in ("", sink.received.cut)
            assert not sink.received.cut or position.seq == sink.boundary_seq
        case Rebuild(cause=cause, reason=reason):
            assert_cause_holds(cause, world)
            assert reason
        case _:
            raise AssertionError(decision)


def assert_cause_holds(cause: Cause, world: World) -> None:
    event(cause)
    source, sink = world.source, world.sink
    diverged = sink.received.seq > world.common
    unproven = not any(header in source.known and header.seq >= sink.received.seq for header in sink.headers)
    match cause:
        case Cause.NOTHING_YET:
            assert sink.is_empty
        case Cause.TRIMMED:
            assert sink.received.seq < source.lost_seq or diverged or unproven
        case Cause.APPLIED:
            assert sink.applied_seq > 0
            assert not sink.undoes
            assert diverged or unproven
        case Cause.NO_COMMON_HISTORY:
            assert diverged or unproven
        case Cause.CUT:
            assert sink.received.cut
        case _:
            raise AssertionError(cause)


@given(worlds(), st.integers(0, 50))
def test_a_quiet_session_is_never_rebuilt(world: World, more: int):
    """A session resumes if its headers are known and none of its own entries is lost."""
    sink = replace(world.sink, received=Position("b", world.sink.boundary_seq), sync_id="s")
    newest = max(world.source.newest_seq, sink.received.seq) + more
    source = SourceHistory(
        (Branch("b", 0),),
        newest_seq=newest,
        trimmed_seq=newest,
        lost_seq=0,
        known=frozenset({*sink.headers, TickKey("b", sink.boundary_seq, 3)}),
    )
    sink = replace(sink, headers=(TickKey("b", sink.boundary_seq, 3),) if sink.boundary_seq else ())
    assert isinstance(decide(source, sink, initial_sync="snapshot"), Resume)


@given(worlds(), st.integers(0, 20), st.booleans())
def test_an_offered_snapshot_is_sent_or_confirmed_or_reported_as_trimmed(world: World, rows: int, done: bool):
    source = replace(world.source, snapshot=OfferedSnapshot("t", ready=True, base=Position("b", 0), rows=rows))
    sink = replace(world.sink, sync_id="t") if done else world.sink
    match decide(source, sink, initial_sync="snapshot"):
        case ConfirmSnapshot(sync_id="t"):
            assert done
        case ResumeSnapshot(sync_id="t", rows=0):
            assert not done
            assert source.lost_seq == 0
        case Rebuild(cause=Cause.TRIMMED):
            assert source.lost_seq > 0
        case other:
            raise AssertionError(other)
