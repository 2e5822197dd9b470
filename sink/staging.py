"""The inbox rule for snapshots: what is staged, what is published, what is refused. Pure."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from queues.positions import Position
from queues.receive.marks import Marks, Staging
from queues.wire.replication_pb2 import Refusal
from sink.machine import Nothing, Refuse


@dataclass(frozen=True, slots=True)
class Stage:
    """Keep these marks and forget what is staged of other snapshots than the published one."""

    marks: Marks


@dataclass(frozen=True, slots=True)
class TakeRows:
    """Stage the rows of a chunk after the first `skip`."""

    skip: int


@dataclass(frozen=True, slots=True)
class Publish:
    """Let the staged snapshot replace everything, and keep these marks."""

    marks: Marks


@dataclass(frozen=True, slots=True)
class StartAgain:
    """The staged rows are not the snapshot's: refuse, and forget them so that the transfer begins anew."""

    marks: Marks
    refuse: Refuse


class Claim(NamedTuple):
    """What an end marker says of its snapshot."""

    sync_id: str
    base: Position
    rows: int
    bytes: int
    checksum: int


def decide_begin(marks: Marks, sync_id: str) -> Nothing | Stage | Refuse:
    """Decide about the begin of a snapshot: resumed if it is the one being staged, else it replaces that one."""
    if not sync_id:
        return Refuse(Refusal.CORRUPT, "a snapshot begins without a sync_id")
    if sync_id in (marks.sync_id, marks.staging.sync_id):
        return Nothing()
    return Stage(replace(marks, staging=Staging(sync_id)))


def decide_chunk(marks: Marks, sync_id: str, first_row: int, rows: int) -> Nothing | TakeRows | Refuse:
    """Decide about *rows* rows of a snapshot, the first of which has the number *first_row* (from 1)."""
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


def decide_end(marks: Marks, claim: Claim) -> Nothing | Publish | StartAgain | Refuse:
    """Decide about an end marker: only what it counts and sums up exactly is published."""
    staging = marks.staging
    if claim.sync_id and claim.sync_id == marks.sync_id:
        return Nothing()
    if claim.sync_id != staging.sync_id or not claim.sync_id:
        return _other_snapshot(marks, claim.sync_id)
    if not claim.base.branch:
        return Refuse(Refusal.CORRUPT, "the end of a snapshot names no position where the log continues")
    if staging.rows < claim.rows:
        return Refuse(Refusal.CORRUPT, f"the snapshot has {claim.rows} rows, but only {staging.rows} arrived")
    if staging != Staging(claim.sync_id, claim.rows, claim.bytes, claim.checksum):
        return StartAgain(replace(marks, staging=Staging(claim.sync_id)), _mismatch(staging, claim))
    return Publish(
        replace(
            marks,
            received=claim.base,
            boundary_seq=claim.base.seq,
            staging=Staging(),
            sync_id=claim.sync_id,
            sync_rows=claim.rows,
            base_seq=claim.base.seq,
        )
    )


def _other_snapshot(marks: Marks, sync_id: str) -> Refuse:
    staged = marks.staging.sync_id or "none"
    return Refuse(Refusal.OTHER_SNAPSHOT, f"snapshot {sync_id or 'without id'} is not the one being staged ({staged})")


def _mismatch(staging: Staging, claim: Claim) -> Refuse:
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
