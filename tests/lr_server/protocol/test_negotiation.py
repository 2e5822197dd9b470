"""The position at which a session continues, case by case."""

from dataclasses import replace

import pytest

from lr_server.protocol.histories import Branch, OfferedSnapshot, SinkHistory, SourceHistory, StagedSnapshot, TickKey
from lr_server.protocol.negotiation import (
    FIRST_SNAPSHOT,
    AwaitSnapshot,
    Cause,
    ConfirmSnapshot,
    Decision,
    InitialSync,
    Rebuild,
    Resume,
    ResumeSnapshot,
    Rollback,
    begins_with_log,
    decide,
    obsolete_request,
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


def test_an_empty_sink_gets_a_snapshot_first():
    assert causes(SOURCE, NEW) is Cause.NOTHING_YET


def test_without_snapshots_an_empty_sink_begins_with_the_oldest_kept_entry():
    decision = decided(replace(SOURCE, trimmed_seq=15, lost_seq=15), NEW, initial_sync="log")
    assert isinstance(decision, Resume)
    assert (decision.position.seq, decision.read_after) == (0, 15)


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("is_provided", [True, False])
@pytest.mark.parametrize("setting", ["auto", "snapshot", "log"])
def test_only_a_whole_log_without_a_provider_begins_a_session_by_itself(
    setting: InitialSync, is_provided: bool, is_whole: bool
):
    source = replace(SOURCE, trimmed_seq=15, is_whole=is_whole, is_provided=is_provided)
    expected = setting == "log" or (setting == "auto" and is_whole and not is_provided)
    assert begins_with_log(source, setting) == expected
    decision = decided(source, NEW, initial_sync=setting)
    if expected:
        assert isinstance(decision, Resume)
        assert (decision.position.seq, decision.read_after) == (0, 15)
    else:
        assert decision == Rebuild(Cause.NOTHING_YET, FIRST_SNAPSHOT)


@pytest.mark.parametrize("setting", ["auto", "log"])
def test_a_member_of_replicas_begins_with_a_whole_log_only(setting: InitialSync):
    whole = replace(SOURCE, is_member=True, is_whole=True)
    assert begins_with_log(whole, setting)
    assert not begins_with_log(replace(whole, is_whole=False), setting)


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("is_provided", [True, False])
def test_a_session_that_has_begun_never_flips(is_provided: bool, is_whole: bool):
    source = replace(SOURCE, is_whole=is_whole, is_provided=is_provided)
    assert decided(source, AT_20, initial_sync="auto") == decided(SOURCE, AT_20)
    with_snapshot = SinkHistory(Position("b", 0, "id/0"), sync_id="s")
    assert decided(source, with_snapshot, initial_sync="auto") == decided(SOURCE, with_snapshot)


FIRST = OfferedSnapshot("s", is_first=True)


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("is_provided", [True, False])
def test_the_request_for_a_first_snapshot_is_obsolete_once_its_provider_has_left_a_whole_log(
    is_provided: bool, is_whole: bool
):
    waiting = replace(SOURCE, snapshot=FIRST, is_whole=is_whole, is_provided=is_provided)
    obsolete = "s" if is_whole and not is_provided else None
    assert obsolete_request(waiting, NEW, initial_sync="auto") == obsolete


def test_the_request_for_a_first_snapshot_is_obsolete_once_sessions_begin_with_the_log():
    waiting = replace(SOURCE, snapshot=FIRST)
    assert obsolete_request(waiting, NEW, initial_sync="log") == "s"
    assert obsolete_request(waiting, NEW, initial_sync="snapshot") is None


@pytest.mark.parametrize(
    ("offered", "sink"),
    [
        (None, NEW),
        (replace(FIRST, is_first=False), NEW),
        (replace(FIRST, ready=True), NEW),
        (FIRST, replace(NEW, staged=StagedSnapshot("s", 1))),
        (FIRST, AT_20),
        (FIRST, replace(NEW, sync_id="t")),
    ],
)
def test_an_ordered_or_ready_or_arriving_snapshot_is_never_obsolete(offered: OfferedSnapshot | None, sink: SinkHistory):
    source = replace(SOURCE, snapshot=offered, is_whole=True)
    assert obsolete_request(source, sink, initial_sync="log") is None
    assert obsolete_request(source, sink, initial_sync="auto") is None


def test_a_sink_with_a_snapshot_of_an_empty_log_continues_with_the_log():
    sink = SinkHistory(Position("b", 0, "id/0"), sync_id="s")
    assert isinstance(decided(SOURCE, sink), Resume)


# --- resume ---------------------------------------------------------------------------------------------------


def test_a_known_header_resumes_exactly_at_the_received_position():
    decision = decided()
    assert decision == Resume(Position("b", 20), 20, "source and sink agree on everything up to 20")


def test_a_resume_keeps_the_cut_of_a_snapshot():
    position = Position("b", 20, "id/25")
    decision = decided(SOURCE, replace(AT_20, received=position))
    assert isinstance(decision, Resume)
    assert decision.position == position


def test_a_sink_in_the_middle_of_a_known_tick_resumes_there():
    sink = replace(AT_20, received=Position("b", 24), headers=(T30, T20, T10))
    decision = decided(SOURCE, sink)
    assert isinstance(decision, Resume)
    assert decision.position.seq == 24


def test_a_sink_in_an_older_branch_resumes_before_the_branch_ends():
    source = replace(SOURCE, branches=(Branch("b", 0), Branch("c", 20)))
    assert isinstance(decided(source, AT_20), Resume)


def test_a_quiet_session_resumes_though_all_other_entries_are_trimmed():
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


def test_a_source_with_another_history_under_the_same_numbers_is_noticed():
    source = SourceHistory(BRANCH, newest_seq=40, known=frozenset({T10}))
    decision = decided(source, AT_20)
    assert isinstance(decision, Rollback)
    assert decision.position.seq == 10


def test_a_sink_beyond_the_end_of_its_branch_goes_back_before_the_end():
    source = SourceHistory((Branch("b", 0), Branch("c", 10)), newest_seq=40, known=frozenset({T10}))
    decision = decided(source, AT_20)
    assert isinstance(decision, Rollback)
    assert decision.position.seq == 10


def test_a_sink_in_the_middle_of_an_unknown_tick_goes_back_to_its_start():
    decision = decided(SOURCE, replace(AT_20, received=Position("b", 24)))
    assert isinstance(decision, Rollback)
    assert decision.position == Position("b", 20)


def test_going_back_to_the_start_of_an_unknown_tick_keeps_the_cut():
    decision = decided(SOURCE, replace(AT_20, received=Position("b", 24, "id/25")))
    assert isinstance(decision, Rollback)
    assert decision.position == Position("b", 20, "id/25")


def test_a_sink_in_the_middle_of_the_first_tick_goes_back_to_0():
    decision = decided(SOURCE, SinkHistory(Position("b", 4)))
    assert isinstance(decision, Rollback)
    assert decision.position == Position("b", 0)


# --- rebuild --------------------------------------------------------------------------------------------------


def test_a_sink_that_has_applied_lost_entries_is_rebuilt():
    source = SourceHistory(BRANCH, newest_seq=15, known=frozenset({T10}))
    assert causes(source, replace(AT_20, applied_seq=11)) is Cause.APPLIED


def test_a_listener_that_can_undo_entries_is_rolled_back_instead_of_rebuilt():
    source = SourceHistory(BRANCH, newest_seq=15, known=frozenset({T10}))
    decision = decided(source, replace(AT_20, applied_seq=11, undoes=True))
    assert isinstance(decision, Rollback)
    assert decision.position == Position("b", 10)
    assert "undoes what it has applied up to 11" in decision.reason


def test_a_sink_without_a_shared_header_is_rebuilt():
    assert causes(SourceHistory(BRANCH, newest_seq=40), AT_20) is Cause.NO_COMMON_HISTORY


def test_a_sink_on_an_unknown_branch_is_rebuilt():
    sink = SinkHistory(Position("z", 20), 20, 10, (TickKey("z", 20, 9), TickKey("z", 10, 8)))
    assert causes(SOURCE, sink) is Cause.NO_COMMON_HISTORY


def test_a_sink_that_has_not_received_trimmed_entries_is_rebuilt():
    assert causes(replace(SOURCE, trimmed_seq=30, lost_seq=30), AT_20) is Cause.TRIMMED


def test_a_rollback_is_impossible_if_the_entries_after_the_shared_header_are_trimmed():
    source = SourceHistory(BRANCH, newest_seq=15, trimmed_seq=15, lost_seq=15, known=frozenset({T10}))
    assert causes(source, AT_20) is Cause.TRIMMED


def test_a_cut_is_invalid_in_another_branch():
    source = replace(SOURCE, branches=(Branch("b", 0), Branch("c", 30)))
    assert causes(source, replace(AT_20, received=Position("b", 20, "id/25"))) is Cause.CUT


def test_a_cut_is_invalid_in_another_history_of_the_same_branch():
    source = replace(SOURCE, knows_cut=False)
    assert causes(source, replace(AT_20, received=Position("b", 20, "id/25"))) is Cause.CUT


def test_a_sink_whose_log_has_passed_its_cut_resumes_though_nothing_tells_of_the_snapshot():
    assert isinstance(decided(replace(SOURCE, knows_cut=False), AT_20), Resume)


@pytest.mark.parametrize("lacked_base", [20, 30])
def test_a_sink_from_before_its_snapshot_is_rebuilt(lacked_base: int):
    assert causes(replace(SOURCE, lacked_base=lacked_base), AT_20) is Cause.SET_BACK


@pytest.mark.parametrize("lacked_base", [-1, 19])
def test_a_sink_that_has_a_snapshot_or_the_log_after_it_resumes(lacked_base: int):
    assert isinstance(decided(replace(SOURCE, lacked_base=lacked_base), AT_20), Resume)


def test_a_snapshot_beyond_the_shared_history_cannot_be_rolled_back():
    source = SourceHistory(BRANCH, newest_seq=15, known=frozenset({T10}))
    assert causes(source, replace(AT_20, received=Position("b", 20, "id/25"))) is Cause.CUT


def test_an_ordered_full_sync_keeps_its_reason():
    decision = decided(SOURCE, AT_20, forced="an operator asked for it")
    assert decision == Rebuild(Cause.ORDERED, "an operator asked for it")


# --- an offered snapshot --------------------------------------------------------------------------------------


def test_a_requested_snapshot_is_awaited_though_the_log_could_continue():
    decision = decided(replace(SOURCE, snapshot=OfferedSnapshot("s")), AT_20)
    assert isinstance(decision, AwaitSnapshot)
    assert decision.sync_id == "s"


def test_a_ready_snapshot_continues_after_the_staged_rows():
    source = replace(SOURCE, snapshot=READY)
    for staged, rows in ((None, 0), (StagedSnapshot("s", 60), 60), (StagedSnapshot("older", 60), 0)):
        decision = decided(source, replace(NEW, staged=staged))
        assert decision == ResumeSnapshot("s", rows, f"snapshot s is ready, the sink has {rows} of its 100 rows")


def test_a_snapshot_with_a_lost_acknowledgement_is_not_sent_again():
    sink = replace(AT_20, received=READY.base, boundary_seq=30, sync_id="s", headers=(T30,))
    decision = decided(replace(SOURCE, snapshot=READY), sink)
    assert isinstance(decision, ConfirmSnapshot)
    assert isinstance(decided(SOURCE, sink), Resume)


def test_a_snapshot_with_a_trimmed_base_is_unusable():
    source = replace(SOURCE, snapshot=READY, trimmed_seq=40, lost_seq=40)
    assert causes(source, NEW) is Cause.TRIMMED


def test_a_snapshot_of_another_history_is_unusable():
    source = replace(SOURCE, snapshot=replace(READY, base=Position("z", 30)))
    assert causes(source, NEW) is Cause.SNAPSHOT_UNUSABLE


def test_a_snapshot_with_fewer_rows_than_the_staged_ones_is_unusable():
    sink = replace(NEW, staged=StagedSnapshot("s", 101))
    assert causes(replace(SOURCE, snapshot=READY), sink) is Cause.SNAPSHOT_UNUSABLE


def test_a_restored_source_does_not_build_a_snapshot_with_an_id_that_the_sink_knows():
    source = replace(SOURCE, snapshot=OfferedSnapshot("s"))
    assert causes(source, replace(AT_20, sync_id="s")) is Cause.SNAPSHOT_UNUSABLE


def test_a_snapshot_that_is_being_built_is_awaited_though_the_sink_has_rows_of_it():
    source = replace(SOURCE, snapshot=OfferedSnapshot("s"))
    assert isinstance(decided(source, replace(NEW, staged=StagedSnapshot("s", 1))), AwaitSnapshot)


# --- the peer -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("boundary", [-1, 21])
def test_a_sink_that_contradicts_itself_is_refused(boundary: int):
    with pytest.raises(ProtocolError, match="contradicts itself"):
        replace(AT_20, boundary_seq=boundary)
