"""Decide how a session continues after every connect, failover, restore and trim. Pure.

See docs/design.md, "One decision".
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from lr_server.protocol.dcp import DcpResume, DcpRollback, dcp_decide
from lr_server.protocol.histories import OfferedSnapshot, SinkHistory, SourceHistory, TickKey
from queues.names import ClientName
from queues.positions import Position

#: The begin of an empty sink: a snapshot, the oldest entry in the log, or the right one of both.
InitialSync = Literal["auto", "snapshot", "log"]


def without_provider(client: ClientName, *, is_member: bool = False) -> str:
    """Return the sentence for a session that waits for a snapshot, while no provider of *client* runs.

    *is_member*: the site is one of several replicas, so only a snapshot helps.
    """
    start = f"no provider of client {client} is running: start one (`lrq provide`)"
    other = ', or set initial_sync = "log" if the snapshot is the first one, and restart the server'
    return start if is_member else start + other


#: The reason of the first snapshot of a session; the request for the snapshot carries it.
FIRST_SNAPSHOT: Final = "the sink has nothing yet, so it gets a snapshot first"

#: The reason of snapshots for sites that came to a group or left it while they had a session.
REGROUPED: Final = "the site gets other entries than before, because groups of replicas have changed"


class Cause(StrEnum):
    """Every reason for which a full snapshot is needed."""

    NOTHING_YET = "nothing yet"
    ORDERED = "ordered"
    TRIMMED = "trimmed"
    APPLIED = "applied"
    NO_COMMON_HISTORY = "no common history"
    CUT = "cut"
    SET_BACK = "set back"
    SNAPSHOT_UNUSABLE = "snapshot unusable"


@dataclass(frozen=True, slots=True)
class Resume:
    """Send the log from `position`, the sink's received position; read after `read_after`.

    The entries between `position.seq` and `read_after` are not for this session, and some may be trimmed.
    """

    position: Position
    read_after: int
    reason: str


@dataclass(frozen=True, slots=True)
class Rollback:
    """Make the sink forget everything after `position`, then continue there; the listener undoes applied entries."""

    position: Position
    reason: str


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Request a new snapshot, which replaces every older request."""

    cause: Cause
    reason: str


@dataclass(frozen=True, slots=True)
class AwaitSnapshot:
    """Wait for a snapshot that is requested already."""

    sync_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ResumeSnapshot:
    """Transfer the offered snapshot; the sink has staged the first `rows` rows."""

    sync_id: str
    rows: int
    reason: str


@dataclass(frozen=True, slots=True)
class ConfirmSnapshot:
    """Record that the sink has the offered snapshot, then negotiate again: only an acknowledgement was lost."""

    sync_id: str
    reason: str


Decision = Resume | Rollback | Rebuild | AwaitSnapshot | ResumeSnapshot | ConfirmSnapshot


def decide(
    source: SourceHistory, sink: SinkHistory, *, initial_sync: InitialSync, forced: str | None = None
) -> Decision:
    """Return how the session continues, with the reason in words.

    A session never resumes above the history that both sides share. A snapshot is requested only for a `Cause`.

    Args:
        source: The history of this site.
        sink: The answer of the other site.
        initial_sync: How an empty sink begins.
        forced: The reason of a full sync that was ordered and has no snapshot request yet.
    """
    offered = source.snapshot
    if offered is not None and offered.sync_id == sink.sync_id and offered.ready:
        return ConfirmSnapshot(
            offered.sync_id, f"the sink has completed snapshot {offered.sync_id}, only its acknowledgement was lost"
        )
    if forced is not None:
        return Rebuild(Cause.ORDERED, forced)
    if offered is not None:
        return _continue_snapshot(source, sink, offered)
    if sink.is_empty:
        return _begin(source, sink, initial_sync)
    return _continue_log(source, sink)


def obsolete_request(source: SourceHistory, sink: SinkHistory, *, initial_sync: InitialSync) -> str | None:
    """Return the request for a first snapshot that has become unnecessary since; None without one.

    Either `initial_sync` has changed, or the provider has left before its first snapshot. The session begins with the
    log once the request is cancelled. A snapshot that was ordered, is ready or has begun to arrive stays.
    """
    offered = source.snapshot
    if offered is None or offered.ready or not offered.is_first or not begins_with_log(source, initial_sync):
        return None
    return offered.sync_id if sink.is_empty and sink.staged is None else None


def begins_with_log(source: SourceHistory, initial_sync: InitialSync) -> bool:
    """Return whether an empty sink begins with the log.

    With "auto" only a log that is whole begins a session, and only where no snapshot can be expected. So no entry is
    skipped, and no state from before the log is missed silently. A member of replicas begins with a whole log only,
    because members never differ.
    """
    if initial_sync == "auto":
        return source.is_whole and not source.is_provided
    return initial_sync == "log" and (source.is_whole or not source.is_member)


def _begin(source: SourceHistory, sink: SinkHistory, initial_sync: InitialSync) -> Resume | Rebuild:
    if not begins_with_log(source, initial_sync):
        return Rebuild(Cause.NOTHING_YET, FIRST_SNAPSHOT)
    why = (
        "initial_sync is 'log': the session begins with the oldest kept entry"
        if initial_sync == "log"
        else "the log is whole for it, and no provider is there: the session begins with the first entry"
    )
    return Resume(sink.received, source.trimmed_seq, f"the sink has nothing yet, and {why}")


def _continue_snapshot(source: SourceHistory, sink: SinkHistory, offered: OfferedSnapshot) -> Decision:
    name = f"snapshot {offered.sync_id}"
    if not offered.ready:
        if offered.sync_id == sink.sync_id:
            return Rebuild(
                Cause.SNAPSHOT_UNUSABLE,
                f"the sink has {name} already, but this source was restored and has not built it yet",
            )
        return AwaitSnapshot(offered.sync_id, f"{name} was requested and is not ready yet")
    staged = sink.staged.rows if sink.staged is not None and sink.staged.sync_id == offered.sync_id else 0
    base = offered.base
    if base.seq < source.lost_seq:
        return Rebuild(
            Cause.TRIMMED, f"{name} ends at {base.seq}, but entries up to {source.lost_seq} are trimmed already"
        )
    if isinstance(_compare(source, base, base.seq, base.seq), DcpRollback):
        return Rebuild(Cause.SNAPSHOT_UNUSABLE, f"{name} ends at a position that is not in this source's history")
    if staged > offered.rows:
        return Rebuild(
            Cause.SNAPSHOT_UNUSABLE, f"the sink has staged {staged} rows of {name}, which has only {offered.rows}"
        )
    return ResumeSnapshot(offered.sync_id, staged, f"{name} is ready, the sink has {staged} of its {offered.rows} rows")


def _continue_log(source: SourceHistory, sink: SinkHistory) -> Decision:
    received = sink.received
    if received.seq < source.lost_seq:
        return Rebuild(
            Cause.TRIMMED,
            f"the sink has received up to {received.seq}, but entries for it up to {source.lost_seq} are trimmed",
        )
    if received.seq <= source.lacked_base:
        # The snapshot may hold more than the log: a state without entries, or those of a group that was joined.
        return Rebuild(
            Cause.SET_BACK,
            f"the sink has received up to {received.seq}, and has lost its snapshot that ends at {source.lacked_base}",
        )
    tip = _vouching_header(sink)
    answer = _compare(source, received, sink.boundary_seq, received.seq if tip is None else tip.seq)
    match answer:
        case DcpResume() if received.seq == 0 or tip in source.known:
            if _is_void(source, received):
                return _cut_is_void(received)
            return Resume(
                received,
                max(received.seq, source.trimmed_seq),
                f"source and sink agree on everything up to {received.seq}",
            )
        case DcpResume():
            return _roll_back(source, sink, sink.boundary_seq)
        case DcpRollback():
            return _roll_back(source, sink, answer.seq)


def _vouching_header(sink: SinkHistory) -> TickKey | None:
    # Inside a tick only its own header proves its rows: the earlier headers say nothing about them.
    later = (header for header in sink.headers if header.seq >= sink.received.seq)
    return min(later, key=lambda header: header.seq, default=None)


def _roll_back(source: SourceHistory, sink: SinkHistory, upto: int) -> Rollback | Rebuild:
    received = sink.received
    shared = _newest_shared(source, sink, upto)
    ahead = f"the sink has received up to {received.seq}, which is not in this source's history"
    if shared is None:
        return Rebuild(Cause.NO_COMMON_HISTORY, f"{ahead}, and they share no tick")
    # The cut is still valid at the beginning of a tick that the sink has in part.
    kept_cut = received.cut if shared.seq == sink.boundary_seq else ""
    if received.cut != kept_cut or _is_void(source, received):
        return _cut_is_void(received)
    if shared.seq < source.lost_seq:
        return Rebuild(
            Cause.TRIMMED, f"{ahead}; they agree up to {shared.seq}, but entries up to {source.lost_seq} are trimmed"
        )
    if shared.seq < sink.applied_seq and not sink.undoes:
        return Rebuild(
            Cause.APPLIED,
            f"{ahead}; they agree up to {shared.seq}, but applied entries up to {sink.applied_seq} cannot be undone",
        )
    undone = f", and the listener undoes what it has applied up to {sink.applied_seq}"
    agreed = f"they agree up to {shared.seq}{undone if shared.seq < sink.applied_seq else ''}"
    return Rollback(Position(shared.branch, shared.seq, kept_cut), f"{ahead}; {agreed}")


def _newest_shared(source: SourceHistory, sink: SinkHistory, upto: int) -> TickKey | None:
    shared = [header for header in sink.headers if header.seq <= upto and header in source.known]
    if sink.boundary_seq == 0 and any(branch.branch == sink.received.branch for branch in source.branches):
        shared.append(TickKey(sink.received.branch, 0, 0))  # before the first tick histories cannot differ
    return max(shared, key=lambda header: header.seq, default=None)


def _is_void(source: SourceHistory, received: Position) -> bool:
    # A cut holds transaction ids of its own history. On another branch, or after the restore of a copy that keeps its
    # branch, these ids mean other transactions. No header tells that: the transactions may have no tick yet.
    return received.cut != "" and (received.branch != source.branches[-1].branch or not source.knows_cut)


def _cut_is_void(received: Position) -> Rebuild:
    return Rebuild(
        Cause.CUT,
        f"the sink's snapshot goes beyond {received.seq}, where this source's history has diverged",
    )


def _compare(source: SourceHistory, position: Position, snap_start: int, snap_end: int) -> DcpResume | DcpRollback:
    return dcp_decide(
        start=position.seq,
        snap_start=snap_start,
        snap_end=snap_end,
        branch=position.branch,
        failover_log=source.branches,
        high_seq=source.newest_seq,
        purge_seq=source.lost_seq,
    )
