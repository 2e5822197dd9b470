"""The sink's rule for snapshots: stage, publish or refuse. Pure."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from queues.positions import Position
from queues.receive.marks import NOT_ENDED, ReceiveState, StagedRows
from queues.wire.replication_pb2 import Refusal
from sink.protocol.log_rules import Nothing, Refuse


@dataclass(frozen=True, slots=True)
class Stage:
    """Store these marks, and delete the staged rows of all snapshots except the published one."""

    marks: ReceiveState


@dataclass(frozen=True, slots=True)
class TakeRows:
    """Stage the rows of a chunk after the first `skip`."""

    skip: int


@dataclass(frozen=True, slots=True)
class Publish:
    """Replace the queue's content by the staged snapshot, and store these marks."""

    marks: ReceiveState


@dataclass(frozen=True, slots=True)
class StartAgain:
    """The staged rows differ from the snapshot: refuse, and delete them so that the transfer starts again."""

    marks: ReceiveState
    refuse: Refuse


class SnapshotClaim(NamedTuple):
    """The content of a snapshot's end marker."""

    sync_id: str
    base: Position
    rows: int
    bytes: int
    checksum: int


def decide_begin(marks: ReceiveState, sync_id: str) -> Nothing | Stage | Refuse:
    """Decide about the begin of a snapshot: resume it if it is being staged, otherwise replace the staged one."""
    if not sync_id:
        return Refuse(Refusal.CORRUPT, "a snapshot begins without a sync_id")
    if sync_id in (marks.sync_id, marks.staging.sync_id):
        return Nothing()
    return Stage(replace(marks, staging=StagedRows(sync_id)))


def decide_chunk(marks: ReceiveState, sync_id: str, first_row: int, rows: int) -> Nothing | TakeRows | Refuse:
    """Decide about *rows* rows of a snapshot; *first_row* is the number of the first, from 1."""
    if sync_id and sync_id == marks.sync_id:
        return Nothing()
    if sync_id != marks.staging.sync_id or not sync_id:
        return _other_snapshot(marks, sync_id)
    if first_row < 1:
        return Refuse(Refusal.CORRUPT, "the rows of a snapshot are numbered from 1")
    skip = marks.staging.rows + 1 - first_row
    if skip < 0:
        return Refuse(Refusal.GAP, f"row {first_row} of the snapshot follows row {marks.staging.rows}")
    return TakeRows(skip) if skip < rows else Nothing()


def decide_end(marks: ReceiveState, claim: SnapshotClaim) -> Nothing | Publish | StartAgain | Refuse:
    """Decide about an end marker: the snapshot is published only if counts and checksum match exactly."""
    staging = marks.staging
    if claim.sync_id and claim.sync_id == marks.sync_id:
        return Nothing()
    if claim.sync_id != staging.sync_id or not claim.sync_id:
        return _other_snapshot(marks, claim.sync_id)
    if not claim.base.branch:
        return Refuse(Refusal.CORRUPT, "the end of a snapshot names no position where the log continues")
    if staging.rows < claim.rows:
        return Refuse(Refusal.CORRUPT, f"the snapshot has {claim.rows} rows, but only {staging.rows} arrived")
    if staging != StagedRows(claim.sync_id, claim.rows, claim.bytes, claim.checksum):
        return StartAgain(replace(marks, staging=StagedRows(claim.sync_id)), _mismatch(staging, claim))
    return Publish(
        replace(
            marks,
            received=claim.base,
            boundary_seq=claim.base.seq,
            staging=StagedRows(),
            sync_id=claim.sync_id,
            sync_rows=claim.rows,
            base_seq=claim.base.seq,
            entries_total=marks.entries_total + claim.rows,
            ended_seq=NOT_ENDED,
        )
    )


def _other_snapshot(marks: ReceiveState, sync_id: str) -> Refuse:
    staged = marks.staging.sync_id or "none"
    return Refuse(Refusal.OTHER_SNAPSHOT, f"snapshot {sync_id or 'without id'} is not the one being staged ({staged})")


def _mismatch(staging: StagedRows, claim: SnapshotClaim) -> Refuse:
    differing = [
        f"{name} {there} instead of {said}"
        for name, there, said in (
            ("rows", staging.rows, claim.rows),
            ("bytes", staging.bytes, claim.bytes),
            ("checksum", staging.checksum, claim.checksum),
        )
        if there != said
    ]
    return Refuse(Refusal.CORRUPT, f"the snapshot arrived with {', '.join(differing)}: its transfer starts again")
