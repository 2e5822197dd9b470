"""Whether a receive queue may go back behind applied entries because an operator has ordered that. Pure.

The order is checked as it is given, and again in the transaction that carries it out. The source checks in between
that it still holds the entries.
"""

from dataclasses import dataclass, replace

from queues.positions import Position
from queues.receive.marks import NOT_ENDED, ReceiveState


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """The facts about a receive queue that decide about a replay.

    `is_in_log`: the subscriber applies the log behind the newest snapshot. Everything up to `applied_seq` is applied by
    at least one shard. No position before `floor_seq` is whole here without a snapshot. `undoes`: the listener can undo
    applied entries. `is_undoing`: the listener still has to.
    """

    is_in_log: bool
    applied_seq: int
    floor_seq: int
    undoes: bool
    is_undoing: bool
    has_ended: bool


def refuse_replay(facts: QueueFacts, after_seq: int | None, *, undo: bool) -> str:
    """Return why entries after *after_seq* do not come again, or an empty text.

    *after_seq* is None while only the source can tell the position. With *undo* the listener undoes these entries
    first.
    """
    if facts.has_ended:
        return "the link has ended, so the source sends nothing: begin the link again there by `lrq link begin`"
    if not facts.is_in_log:
        return (
            "the subscriber has not applied the newest snapshot, or has never begun: nothing of the log can come again"
        )
    if after_seq is not None and after_seq >= facts.applied_seq:
        return f"entries up to {facts.applied_seq:,} are applied, so none after {after_seq:,} can come again"
    if after_seq is not None and after_seq < facts.floor_seq:
        return (
            f"entries up to {facts.floor_seq:,} came with a snapshot: order those from {facts.floor_seq + 1:,}, or "
            "request a snapshot at the source"
        )
    if undo and not facts.undoes:
        return (
            "the listener has no on_rollback, so it cannot undo applied entries: write one, or order the replay with "
            "--without-undo if entries may be applied over those that are there"
        )
    if facts.is_undoing and not undo:
        return "the listener still undoes entries of an earlier rollback: order the replay again once it has"
    return ""


def gone_back(marks: ReceiveState, after: Position) -> ReceiveState:
    """Return the marks of a queue that goes back to *after*, the end of a tick of its own history."""
    received = Position(after.branch, after.seq, marks.received.cut)
    return replace(marks, received=received, boundary_seq=after.seq, ended_seq=NOT_ENDED)
