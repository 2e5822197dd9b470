"""The promises of every `Sink`: in process, over a Unix socket, over TCP and TLS; on SQLite and PostgreSQL."""

import pytest
from sqlalchemy import update

from queues.block_limits import MAX_GROUPS, MAX_ROWS
from queues.blocks import EntryRow, encode_entries
from queues.database.tables.receive import receive_marks
from queues.database.transactions import writing
from queues.entry_headers import MAX_STORED_BYTES
from queues.errors import NeedsFullSyncError
from queues.names import site_id
from queues.positions import Position
from queues.receive.fences import fences, reset_fences
from queues.wire import replication_pb2 as pb
from sink import SinkWriter
from sink.answers import ANSWERED_HEADERS
from sink.protocol.versions import SPOKEN
from tests.sink.conftest import Conversation, accepted, refused, talk
from tests.sink.frames import BRANCH, FIRST, SECOND, batch, begin, chunk, numbered, request, session, tick

ALL_FIVE = list(enumerate(numbered(1, 5), start=1))


def position(message):
    return message.branch, message.seq, message.cut


# --- negotiation ------------------------------------------------------------------------------------------------


def test_a_new_session_has_received_no_entry(sink, contents):
    answer = sink.negotiate(request())
    assert answer.site == "tokyo"
    assert (position(answer.received), position(answer.boundary)) == (("", 0, ""), ("", 0, ""))
    assert (answer.applied_seq, answer.sync_id, answer.staging.sync_id, list(answer.headers)) == (0, "", "", [])
    assert contents.queues() == []


def test_the_answer_to_a_negotiation_holds_the_state_of_the_session(sink, contents):
    accepted(talk(sink, FIRST, batch(3, tick(3, 10, numbered(4, 5), complete=False)), begin("s1")))
    contents.consume(2)
    answer = sink.negotiate(request())
    assert (position(answer.received), position(answer.boundary)) == ((BRANCH, 5, ""), (BRANCH, 3, ""))
    assert answer.applied_seq == 2
    headers = [(h.branch, h.end_seq, h.uid, h.mark) for h in answer.headers]
    assert headers == [(BRANCH, 10, 10, ""), (BRANCH, 3, 3, "")], "the open tick's header is told as well"
    assert (answer.staging.sync_id, answer.staging.rows) == ("s1", 0)


def test_the_answer_holds_the_newest_headers_first_up_to_a_limit(sink):
    ticks = [tick(n, n + 1, [b"x"]) for n in range(ANSWERED_HEADERS + 44)]
    accepted(talk(sink, batch(0, *ticks)))
    told = [header.end_seq for header in sink.negotiate(request()).headers]
    assert told == list(range(ANSWERED_HEADERS + 44, 44, -1))


def test_a_source_that_speaks_only_newer_versions_is_refused_in_a_sentence_that_names_the_older_side(sink):
    newer = SPOKEN.newest + 1
    refusal = sink.negotiate(request(oldest=newer, newest=newer + 1)).refusal
    assert refusal.kind == pb.Refusal.PROTOCOL
    assert f"the source {newer} to {newer + 1}: upgrade lrq at the sink tokyo" in refusal.reason


def test_the_question_of_the_doctor_is_answered_without_a_warning(sink, caplog: pytest.LogCaptureFixture):
    assert sink.negotiate(request(oldest=0, newest=0)).refusal.kind == pb.Refusal.PROTOCOL
    assert caplog.text == ""
    sink.negotiate(request(oldest=SPOKEN.newest + 1, newest=SPOKEN.newest + 1))
    assert "frame refused" in caplog.text


def test_a_source_that_also_speaks_newer_versions_gets_the_newest_common_one(sink):
    answer = sink.negotiate(request(newest=SPOKEN.newest + 5))
    assert (answer.HasField("refusal"), answer.protocol) == (False, SPOKEN.newest)


def test_a_source_of_the_first_version_offers_no_range_and_is_answered_in_it(sink):
    answer = sink.negotiate(request(oldest=1, newest=0))
    assert (answer.HasField("refusal"), answer.protocol) == (False, 1)


def test_a_malformed_name_is_refused_and_named(sink):
    refusal = sink.negotiate(request(session(client="po/licy"))).refusal
    assert refusal.kind == pb.Refusal.PROTOCOL
    assert "client name" in refusal.reason


@pytest.mark.parametrize("kind", ["negotiate", "replicate"])
def test_a_frame_for_another_site_is_refused(sink, contents, kind):
    sink.negotiate(request())
    lima = session(sink="lima")
    if kind == "negotiate":
        refusal = sink.negotiate(request(lima)).refusal
    else:
        refusal = refused(list(sink.replicate(iter([batch(0, tick(0, 1, [b"x"]), by=lima)]))))
    assert refusal.kind == pb.Refusal.WRONG_SITE
    assert "'tokyo'" in refusal.reason
    assert contents.queues() == []


# --- streams ----------------------------------------------------------------------------------------------------


def test_a_stream_without_negotiation_is_refused(sink, contents):
    assert refused(list(sink.replicate(iter([FIRST])))).kind == pb.Refusal.NO_STREAM_BEGIN
    assert contents.queues() == []


def test_a_second_stream_needs_its_own_negotiation(sink):
    accepted(talk(sink, FIRST))
    assert refused(list(sink.replicate(iter([SECOND])))).kind == pb.Refusal.NO_STREAM_BEGIN


def test_an_older_stream_of_the_session_is_refused_after_a_new_negotiation(sink, contents):
    sink.negotiate(request())
    older = Conversation(sink)
    accepted([older.say(FIRST)])
    sink.negotiate(request())
    assert refused([older.say(SECOND)]).kind == pb.Refusal.NO_STREAM_BEGIN
    older.hang_up()
    assert contents.log() == ALL_FIVE[:3]
    accepted(list(sink.replicate(iter([SECOND]))))


def test_sessions_are_independent(sink, contents):
    talk(sink, FIRST)
    talk(sink, batch(0, tick(0, 1, [b"x"]), by=session(client="policy_v2")))
    assert contents.queues() == [
        ("LRQ_Recv_policy%5Fv2_paris", "lrq_recv_policy_v2"),
        ("LRQ_Recv_policy_paris", "lrq_recv_policy"),
    ]


def test_sources_are_independent(sink, contents, transport):
    if transport == "attached":
        pytest.skip("an attachment carries the sessions of one source only: tests/sink/attachment")
    talk(sink, FIRST)
    talk(sink, batch(0, tick(0, 1, [b"x"]), by=session(source="lima")))
    assert contents.queues() == [
        ("LRQ_Recv_policy_lima", "lrq_recv_policy"),
        ("LRQ_Recv_policy_paris", "lrq_recv_policy"),
    ]


# --- generations ------------------------------------------------------------------------------------------------


def test_a_lower_generation_is_refused_everywhere(sink, contents):
    talk(sink, batch(0, tick(0, 3, numbered(1, 3)), by=session(generation=2)))
    assert sink.negotiate(request(session(generation=1))).refusal.kind == pb.Refusal.STALE_LEADER
    assert refused(list(sink.replicate(iter([SECOND])))).kind == pb.Refusal.STALE_LEADER
    assert contents.log() == ALL_FIVE[:3]


def test_a_stream_is_refused_after_a_newer_generation_negotiates(sink):
    sink.negotiate(request())
    older = Conversation(sink)
    accepted([older.say(FIRST)])
    sink.negotiate(request(session(generation=2)))
    refusal = refused([older.say(SECOND)])
    older.hang_up()
    assert refusal.kind == pb.Refusal.STALE_LEADER
    assert "generation 1" in refusal.reason


def test_the_generation_is_fenced_before_the_first_entry(sink):
    sink.negotiate(request(session(generation=2)))
    assert sink.negotiate(request(session(generation=1))).refusal.kind == pb.Refusal.STALE_LEADER


def test_the_generation_survives_a_restart_of_the_sink(engine, connect):
    talk(connect(SinkWriter(engine, site_id("tokyo"))), batch(0, tick(0, 1, [b"x"])))
    SinkWriter(engine, site_id("tokyo")).negotiate(request(session(generation=2)))
    refusal = SinkWriter(engine, site_id("tokyo")).negotiate(request(session(generation=1))).refusal
    assert refusal.kind == pb.Refusal.STALE_LEADER


def test_a_refusal_names_the_newest_generation(sink):
    talk(sink, batch(0, tick(0, 1, [b"x"]), by=session(generation=7)))
    assert sink.negotiate(request(session(generation=6))).refusal.known_generation == 7


@pytest.mark.parametrize("generation", [2**40, 2**63 - 1])
def test_a_generation_far_above_the_newest_one_is_not_believed(sink, contents, generation):
    sink.negotiate(request())
    stream = Conversation(sink)
    accepted([stream.say(FIRST)])
    refusal = sink.negotiate(request(session(generation=generation))).refusal
    assert refusal.kind == pb.Refusal.PROTOCOL
    assert "run `lrq fence reset paris` here" in refusal.reason
    # The stream of the honest source goes on.
    accepted([stream.say(SECOND)])
    stream.hang_up()
    assert contents.marks().generation == 1


def test_a_generation_that_cannot_be_outbid_is_never_believed(sink):
    assert sink.negotiate(request(session(generation=2**63 - 1))).refusal.kind == pb.Refusal.PROTOCOL
    talk(sink, batch(0, tick(0, 1, [b"x"]), by=session(generation=2**62)))
    assert sink.negotiate(request(session(generation=2**62 + 1))).refusal.kind == pb.Refusal.PROTOCOL


def test_a_fence_can_be_reset_beside_a_running_sink(engine, sink, contents):
    talk(sink, batch(0, tick(0, 3, numbered(1, 3)), by=session(generation=2**40)))
    assert sink.negotiate(request()).refusal.kind == pb.Refusal.STALE_LEADER
    with writing(engine) as connection:
        reset_fences(connection, fences(connection, site_id("paris")))
    accepted(talk(sink, SECOND))
    assert contents.marks().generation == 1


def test_a_fence_that_is_reset_ends_the_streams_and_the_next_negotiation_fences_again(engine, sink, contents):
    sink.negotiate(request())
    stream = Conversation(sink)
    accepted([stream.say(FIRST)])
    with writing(engine) as connection:
        reset_fences(connection, fences(connection))
    assert refused([stream.say(SECOND)]).kind == pb.Refusal.NO_STREAM_BEGIN
    stream.hang_up()
    accepted(talk(sink, SECOND))
    assert contents.marks().generation == 1


def installed(name, generation=1):
    return pb.SessionId(source="paris", sink="tokyo", client="policy", generation=generation, installation=name)


def test_another_installation_with_the_same_generation_is_refused(sink):
    talk(sink, batch(0, tick(0, 1, [b"x"]), by=installed("b1")))
    refusal = sink.negotiate(request(installed("b2"))).refusal
    assert (refusal.kind, refusal.known_generation) == (pb.Refusal.STALE_LEADER, 1)
    assert refusal.reason == "another installation of paris has generation 1 already"
    assert not sink.negotiate(request(installed("b1"))).HasField("refusal")
    assert not sink.negotiate(request(installed("b2", 2))).HasField("refusal")


def test_a_source_that_names_no_installation_is_admitted(sink):
    talk(sink, batch(0, tick(0, 1, [b"x"]), by=installed("b1")))
    assert not sink.negotiate(request(installed(""))).HasField("refusal")


def test_an_absurd_installation_is_refused(sink):
    assert sink.negotiate(request(installed("b" * 201))).refusal.kind == pb.Refusal.CORRUPT


def test_a_stream_is_refused_after_a_newer_generation_negotiates_with_another_server(engine, connect, contents):
    sink, other = connect(SinkWriter(engine, site_id("tokyo"))), SinkWriter(engine, site_id("tokyo"))
    sink.negotiate(request())
    stream = Conversation(sink)
    accepted([stream.say(FIRST)])
    other.negotiate(request(session(generation=2)))
    assert refused([stream.say(SECOND)]).kind == pb.Refusal.STALE_LEADER
    stream.hang_up()
    assert contents.log() == ALL_FIVE[:3]


# --- log entries ------------------------------------------------------------------------------------------------


def test_a_batch_is_stored_with_its_position_and_headers(sink, contents):
    ack = accepted(talk(sink, batch(0, tick(0, 3, numbered(1, 3), first_of=[0, 0, 2]), tick(3, 9, numbered(4, 5)))))
    assert position(ack.received) == (BRANCH, 9, "")
    assert contents.log() == ALL_FIVE
    assert contents.transactions() == [(1, 1), (2, 1), (3, 3), (4, 4), (5, 4)]
    assert contents.headers() == [(BRANCH, 3, 3, "id/3"), (BRANCH, 9, 9, "id/9")]
    marks = contents.marks()
    assert (marks.seq, marks.boundary_seq, marks.entries_total, marks.source_seq) == (9, 9, 5, 99)


def test_the_queue_is_announced_with_the_first_rows(sink, contents):
    talk(sink, batch(0))
    assert contents.queues() == []
    talk(sink, FIRST)
    assert contents.queues() == [("LRQ_Recv_policy_paris", "lrq_recv_policy")]


def test_every_frame_has_an_answer(sink):
    acks = talk(sink, FIRST, FIRST, SECOND, batch(5), batch(5, tick(5, 8)))
    assert [ack.received.seq for ack in acks] == [3, 3, 5, 5, 8]


def test_every_answer_holds_the_position_of_the_subscriber(sink, contents):
    sink.negotiate(request())
    stream = Conversation(sink)
    assert accepted([stream.say(FIRST)]).applied_seq == 0
    contents.consume(2)
    assert accepted([stream.say(SECOND)]).applied_seq == 2
    stream.hang_up()


def test_a_repeated_batch_is_stored_once(sink, contents):
    ack = accepted(talk(sink, FIRST, FIRST))
    assert ack.received.seq == 3
    accepted(talk(sink, FIRST))
    assert contents.log() == ALL_FIVE[:3]
    assert contents.marks().duplicates_total == 6


def test_overlapping_batches_are_stored_once(sink, contents):
    both = batch(0, tick(0, 3, numbered(1, 3)), tick(3, 5, numbered(4, 5)))
    ack = accepted(talk(sink, FIRST, both, SECOND))
    assert ack.received.seq == 5
    assert contents.log() == ALL_FIVE


def test_a_tick_in_parts_is_trimmed_to_the_row(sink, contents):
    parts = [
        batch(0, tick(0, 9, numbered(1, 2), complete=False)),
        batch(0, tick(0, 9, numbered(1, 3), complete=False)),
        batch(2, tick(0, 9, numbered(3, 4), first_index=2, complete=False)),
    ]
    ack = accepted(talk(sink, *parts))
    assert (ack.received.seq, contents.marks().boundary_seq) == (4, 0)
    accepted(talk(sink, batch(4, tick(0, 9, numbered(5, 5), first_index=4))))
    assert contents.log() == ALL_FIVE
    assert contents.transactions() == [(n, 1) for n in range(1, 6)]
    assert (contents.marks().seq, contents.marks().boundary_seq) == (9, 9)
    assert contents.headers() == [(BRANCH, 9, 9, "id/9")]


def test_a_gap_is_refused_and_no_entry_is_stored(sink, contents):
    assert refused(talk(sink, FIRST, batch(4, tick(4, 5, [b"x"])))).kind == pb.Refusal.GAP
    assert contents.log() == ALL_FIVE[:3]


def test_a_refusal_ends_the_stream(sink, contents):
    acks = talk(sink, batch(0), batch(0, tick(0, 3, numbered(1, 3))), batch(7), batch(3, tick(3, 5, numbered(4, 5))))
    assert len(acks) == 3
    assert refused(acks).kind == pb.Refusal.GAP
    assert contents.log() == ALL_FIVE[:3]


def test_an_empty_payload_and_an_item_key_arrive(sink, contents):
    group = tick(0, 2)
    group.block.CopyFrom(encode_entries([EntryRow(b"", 0, 5, "clé"), EntryRow(b"\x00", 0, 5)]))
    accepted(talk(sink, batch(0, group)))
    rows = [(row.payload, row.item_key, row.committed_us) for row in contents.received()]
    assert rows == [(b"", "clé", 5), (b"\x00", None, 5)]


def test_the_headers_of_several_ticks_arrive_at_their_own_entries(sink, contents):
    rows = [
        [EntryRow(b"1", 0, 5)],
        [EntryRow(b"2", 0, 5, None, '{"a":"b"}'), EntryRow(b"3", 0, 5)],
        [EntryRow(b"4", 0, 5)],
        [EntryRow(b"5", 0, 5, None, None, "north")],
        [EntryRow(b"6", 0, 5)],
    ]
    groups, seq = [], 0
    for some in rows:
        group = tick(seq, seq + len(some))
        group.block.CopyFrom(encode_entries(some))
        groups.append(group)
        seq += len(some)
    accepted(talk(sink, batch(0, *groups)))
    found = [(row.payload, row.headers, row.partition_key) for row in contents.received()]
    assert found == [(row.payload, row.headers, row.partition_key) for some in rows for row in some]


def test_headers_beyond_the_limits_are_found_when_their_block_is_unpacked(sink, contents):
    group = tick(0, 1)
    large = '{"a":"' + "x" * MAX_STORED_BYTES + '"}'
    group.block.CopyFrom(encode_entries([EntryRow(b"1", 0, 5, None, large)]))
    accepted(talk(sink, batch(0, group)))
    with pytest.raises(NeedsFullSyncError, match="more than 8256 bytes"):
        contents.log()


# --- faults --------------------------------------------------------------------------------------------------------


def test_no_entry_is_stored_twice_after_a_lost_acknowledgement(sink, contents):
    sink.negotiate(request())
    dropped = Conversation(sink)
    accepted([dropped.say(FIRST)])
    dropped.hang_up()
    assert sink.negotiate(request()).received.seq == 3
    accepted(list(sink.replicate(iter([FIRST, SECOND]))))
    assert contents.log() == ALL_FIVE


def test_no_entry_is_stored_twice_after_a_crash_before_the_acknowledgement(engine, connect, contents):
    crashing = connect(SinkWriter(engine, site_id("tokyo")))
    talk(crashing, FIRST)
    restarted = SinkWriter(engine, site_id("tokyo"))
    answer = restarted.negotiate(request())
    assert answer.received.seq == 3
    accepted(list(restarted.replicate(iter([FIRST, SECOND]))))
    assert contents.log() == ALL_FIVE


def damaged(frame):
    copy = pb.Frame()
    copy.CopyFrom(frame)
    block = copy.batch.groups[-1].block if copy.HasField("batch") else copy.snapshot_chunk.blocks[0]
    block.body = block.body[:-1] + bytes([block.body[-1] ^ 1])
    return copy


def test_a_damaged_block_is_refused_and_nothing_of_its_frame_is_stored(sink, contents):
    both = batch(3, tick(3, 5, numbered(4, 5)), tick(5, 6, [b"x"]))
    refusal = refused(talk(sink, FIRST, damaged(both)))
    assert refusal.kind == pb.Refusal.CORRUPT
    assert "checksum" in refusal.reason
    assert contents.log() == ALL_FIVE[:3]
    assert contents.marks().seq == 3


def test_a_damaged_first_frame_does_not_announce_the_queue(sink, contents):
    assert refused(talk(sink, damaged(FIRST))).kind == pb.Refusal.CORRUPT
    assert contents.queues() == []


def test_a_frame_above_the_limit_is_refused_with_the_limit(engine, connect, contents):
    sink = connect(SinkWriter(engine, site_id("tokyo"), max_frame_bytes=1000))
    for frame in (batch(0, tick(0, 2, [b"a" * 600] * 2)), chunk("s1", 1, [b"a" * 1200])):
        refusal = refused(talk(sink, begin("s1"), frame))
        assert refusal.kind == pb.Refusal.TOO_LARGE
        assert "takes 1000" in refusal.reason
    assert (contents.log(), contents.staged()) == ([], [])


def test_a_frame_that_says_too_many_rows_or_ticks_is_refused_before_any_is_unpacked(sink, contents):
    many = pb.Block(rows=MAX_ROWS // 2 + 1, plain_size=MAX_ROWS + 2)
    groups = [tick(0, MAX_ROWS), tick(MAX_ROWS, 2 * MAX_ROWS)]
    for group in groups:
        group.block.CopyFrom(many)
    rows = pb.Frame(session=session(), snapshot_chunk=pb.SnapshotChunk(sync_id="s1", first_row=1, blocks=[many, many]))
    for frame in (batch(0, *groups), rows):
        refusal = refused(talk(sink, begin("s1"), frame))
        assert refusal.kind == pb.Refusal.TOO_LARGE
        assert f"says {MAX_ROWS + 2} rows, and a frame has at most {MAX_ROWS}" in refusal.reason
    refusal = refused(talk(sink, batch(0, *[pb.TickGroup()] * (MAX_GROUPS + 1))))
    assert refusal.kind == pb.Refusal.TOO_LARGE
    assert f"holds {MAX_GROUPS + 1} ticks" in refusal.reason
    assert (contents.log(), contents.staged()) == ([], [])


def test_a_frame_of_an_unknown_kind_is_refused(sink):
    assert refused(talk(sink, pb.Frame(session=session()))).kind == pb.Refusal.PROTOCOL


def test_a_number_that_no_database_can_hold_is_refused(sink):
    assert refused(talk(sink, batch(0, tick(0, 2**63, [b"x"])))).kind == pb.Refusal.CORRUPT


def test_a_locked_database_gives_a_transient_refusal_and_the_frame_can_be_repeated(
    engine, impatient, connect, contents
):
    sink = connect(SinkWriter(impatient, site_id("tokyo")))
    talk(sink, FIRST)
    sink.negotiate(request())
    with engine.begin() as connection:
        connection.execute(update(receive_marks).values(updated_us=1))
        refusal = refused(list(sink.replicate(iter([SECOND]))))
    assert refusal.kind == pb.Refusal.TRANSIENT
    assert contents.log() == ALL_FIVE[:3]
    accepted(talk(sink, SECOND))
    assert contents.log() == ALL_FIVE


# --- rollback ---------------------------------------------------------------------------------------------------


def test_a_rollback_removes_the_entries_after_the_header(sink, contents):
    accepted(talk(sink, FIRST, SECOND, batch(5, tick(5, 9, [b"x"], complete=False))))
    contents.consume(3)
    answer = sink.negotiate(request(rollback_to=Position(BRANCH, 3)))
    assert position(answer.received) == position(answer.boundary) == (BRANCH, 3, "")
    assert [header.end_seq for header in answer.headers] == [3]
    assert contents.log() == ALL_FIVE[:3]
    accepted(list(sink.replicate(iter([batch(3, tick(3, 4, [b"y"], branch="b2"))]))))
    assert contents.log()[-1] == (4, b"y")


def test_a_rollback_removes_an_open_tick(sink, contents):
    accepted(talk(sink, FIRST, batch(3, tick(3, 9, [b"x"], complete=False))))
    contents.consume(3)
    answer = sink.negotiate(request(rollback_to=Position(BRANCH, 3)))
    assert (answer.received.seq, [h.end_seq for h in answer.headers]) == (3, [3])
    accepted(list(sink.replicate(iter([batch(3, tick(3, 8, [b"y"]))]))))
    assert contents.log() == [*ALL_FIVE[:3], (4, b"y")]
    assert [seq for _, seq, _, _ in contents.headers()] == [3, 8]


def test_a_rollback_does_not_remove_applied_entries(sink, contents):
    accepted(talk(sink, FIRST, SECOND))
    contents.consume(4)
    refusal = sink.negotiate(request(rollback_to=Position(BRANCH, 3))).refusal
    assert refusal.kind == pb.Refusal.CONSUMED
    assert contents.log() == ALL_FIVE


def test_a_rollback_removes_applied_entries_if_the_subscriber_can_undo_them(sink, contents):
    accepted(talk(sink, FIRST, SECOND))
    contents.consume(4, undoes=True)
    assert sink.negotiate(request()).undoes
    answer = sink.negotiate(request(rollback_to=Position(BRANCH, 3)))
    assert (answer.received.seq, answer.applied_seq) == (3, 3)
    assert contents.log() == ALL_FIVE[:3]
    assert contents.to_undo() == 3
    accepted(list(sink.replicate(iter([batch(3, tick(3, 4, [b"y"], branch="b2"))]))))
    assert sink.negotiate(request()).applied_seq == 3, "what comes instead is not applied yet"


def test_a_rollback_to_an_unknown_header_is_refused(sink, contents):
    accepted(talk(sink, FIRST, SECOND))
    refusal = sink.negotiate(request(rollback_to=Position(BRANCH, 2))).refusal
    assert refusal.kind == pb.Refusal.NO_STREAM_BEGIN
    assert contents.log() == ALL_FIVE
