"""Where a session continues: one case a line of reasoning."""

from dataclasses import replace

import pytest

from lr_server.histories import Branch, OfferedSnapshot, SinkHistory, SourceHistory, StagedSnapshot, TickKey
from lr_server.negotiation import (
    AwaitSnapshot,
    Cause,
    ConfirmSnapshot,
    Decision,
    Rebuild,
    Resume,
    ResumeSnapshot,
    Rollback,
    decide,
)
from queues.errors import ProtocolError
from queues.positions import Position

T10, T20, T30 = TickKey("b", 10, 1), TickKey("b", 20, 2), TickKey("b", 30, 3)
BRANCH = (Branch("b", 0),)
SOURCE = SourceHistory(BRANCH, newest_seq=40, known=frozenset({T10, T20, T30}))
AT_20 = SinkHistory(Position("b", 20), boundary_seq=20, applied_seq=10, headers=(T20, T10))
NEW = SinkHistory()
READY = OfferedSnapshot("s", ready=True, base=Position("b", 30, "id/33"), rows=100)


def decided(source: SourceHistory = SOURCE, sink: SinkHistory = AT_20, **more: str) -> Decision:
    return decide(source, sink, **{"initial_sync": "snapshot", **more})  # type: ignore[arg-type]


def causes(source: SourceHistory, sink: SinkHistory, **more: str) -> Cause:
    decision = decided(source, sink, **more)
    assert isinstance(decision, Rebuild)
    return decision.cause


# --- the beginning --------------------------------------------------------------------------------------------


def test_a_sink_that_has_nothing_gets_a_snapshot_first():
    assert causes(SOURCE, NEW) is Cause.NOTHING_YET


def test_without_snapshots_it_begins_with_the_oldest_kept_entry():
    decision = decided(replace(SOURCE, trimmed_seq=15, lost_seq=15), NEW, initial_sync="log")
    assert isinstance(decision, Resume)
    assert (decision.position.seq, decision.read_after) == (0, 15)


def test_a_sink_whose_first_snapshot_was_of_an_empty_log_goes_on_with_the_log():
    sink = SinkHistory(Position("b", 0, "id/0"), sync_id="s")
    assert isinstance(decided(SOURCE, sink), Resume)


# --- resume ---------------------------------------------------------------------------------------------------


def test_a_known_header_resumes_exactly_at_what_was_received():
    decision = decided()
    assert decision == Resume(Position("b", 20), 20, "source and sink agree on everything up to 20")


def test_the_cut_of_a_snapshot_is_carried_on():
    position = Position("b", 20, "id/25")
    decision = decided(SOURCE, replace(AT_20, received=position))
    assert isinstance(decision, Resume)
    assert decision.position == position


def test_in_the_middle_of_a_known_tick_it_resumes_there():
    sink = replace(AT_20, received=Position("b", 24), headers=(T30, T20, T10))
    decision = decided(SOURCE, sink)
    assert isinstance(decision, Resume)
    assert decision.position.seq == 24


def test_an_older_branch_resumes_up_to_where_it_ended():
    source = replace(SOURCE, branches=(Branch("b", 0), Branch("c", 20)))
    assert isinstance(decided(source, AT_20), Resume)


def test_a_quiet_session_resumes_though_everything_else_is_trimmed():
    decision = decided(replace(SOURCE, trimmed_seq=40, lost_seq=20), AT_20)
    assert isinstance(decision, Resume)
    assert (decision.position.seq, decision.read_after) == (20, 40)


# --- rollback -------------------------------------------------------------------------------------------------


def test_a_sink_ahead_of_a_restored_source_goes_back_to_the_newest_shared_header():
    source = SourceHistory(BRANCH, newest_seq=15, known=frozenset({T10}))
    decision = decided(source, AT_20)
    assert isinstance(decision, Rollback)
    assert decision.position == Position("b", 10)
    assert "received up to 20" in decision.reason


def test_a_source_that_went_another_way_under_the_same_numbers_is_noticed():
    source = SourceHistory(BRANCH, newest_seq=40, known=frozenset({T10}))
    decision = decided(source, AT_20)
    assert isinstance(decision, Rollback)
    assert decision.position.seq == 10


def test_a_sink_beyond_the_end_of_its_branch_goes_back_to_before_it():
    source = SourceHistory((Branch("b", 0), Branch("c", 10)), newest_seq=40, known=frozenset({T10}))
    decision = decided(source, AT_20)
    assert isinstance(decision, Rollback)
    assert decision.position.seq == 10


def test_in_the_middle_of_an_unknown_tick_it_goes_back_to_where_the_tick_began():
    decision = decided(SOURCE, replace(AT_20, received=Position("b", 24)))
    assert isinstance(decision, Rollback)
    assert decision.position == Position("b", 20)


def test_the_beginning_of_an_unknown_tick_keeps_the_cut():
    decision = decided(SOURCE, replace(AT_20, received=Position("b", 24, "id/25")))
    assert isinstance(decision, Rollback)
    assert decision.position == Position("b", 20, "id/25")


def test_in_the_middle_of_the_very_first_tick_it_goes_back_to_nothing():
    decision = decided(SOURCE, SinkHistory(Position("b", 4)))
    assert isinstance(decision, Rollback)
    assert decision.position == Position("b", 0)


# --- rebuild --------------------------------------------------------------------------------------------------


def test_applied_entries_cannot_be_undone():
    source = SourceHistory(BRANCH, newest_seq=15, known=frozenset({T10}))
    assert causes(source, replace(AT_20, applied_seq=11)) is Cause.APPLIED


def test_a_listener_that_undoes_what_it_has_applied_saves_a_snapshot():
    source = SourceHistory(BRANCH, newest_seq=15, known=frozenset({T10}))
    decision = decided(source, replace(AT_20, applied_seq=11, undoes=True))
    assert isinstance(decision, Rollback)
    assert decision.position == Position("b", 10)
    assert "undoes what it has applied up to 11" in decision.reason


def test_without_a_shared_header_nothing_can_be_kept():
    assert causes(SourceHistory(BRANCH, newest_seq=40), AT_20) is Cause.NO_COMMON_HISTORY


def test_a_foreign_branch_shares_nothing():
    sink = SinkHistory(Position("z", 20), 20, 10, (TickKey("z", 20, 9), TickKey("z", 10, 8)))
    assert causes(SOURCE, sink) is Cause.NO_COMMON_HISTORY


def test_entries_that_were_trimmed_before_they_were_received_need_a_snapshot():
    assert causes(replace(SOURCE, trimmed_seq=30, lost_seq=30), AT_20) is Cause.TRIMMED


def test_what_was_trimmed_below_the_shared_header_is_no_way_back():
    source = SourceHistory(BRANCH, newest_seq=15, trimmed_seq=15, lost_seq=15, known=frozenset({T10}))
    assert causes(source, AT_20) is Cause.TRIMMED


def test_a_cut_means_nothing_in_another_branch():
    source = replace(SOURCE, branches=(Branch("b", 0), Branch("c", 30)))
    assert causes(source, replace(AT_20, received=Position("b", 20, "id/25"))) is Cause.CUT


def test_behind_a_snapshot_that_goes_beyond_the_shared_history_there_is_no_way_back():
    source = SourceHistory(BRANCH, newest_seq=15, known=frozenset({T10}))
    assert causes(source, replace(AT_20, received=Position("b", 20, "id/25"))) is Cause.CUT


def test_a_full_sync_that_was_ordered_says_why():
    decision = decided(SOURCE, AT_20, forced="an operator asked for it")
    assert decision == Rebuild(Cause.ORDERED, "an operator asked for it")


# --- a snapshot is offered ------------------------------------------------------------------------------------


def test_a_request_that_is_not_ready_is_waited_for_though_the_log_could_go_on():
    decision = decided(replace(SOURCE, snapshot=OfferedSnapshot("s")), AT_20)
    assert isinstance(decision, AwaitSnapshot)
    assert decision.sync_id == "s"


def test_a_ready_snapshot_goes_on_after_the_rows_that_are_staged():
    source = replace(SOURCE, snapshot=READY)
    for staged, rows in ((None, 0), (StagedSnapshot("s", 60), 60), (StagedSnapshot("older", 60), 0)):
        decision = decided(source, replace(NEW, staged=staged))
        assert decision == ResumeSnapshot("s", rows, f"snapshot s is ready, the sink has {rows} of its 100 rows")


def test_a_snapshot_whose_acknowledgement_was_lost_is_not_sent_again():
    sink = replace(AT_20, received=READY.base, boundary_seq=30, sync_id="s", headers=(T30,))
    decision = decided(replace(SOURCE, snapshot=READY), sink)
    assert isinstance(decision, ConfirmSnapshot)
    assert isinstance(decided(SOURCE, sink), Resume)


def test_a_snapshot_whose_base_is_trimmed_is_useless():
    source = replace(SOURCE, snapshot=READY, trimmed_seq=40, lost_seq=40)
    assert causes(source, NEW) is Cause.TRIMMED


def test_a_snapshot_of_another_history_is_useless():
    source = replace(SOURCE, snapshot=replace(READY, base=Position("z", 30)))
    assert causes(source, NEW) is Cause.SNAPSHOT_UNUSABLE


def test_staged_rows_that_the_snapshot_does_not_have_are_of_another_one():
    sink = replace(NEW, staged=StagedSnapshot("s", 101))
    assert causes(replace(SOURCE, snapshot=READY), sink) is Cause.SNAPSHOT_UNUSABLE


def test_a_restored_source_does_not_build_a_snapshot_under_an_id_that_the_sink_has_rows_of():
    source = replace(SOURCE, snapshot=OfferedSnapshot("s"))
    assert causes(source, replace(AT_20, sync_id="s")) is Cause.SNAPSHOT_UNUSABLE
    assert causes(source, replace(NEW, staged=StagedSnapshot("s", 1))) is Cause.SNAPSHOT_UNUSABLE


# --- the peer -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("boundary", [-1, 21])
def test_a_sink_that_contradicts_itself_is_refused(boundary: int):
    with pytest.raises(ProtocolError, match="contradicts itself"):
        replace(AT_20, boundary_seq=boundary)
