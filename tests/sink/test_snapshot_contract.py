"""The promises of every `Sink` about snapshots: on every transport, on SQLite and on PostgreSQL."""

import pytest

from queues.names import site_id
from queues.positions import Position
from queues.wire import replication_pb2 as pb
from sink import SinkWriter
from tests.sink.conftest import accepted, refused, talk
from tests.sink.frames import BRANCH, batch, begin, chunk, end, header, numbered, request, session, tick

FIVE = [b"row %d" % number for number in range(1, 6)]
BASE = Position(BRANCH, 10, "id/12")
S1 = [begin("s1"), chunk("s1", 1, FIVE[:3]), chunk("s1", 4, FIVE[3:])]
S1_END = end("s1", FIVE, base=BASE, header=header(5, 10))


def rows(sync_id, payloads):
    return [(sync_id, number, payload) for number, payload in enumerate(payloads, start=1)]


def test_a_snapshot_is_published_when_its_end_arrives(sink, contents):
    *_, staged = talk(sink, *S1)
    assert (staged.staging.sync_id, staged.staging.rows, staged.sync_id) == ("s1", 5, "")
    ack = accepted(talk(sink, S1_END))
    assert (ack.sync_id, ack.staging.sync_id) == ("s1", "")
    assert (ack.received.branch, ack.received.seq, ack.received.cut) == (BRANCH, 10, "id/12")
    assert contents.staged() == rows("s1", FIVE)
    assert contents.headers() == [(BRANCH, 10, 10, "id/10")]
    marks = contents.marks()
    assert (marks.sync_id, marks.sync_rows, marks.base_seq, marks.boundary_seq) == ("s1", 5, 10, 10)


def test_an_empty_snapshot_completes(sink, contents):
    ack = accepted(talk(sink, begin("s1"), end("s1", [])))
    assert ack.sync_id == "s1"
    assert contents.marks().sync_rows == 0
    assert contents.queues() == [("LRQ_Recv_policy_paris", "lrq_recv_policy")]


def test_the_transfer_continues_after_the_last_acknowledged_chunk(sink, contents):
    talk(sink, *S1[:2])
    answer = sink.negotiate(request())
    assert (answer.staging.sync_id, answer.staging.rows) == ("s1", 3)
    began, *_, last = list(sink.replicate(iter([begin("s1"), chunk("s1", 4, FIVE[3:]), S1_END])))
    assert began.staging.rows == 3
    assert last.sync_id == "s1"
    assert contents.staged() == rows("s1", FIVE)


def test_the_transfer_continues_after_a_restart_of_the_sink(engine, connect, contents):
    talk(connect(SinkWriter(engine, site_id("tokyo"))), *S1[:2])
    restarted = SinkWriter(engine, site_id("tokyo"))
    assert restarted.negotiate(request()).staging.rows == 3
    accepted(list(restarted.replicate(iter([chunk("s1", 4, FIVE[3:]), S1_END]))))
    assert contents.staged() == rows("s1", FIVE)


def test_repeated_and_overlapping_chunks_are_staged_once(sink, contents):
    accepted(talk(sink, *S1[:2], S1[1], chunk("s1", 2, FIVE[1:]), S1[2], S1_END))
    assert contents.staged() == rows("s1", FIVE)


@pytest.mark.parametrize("staged", range(6))
@pytest.mark.parametrize("border", range(1, 5))
def test_a_chunk_of_several_blocks_stages_only_its_new_rows(sink, contents, staged, border):
    begun = [begin("s1"), chunk("s1", 1, FIVE[:staged])][: 1 + bool(staged)]
    accepted(talk(sink, *begun, chunk("s1", 1, FIVE[:border], FIVE[border:]), S1_END))
    assert contents.staged() == rows("s1", FIVE)


def test_the_end_and_late_chunks_of_a_published_snapshot_are_accepted_again(sink, contents):
    accepted(talk(sink, *S1, S1_END))
    ack = accepted(talk(sink, *S1, S1_END))
    assert (ack.sync_id, ack.staging.sync_id) == ("s1", "")
    assert contents.staged() == rows("s1", FIVE)


def test_a_gap_between_chunks_is_refused(sink, contents):
    assert refused(talk(sink, begin("s1"), chunk("s1", 4, FIVE[3:]))).kind == pb.Refusal.GAP
    assert contents.staged() == []


def test_two_snapshots_are_never_mixed(sink, contents):
    talk(sink, *S1[:2])
    other = [b"other 1", b"other 2"]
    assert refused(talk(sink, chunk("s2", 4, other))).kind == pb.Refusal.OTHER_SNAPSHOT
    accepted(talk(sink, begin("s2"), chunk("s2", 1, other)))
    assert contents.staged() == rows("s2", other)
    assert refused(talk(sink, S1[2])).kind == pb.Refusal.OTHER_SNAPSHOT
    assert refused(talk(sink, S1_END)).kind == pb.Refusal.OTHER_SNAPSHOT
    assert accepted(talk(sink, end("s2", other))).sync_id == "s2"
    assert contents.staged() == rows("s2", other)


def test_a_truncated_snapshot_is_refused_and_can_be_completed(sink, contents):
    refusal = refused(talk(sink, *S1[:2], S1_END))
    assert refusal.kind == pb.Refusal.CORRUPT
    assert "5 rows, but only 3 arrived" in refusal.reason
    assert contents.marks().sync_id == ""
    accepted(talk(sink, chunk("s1", 4, FIVE[3:]), S1_END))
    assert contents.marks().sync_id == "s1"


@pytest.mark.parametrize(
    "wrong", [{"bytes": 1}, {"checksum": 1}, {"rows": 4}], ids=["bytes", "checksum", "too many rows"]
)
def test_staged_rows_that_do_not_match_the_end_are_discarded_and_sent_again(sink, contents, wrong):
    refusal = refused(talk(sink, *S1, end("s1", FIVE, **wrong)))
    assert refusal.kind == pb.Refusal.CORRUPT
    assert next(iter(wrong)) in refusal.reason
    answer = sink.negotiate(request())
    assert (answer.sync_id, answer.staging.sync_id, answer.staging.rows) == ("", "s1", 0)
    assert contents.staged() == []
    accepted(list(sink.replicate(iter([*S1, S1_END]))))
    assert contents.staged() == rows("s1", FIVE)


def test_a_damaged_chunk_is_refused_and_none_of_its_rows_is_staged(sink, contents):
    damaged = pb.Frame()
    damaged.CopyFrom(S1[2])
    damaged.snapshot_chunk.blocks[0].crc32 ^= 1
    assert refused(talk(sink, *S1[:2], damaged)).kind == pb.Refusal.CORRUPT
    assert contents.staged() == rows("s1", FIVE[:3])
    assert contents.marks().staging_rows == 3


def test_a_published_snapshot_replaces_the_log_and_the_log_continues_at_its_base(sink, contents):
    talk(sink, batch(0, tick(0, 20, numbered(1, 15))))
    talk(sink, *S1, S1_END)
    assert contents.log() == []
    ack = accepted(talk(sink, batch(BASE, tick(10, 12, [b"a", b"b"]))))
    assert (ack.received.seq, ack.received.cut) == (12, "id/12")
    assert contents.log() == [(11, b"a"), (12, b"b")]


def test_the_former_log_stays_until_the_snapshot_is_complete(sink, contents):
    talk(sink, batch(0, tick(0, 3, numbered(1, 3))), *S1)
    assert len(contents.log()) == 3
    assert contents.marks().seq == 3


def test_a_newer_snapshot_replaces_the_published_one_only_when_complete(sink, contents):
    talk(sink, *S1, S1_END)
    talk(sink, begin("s2"), chunk("s2", 1, [b"new"]))
    assert contents.staged() == rows("s1", FIVE) + rows("s2", [b"new"])
    accepted(talk(sink, end("s2", [b"new"])))
    assert contents.staged() == rows("s2", [b"new"])


@pytest.mark.parametrize("published", [False, True])
def test_the_staged_rows_of_a_snapshot_that_was_given_up_go_with_the_next_entries(sink, contents, published):
    base = 10 if published else 0
    if published:
        accepted(talk(sink, *S1, S1_END))
    talk(sink, begin("s2"), chunk("s2", 1, [b"given up"]))
    accepted(
        talk(
            sink,
            batch(base and BASE, tick(base, base + 2, [b"a", b"b"])),
            batch(base + 2, tick(base + 2, base + 3, [b"c"])),
        )
    )
    assert contents.staged() == (rows("s1", FIVE) if published else [])
    assert sink.negotiate(request()).staging.sync_id == ""
    assert [payload for _, payload in contents.log()] == [b"a", b"b", b"c"]


def test_a_frame_without_entries_keeps_the_staged_rows(sink, contents):
    talk(sink, *S1[:2], batch(0))
    answer = sink.negotiate(request())
    assert (answer.staging.sync_id, answer.staging.rows) == ("s1", 3)
    assert contents.staged() == rows("s1", FIVE[:3])


def test_the_applied_position_begins_anew_with_a_snapshot(sink, contents):
    talk(sink, batch(0, tick(0, 20, numbered(1, 15))))
    contents.consume(20)
    assert sink.negotiate(request()).applied_seq == 20
    assert accepted(talk(sink, *S1, S1_END)).applied_seq == 0
    assert sink.negotiate(request()).applied_seq == 0


def test_the_cut_is_kept_until_a_batch_has_passed_it(sink, contents):
    talk(sink, *S1, S1_END)
    assert accepted(talk(sink, batch(BASE, tick(10, 12, [b"a"])))).received.cut == "id/12"
    ack = accepted(talk(sink, batch(Position(BRANCH, 12, "id/12"), tick(12, 13, [b"b"]), cut_passed=True)))
    assert ack.received.cut == ""
    assert contents.marks().cut == ""


def test_no_rollback_goes_behind_a_passed_cut(sink):
    talk(sink, *S1, S1_END)
    passed = batch(BASE, tick(10, 12, [b"a"]), tick(12, 13, [b"b"]), cut_passed=True)
    accepted(talk(sink, passed, batch(13, tick(13, 14, [b"c"]))))
    assert [h.end_seq for h in sink.negotiate(request()).headers] == [14, 13]
    refusal = sink.negotiate(request(rollback_to=Position(BRANCH, 12))).refusal
    assert refusal.kind == pb.Refusal.NO_STREAM_BEGIN


def test_snapshots_of_several_clients_are_independent(sink, contents):
    talk(sink, *S1)
    v2 = session(client="policy_v2")
    talk(sink, begin("s9", by=v2), chunk("s9", 1, [b"x"], by=v2), end("s9", [b"x"], by=v2))
    assert contents.staged() == rows("s1", FIVE) + rows("s9", [b"x"])
