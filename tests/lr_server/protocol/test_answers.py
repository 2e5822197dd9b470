"""A sink's answers are checked before a session believes them."""

import pytest

from lr_server.protocol.answers import SentLog, SentSnapshot, history_of, position_of, refused, replay_of
from lr_server.protocol.events import RefusalKind, Refused
from lr_server.protocol.replays import OrderedReplay
from queues.errors import ProtocolError
from queues.positions import Position
from queues.wire import replication_pb2 as pb

CUT = "id/7"
HUGE = 2**64 - 1


def ack(seq: int = 0, branch: str = "b1", cut: str = "", **rest: object) -> pb.Ack:
    return pb.Ack(received=pb.Position(branch=branch, seq=seq, cut=cut), **rest)


def sent(*ends: int) -> SentLog:
    """Give the log after `b1@10`, with a cut, of which frames up to *ends* are sent."""
    log = SentLog(Position("b1", 10, CUT))
    for end in ends:
        log.note(Position("b1", end))
    return log


@pytest.mark.parametrize("seq", [10, 15, 20])
def test_each_position_up_to_the_sent_end_is_accepted(seq: int):
    assert sent(15, 20).accept(ack(seq, applied_seq=seq)) == Position("b1", seq)


def test_a_position_of_a_sent_branch_is_accepted():
    log = sent(15)
    log.note(Position("b2", 30))
    assert log.accept(ack(15)) == Position("b1", 15)
    assert log.accept(ack(30, "b2")) == Position("b2", 30)


def test_the_cut_of_the_beginning_is_accepted():
    assert sent(15).accept(ack(15, cut=CUT)) == Position("b1", 15, CUT)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ack(21), "acknowledges 21, but was sent entries up to 20 only"),
        (ack(HUGE), f"acknowledges {HUGE}, but"),
        (ack(9), "acknowledges 9 after 10"),
        (ack(20, "b9"), "a branch that was not sent: 'b9'"),
        (ack(20, "\0"), "a branch that was not sent"),
        (ack(20, "b" * 4_000_000), "a branch that was not sent"),
        (ack(20, cut="id/8"), "the cut of another snapshot"),
        (ack(15, applied_seq=16), "has applied 16, above 15"),
    ],
    ids=["above", "largest", "below", "branch", "NUL", "long branch", "cut", "applied"],
)
def test_a_position_that_the_sink_cannot_have_is_a_protocol_error(answer: pb.Ack, words: str):
    with pytest.raises(ProtocolError, match=words) as raised:
        sent(20).accept(answer)
    assert len(str(raised.value)) < 1000


def test_an_acknowledgement_below_an_earlier_one_is_a_protocol_error():
    log = sent(15, 20)
    log.accept(ack(20))
    with pytest.raises(ProtocolError, match="acknowledges 15 after 20"):
        log.accept(ack(15))


def test_the_last_frame_of_an_earlier_stream_may_be_stored_after_the_negotiation():
    again = SentLog(Position("b1", 10), sent(15, 20))
    again.note(Position("b1", 12))
    assert again.accept(ack(20)) == Position("b1", 20)
    with pytest.raises(ProtocolError, match="acknowledges 21"):
        again.accept(ack(21))


def staged(rows: int, sync_id: str = "s1", complete: str = "") -> pb.Ack:
    return pb.Ack(staging=pb.SnapshotProgress(sync_id=sync_id, rows=rows), sync_id=complete)


def snapshot(*, ended: bool = False) -> SentSnapshot:
    """Give a snapshot of which 5 rows were staged and 9 are sent."""
    rows = SentSnapshot("s1", 5)
    rows.note(9, is_end=False)
    if ended:
        rows.note(9, is_end=True)
    return rows


@pytest.mark.parametrize("rows", [5, 7, 9])
def test_each_row_up_to_the_sent_end_is_accepted(rows: int):
    assert snapshot().counts(staged(rows))


def test_an_answer_about_another_snapshot_is_not_about_these_rows():
    assert not snapshot().counts(staged(99, "s0", "s2"))


def test_a_snapshot_is_complete_after_its_end_was_sent():
    assert snapshot(ended=True).counts(staged(0, "", "s1"))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (staged(10), "acknowledges row 10 of snapshot s1"),
        (staged(HUGE), f"row {HUGE}"),
        (staged(4), "row 4 of snapshot s1, after 5"),
        (staged(0, "", "s1"), "complete before its end was sent"),
    ],
    ids=["above", "largest", "below", "complete"],
)
def test_rows_that_the_sink_cannot_have_are_a_protocol_error(answer: pb.Ack, words: str):
    with pytest.raises(ProtocolError, match=words):
        snapshot().counts(answer)


def history(**changed: object) -> pb.NegotiateResponse:
    given = {
        "received": pb.Position(branch="b1", seq=20, cut=CUT),
        "boundary": pb.Position(branch="b1", seq=18),
        "applied_seq": 20,
        "headers": [pb.TickHeader(branch="b1", end_seq=18, uid=5)],
        "staging": pb.SnapshotProgress(sync_id="s1", rows=3),
        "sync_id": "s0",
    }
    return pb.NegotiateResponse(**(given | changed))


def test_an_honest_history_is_converted():
    found = history_of(history())
    assert (found.received, found.boundary_seq, found.applied_seq) == (Position("b1", 20, CUT), 18, 20)
    assert (found.headers[0], found.staged.rows, found.sync_id) == (("b1", 18, 5), 3, "s0")


@pytest.mark.parametrize(
    "changed",
    [
        {"received": pb.Position(branch="b1", seq=HUGE)},
        {"received": pb.Position(branch="\0", seq=20)},
        {"received": pb.Position(branch="b" * 201, seq=20)},
        {"received": pb.Position(branch="b1", seq=20, cut="nonsense")},
        {"received": pb.Position(branch="b1", seq=20, cut="x" * 2_000_000)},
        {"boundary": pb.Position(branch="b1", seq=21)},
        {"applied_seq": 21},
        {"headers": [pb.TickHeader(branch="b1", end_seq=18, uid=HUGE)]},
        {"headers": [pb.TickHeader(branch="b1", end_seq=HUGE, uid=5)]},
        {"headers": [pb.TickHeader(branch="\0", end_seq=18, uid=5)]},
        {"headers": [pb.TickHeader(branch="b1", end_seq=18, uid=5)] * 5000},
        {"staging": pb.SnapshotProgress(sync_id="s1", rows=HUGE)},
        {"staging": pb.SnapshotProgress(sync_id="\0", rows=1)},
        {"sync_id": "\0"},
    ],
    ids=lambda changed: str(changed)[:40],
)
def test_an_absurd_history_is_a_protocol_error(changed: dict[str, object]):
    with pytest.raises(ProtocolError) as raised:
        history_of(history(**changed))
    assert len(str(raised.value)) < 1000


def test_the_position_after_a_rollback_is_checked_too():
    with pytest.raises(ProtocolError, match="malformed branch"):
        position_of(pb.Position(branch="\0"))


def test_an_honest_order_for_a_replay_is_converted():
    order = pb.ReplayOrder(order_id="o", from_seq=4, branch="b1", since_us=7)
    assert replay_of(order) == OrderedReplay("o", 4, "b1", 7)


@pytest.mark.parametrize("changed", [{"from_seq": HUGE}, {"branch": "b\0"}, {"branch": "b" * 201}, {"order_id": "\n"}])
def test_an_absurd_order_for_a_replay_is_a_protocol_error(changed: dict[str, object]):
    with pytest.raises(ProtocolError):
        replay_of(pb.ReplayOrder(**{"order_id": "o", "from_seq": 4, **changed}))


def test_the_words_of_a_refusal_are_bounded_and_printable():
    assert refused(pb.Refusal(kind=pb.Refusal.GAP, reason="no")) == Refused(RefusalKind.GAP, "no")
    told = refused(pb.Refusal(kind=pb.Refusal.GAP, reason="\0\x1b" + "x" * 3_500_000))
    assert told.reason.startswith("\N{REPLACEMENT CHARACTER}" * 2 + "xxx")
    assert len(told.reason) == 500
